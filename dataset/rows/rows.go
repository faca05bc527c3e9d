// Package rows turns the records of data files into rows of a database.
package rows

import (
	"cmp"
	"iter"
	"slices"

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
		Read(in)(yield)
	}
}

// Read is File for an open file, which it does not close.
func Read(in dataset.Reader) iter.Seq2[db.Row, error] {
	return func(yield func(db.Row, error) bool) {
		var row db.Row
		for rec, err := range dataset.All(in) {
			if err == nil {
				Of(&row, rec, in.Schema())
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// Of sets a row to a record of a file with the schema. It shares the memory of the record, and reuses that
// of the row's features.
func Of(row *db.Row, rec *dataset.Record, schema dataset.Schema) {
	named := row.Features[:0]
	*row = db.Row{
		Key: rec.Key, Text: rec.Text, Labels: rec.Labels, Payload: rec.Payload,
		Attributes: rec.Attributes, ExpiresAt: rec.ExpiresAt,
	}
	if len(rec.Vector) > 0 {
		row.Vector = rec.Vector
	}
	switch {
	case schema.Kind != dataset.Sparse:
	case schema.FeatureNames == nil:
		row.Sparse = rec.Features
	default:
		for i, f := range rec.Features.Index {
			named = append(named, vector.Feature{Name: schema.FeatureNames[f], Value: rec.Features.Value[i]})
		}
		row.Features = named
	}
}

// Schema returns the schema of a jsonl file with the rows of a collection.
func Schema(info *db.CollectionInfo) dataset.Schema {
	s := dataset.Schema{Format: dataset.FormatJSONL, Kind: dataset.Dense, Dim: info.Dim}
	switch {
	case info.Text != nil:
		s.Kind = dataset.Text
	case info.Sparse || info.Named:
		s.Kind = dataset.Sparse
	}
	if info.Named {
		s.FeatureNames = []string{}
	}
	return s
}

// Line returns a row as a line of a jsonl file. Rows of equal content have equal lines: it puts named
// features, which a file has in the order of their first use, into that of their names.
func Line(row *db.Row, info *db.CollectionInfo) ([]byte, error) {
	slices.SortFunc(row.Features, func(a, b vector.Feature) int { return cmp.Compare(a.Name, b.Name) })
	return AppendJSON(nil, row, Schema(info))
}

// AppendJSON appends a row as a line of a jsonl file with the schema of its collection.
func AppendJSON(dst []byte, row *db.Row, s dataset.Schema) ([]byte, error) {
	rec := dataset.Record{
		Key: row.Key, Vector: row.Vector, Features: row.Sparse, Text: row.Text, Labels: row.Labels,
		Payload: row.Payload, Attributes: row.Attributes, ExpiresAt: row.ExpiresAt,
	}
	for i, f := range row.Features {
		s.FeatureNames = append(s.FeatureNames, f.Name)
		rec.Features.Index = append(rec.Features.Index, uint32(i))
		rec.Features.Value = append(rec.Features.Value, f.Value)
	}
	return dataset.AppendJSON(dst, s, &rec)
}
