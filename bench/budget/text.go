package main

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// readXMC appends a file's rows to x and the label builder.
func readXMC(path string, names []string, x *vector.CSR, b *labels.Builder) error {
	r, err := dataset.Open(path, dataset.Options{Kind: dataset.Sparse, Format: dataset.FormatXMC, LabelNames: names})
	if err != nil {
		return fmt.Errorf("%w: %w", errSkipped, err)
	}
	defer r.Close()
	for rec, err := range dataset.All(r) {
		if err != nil {
			return err
		}
		x.Append(rec.Features)
		b.Add(rec.Labels)
	}
	return nil
}

// tfidf weights counts by 1 + log count and by log n/df over the first n rows,
// and makes the rows of unit length. Features that these rows lack get zero.
func tfidf(x *vector.CSR, n int) {
	df := make([]float64, x.Cols)
	for _, j := range x.Index[:x.Ptr[n]] {
		df[j]++
	}
	for e, j := range x.Index {
		if df[j] == 0 {
			x.Value[e] = 0
			continue
		}
		x.Value[e] = float32((1 + math.Log(float64(x.Value[e]))) * math.Log(float64(n)/df[j]))
	}
	for i := range x.Rows() {
		row := x.Row(i)
		if norm := row.Norm(); norm > 0 {
			for e := range row.Value {
				row.Value[e] = float32(float64(row.Value[e]) / norm)
			}
		}
	}
}
