package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// loadRows is the system that only writes the rows.
const loadRows = "load"

// collection is the name of the collection of rows, and of the model in it.
const collection = "rows"

// set is a data set with its division. Its rows are numbered by part.
type set struct {
	schema      db.Schema
	train, test lcifbench.Part // without features if rows are texts
	dense       bool
	// texts and vectors of the rows, by part; nil without.
	texts   [2][]string
	vectors [2][][]float32
}

// wordnets are what the rows of WordNet are given by, by the set's name.
var wordnets = []string{"wordnet-text", "wordnet-vectors", "wordnet-both"}

// setNames lists the sets, small ones first.
func setNames() []string {
	return append([]string{
		"medical", "cal500", "enron", "yeast", "scene", "corel5k", "bibtex", "reutersk500", "rcv1sub1", "rcv1sub2",
		"stackex_cs", "ohsumed", "yahoo_business", "yahoo_education", "corel16k001", "delicious", "ng20", "tmc2007-500",
		"news20-bydate", "imdb", "eurlex57k",
	}, wordnets...)
}

// readSet reads a set. After a name, @ and a number select a division of its training rows into two thirds and a
// third, which take the place of training and test rows: what is to be decided is decided by those.
func readSet(ctx context.Context, data, name string) (*set, error) {
	if whole, seed, ok := strings.Cut(name, "@"); ok {
		s, err := readSet(ctx, data, whole)
		if err != nil {
			return nil, err
		}
		return s, s.divide(seed)
	}
	if slices.Contains(wordnets, name) {
		return readWordNet(data, name)
	}
	x, err := lcifbench.Read(ctx, data, name)
	if err != nil {
		return nil, err
	}
	s := &set{train: x.Train, test: x.Test, dense: x.Dense}
	if s.dense {
		s.schema.Dim = x.Train.Rows.Cols
	} else {
		s.schema.Sparse = true
	}
	return s, nil
}

// divide divides the training rows.
func (s *set) divide(seed string) error {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		return err
	}
	folds, err := labels.KFold(s.train.Labels.Rows(), 3, n)
	if err != nil {
		return err
	}
	all, parts := *s, [2]*lcifbench.Part{&s.train, &s.test}
	for i, rows := range [][]int{folds[0].Train, folds[0].Test} {
		*parts[i] = lcifbench.Part{Labels: all.train.Labels.Select(rows)}
		if all.train.Rows != nil {
			parts[i].Rows = labels.SelectRows(all.train.Rows, rows)
		}
		s.texts[i], s.vectors[i] = nil, nil
		for _, row := range rows {
			if all.texts[0] != nil {
				s.texts[i] = append(s.texts[i], all.texts[0][row])
			}
			if all.vectors[0] != nil {
				s.vectors[i] = append(s.vectors[i], all.vectors[0][row])
			}
		}
	}
	return nil
}

// readWordNet reads the definitions of WordNet, whose labels are the lexicographer files. They are in the order of
// parts of speech and so divided by hash.
func readWordNet(data, name string) (*set, error) {
	folder := filepath.Join(data, "wordnet")
	rows, err := dataset.Open(filepath.Join(folder, "rows.jsonl.gz"), dataset.Options{
		Kind: dataset.Text, IgnoreColumns: []string{"words"},
	})
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	vectors, err := dataset.Open(filepath.Join(folder, "rows.f16.npy.gz"), dataset.Options{})
	if err != nil {
		return nil, err
	}
	defer vectors.Close()
	b, err := labels.NewBuilder(nil)
	if err != nil {
		return nil, err
	}
	var texts []string
	all := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: vectors.Schema().Dim}
	for rec, err := range dataset.All(rows) {
		if err != nil {
			return nil, err
		}
		b.Add(rec.Labels)
		texts = append(texts, rec.Text)
		var v dataset.Record
		if err := vectors.Read(&v); err != nil {
			return nil, err
		}
		all.Append(full(v.Vector))
	}
	s := &set{dense: name == "wordnet-vectors"}
	if !s.dense {
		s.schema.Text = &text.Schema{Analyzer: text.English}
	}
	train, test := lcifbench.Divide(len(texts))
	for part, list := range [][]int{train, test} {
		for _, i := range list {
			if !s.dense {
				s.texts[part] = append(s.texts[part], texts[i])
			}
			if name == "wordnet-both" {
				s.vectors[part] = append(s.vectors[part], all.Row(i).Value)
			}
		}
	}
	y := b.Matrix()
	s.train, s.test = lcifbench.Part{Labels: y.Select(train)}, lcifbench.Part{Labels: y.Select(test)}
	if s.dense {
		s.train.Rows, s.test.Rows = labels.SelectRows(all, train), labels.SelectRows(all, test)
	}
	if name != "wordnet-text" {
		s.schema.Dim = all.Cols
	}
	return s, nil
}

// full is a row with all coordinates.
func full(v []float32) vector.Sparse {
	r := vector.Sparse{Value: slices.Clone(v)}
	for j := range v {
		r.Index = append(r.Index, uint32(j))
	}
	return r
}

// dense returns the coordinates of a row, zeros included.
func dense(r vector.Sparse, n int) []float32 {
	out := make([]float32, n)
	for e, j := range r.Index {
		out[j] = r.Value[e]
	}
	return out
}

// query returns row i of a part as a query; texts are not yet made plain.
func (s *set) query(part, i int) (q db.Query) {
	p := []lcifbench.Part{s.train, s.test}[part]
	switch {
	case s.texts[part] != nil || s.vectors[part] != nil:
		if s.texts[part] != nil {
			q.Text = s.texts[part][i]
		}
		if s.vectors[part] != nil {
			q.Vector = s.vectors[part][i]
		}
	case s.dense:
		q.Vector = dense(p.Rows.Row(i), p.Rows.Cols)
	default:
		q.Sparse = p.Rows.Row(i)
	}
	return q
}

// load writes the training rows into a new file, whose labels are named by their numbers.
func (s *set) load(ctx context.Context, path string) (err error) {
	part := path + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	d, err := db.Open(ctx, part, &db.Options{NoSync: true, Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, d.Close()); err == nil {
			err = os.Rename(part, path)
		}
	}()
	coll, err := d.Create(ctx, collection, s.schema)
	if err != nil {
		return err
	}
	_, err = coll.Load(ctx, func(yield func(db.Row, error) bool) {
		for i := range s.train.Labels.Rows() {
			q := s.query(0, i)
			r := db.Row{Key: fmt.Append(nil, i), Vector: q.Vector, Sparse: q.Sparse, Text: q.Text}
			for _, l := range s.train.Labels.Row(i) {
				r.Labels = append(r.Labels, fmt.Sprint(l))
			}
			if !yield(r, nil) {
				return
			}
		}
	}, nil)
	return err
}

// standardize gives the columns of the first n rows mean 0 and deviation 1, and does the same to the others.
func standardize(x *vector.CSR, n int) {
	mean, square := make([]float64, x.Cols), make([]float64, x.Cols)
	for i := range n {
		for j, v := range dense(x.Row(i), x.Cols) {
			mean[j] += float64(v) / float64(n)
			square[j] += float64(v) * float64(v) / float64(n)
		}
	}
	out := vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: x.Cols}
	for i := range x.Rows() {
		row := full(dense(x.Row(i), x.Cols))
		for j, v := range row.Value {
			deviation := math.Sqrt(max(square[j]-mean[j]*mean[j], 1e-12))
			row.Value[j] = float32((float64(v) - mean[j]) / deviation)
		}
		out.Append(row)
	}
	*x = out
}
