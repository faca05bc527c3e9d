// Package rows turns the records of data files into rows of a database.
package rows

import (
	"iter"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// File iterates over the records of a file, or of a folder of texts, as rows: dense ones with a vector,
// texts with a text and the vector next to it, sparse ones with named features if the file names them,
// with numbered ones otherwise. It opens the file when the iteration begins and closes it when that
// ends. The memory of a row is reused for the next one. The iteration ends after an error, which names
// the file and the line.
func File(path string, o dataset.Options) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		in, err := dataset.Open(path, o)
		if err != nil {
			yield(db.Row{}, err)
			return
		}
		defer in.Close()
		var named []vector.Feature
		for rec, err := range dataset.All(in) {
			if err != nil {
				yield(db.Row{}, err)
				return
			}
			row := db.Row{
				Key: rec.Key, Labels: rec.Labels, Payload: rec.Payload,
				Attributes: rec.Attributes, ExpiresAt: rec.ExpiresAt,
			}
			schema := in.Schema()
			switch {
			case schema.Kind == dataset.Dense:
				row.Vector = rec.Vector
			case schema.Kind == dataset.Text:
				if row.Text = rec.Text; len(rec.Vector) > 0 {
					row.Vector = rec.Vector
				}
			case schema.FeatureNames == nil:
				row.Sparse = rec.Features
			default:
				named = named[:0]
				for i, f := range rec.Features.Index {
					name := schema.FeatureNames[f]
					named = append(named, vector.Feature{Name: name, Value: rec.Features.Value[i]})
				}
				row.Features = named
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
