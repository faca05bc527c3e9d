package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// openDense opens a file of vectors. A file of sparse records gives vectors,
// too: what a record leaves out is zero, and where the file does not say how
// many features there are it is taken to have as many as the collection, or as its
// records name if there is no collection yet. labels is the path of an idx file of labels beside the
// vectors, or empty.
func openDense(path, labels string, f fileFlags, s sparseFlags, to target) (dataset.Reader, error) {
	if holdsSparse(path, f, s) {
		if labels != "" {
			return nil, usagef("--labels goes with idx files; the records of %s have their own", path)
		}
		return openFilled(path, f, s, to)
	}
	o, err := f.options(labels)
	if err != nil {
		return nil, err
	}
	return dataset.Open(path, o)
}

// filled reads sparse records as vectors.
type filled struct {
	in  *sparseInput
	dim int
	rec dataset.SparseRecord
}

func openFilled(path string, f fileFlags, s sparseFlags, to target) (*filled, error) {
	in, err := openSparse(path, f, s, to)
	if err != nil {
		return nil, err
	}
	dim := 0
	if to.info != nil {
		dim = to.info.Dim
	}
	if in.namesItself() {
		_ = in.Close()
		return nil, usagef("the features of %s have names, and those of vectors have numbers", path)
	}
	if n := in.NumFeatures(); n >= 1 {
		dim = n
	}
	if dim < 1 {
		if dim, err = countFeatures(path, f, s, to); err != nil {
			_ = in.Close()
			return nil, err
		}
	}
	return &filled{in: in, dim: dim}, nil
}

// countFeatures reads a file for the largest number of a feature.
func countFeatures(path string, f fileFlags, s sparseFlags, to target) (n int, err error) {
	in, err := openSparse(path, f, s, to)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	var rec dataset.SparseRecord
	for {
		switch err := in.Read(&rec); {
		case err == io.EOF && n == 0:
			return 0, fmt.Errorf("no record of %s has a feature, so there is no dimension: %w", path, db.ErrDimension)
		case err == io.EOF:
			return n, nil
		case err != nil:
			return 0, err
		}
		for _, f := range rec.Features.Index {
			n = max(n, int(f)+1)
		}
	}
}

// Dim implements dataset.Reader.
func (r *filled) Dim() int { return r.dim }

// Keyed implements dataset.Reader.
func (r *filled) Keyed() bool { return r.in.Keyed() }

// Len implements dataset.Reader.
func (r *filled) Len() int64 { return r.in.Len() }

// Close implements dataset.Reader.
func (r *filled) Close() error { return r.in.Close() }

// Read implements dataset.Reader.
func (r *filled) Read(rec *dataset.Record) error {
	if err := r.in.Read(&r.rec); err != nil {
		return err
	}
	rec.Key, rec.Labels, rec.Payload = r.rec.Key, r.rec.Labels, r.rec.Payload
	rec.Vector = append(rec.Vector[:0], make([]float32, r.dim)...)
	for i, f := range r.rec.Features.Index {
		if int(f) >= r.dim {
			first := uint32(0)
			if r.in.Base() == dataset.BaseOne {
				first = 1
			}
			return fmt.Errorf("%s: record %q has a feature %d, the collection %d dimensions from %d on: %w",
				r.in.path, rec.Key, f+first, r.dim, first, db.ErrDimension)
		}
		rec.Vector[f] = r.rec.Features.Value[i]
	}
	return nil
}

// readDenseQueries reads all vectors of a file, which must have the dimensions of
// the collection, with their labels, as queries to a label model.
func readDenseQueries(path, labels string, f fileFlags, s sparseFlags, to target) (*labelQueries, error) {
	dim := to.info.Dim
	in, err := openDense(path, labels, f, s, to)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if in.Dim() != dim {
		return nil, fmt.Errorf("%s has %d dimensions, the collection %d: %w", path, in.Dim(), dim, db.ErrDimension)
	}
	out := &labelQueries{}
	if x, ok := in.(*filled); ok {
		out.names = x.in.allLabels()
	}
	var rec dataset.Record
	for {
		err := in.Read(&rec)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		out.keys = append(out.keys, string(rec.Key))
		out.queries = append(out.queries, db.SparseQuery{Vector: slices.Clone(rec.Vector)})
		out.labels = append(out.labels, slices.Clone(rec.Labels))
	}
	if len(out.keys) == 0 {
		return nil, fmt.Errorf("%s holds no vectors", path)
	}
	return out, nil
}

// readLabelQueries reads all records of a file as queries to label models of a
// collection.
func readLabelQueries(path, labels string, f fileFlags, s sparseFlags, to target) (*labelQueries, error) {
	switch {
	case !to.info.Sparse:
		return readDenseQueries(path, labels, f, s, to)
	case labels != "":
		return nil, usagef("--labels goes with idx files, and %q is sparse", to.info.Name)
	}
	return readSparseQueries(path, f, s, to)
}
