package dataset

import (
	"fmt"
	"io"
)

// openVectors opens the file of vectors next to records that are texts.
func (r *reader) openVectors(o Options) (err error) {
	if o.VectorsPath == "" {
		return nil
	}
	if s := r.dec.schema(); s.Kind != Text || s.Dim > 0 || r.awaits() {
		return fmt.Errorf("dataset: %w: %s: the records have vectors of their own, and take none from %s",
			ErrOption, r.src.path, o.VectorsPath)
	}
	in, err := Open(o.VectorsPath,
		Options{Context: o.Context, Kind: Dense, MaxDim: o.MaxDim, Queries: o.Queries})
	if err != nil {
		return err
	}
	r.vectors = in.(*reader)
	texts, vectors := r.dec.schema().Records, r.vectors.Schema().Records
	if r.max == 0 && texts >= 0 && vectors >= 0 && texts != vectors {
		return r.vectorCount("%d vectors, and %s has %d records", vectors, r.src.path, texts)
	}
	return nil
}

// vectorCount is the error of a file of vectors that has not as many as there are texts.
func (r *reader) vectorCount(text string, args ...any) error {
	return &FormatError{Path: r.vectors.src.path, Record: -1, Offset: -1, Err: fmt.Errorf(text, args...)}
}

// vector takes the record's vector from the file of vectors.
func (r *reader) vector(rec *Record) error {
	if r.vectors == nil {
		return nil
	}
	own := len(rec.Vector) > 0
	v := Record{Vector: rec.Vector}
	err := r.vectors.next(&v)
	switch {
	case err == io.EOF:
		return r.vectorCount("%d vectors, and %s has more records", r.place, r.src.path)
	case err == nil && own:
		return r.src.badRecord(r.place, -1, fmt.Errorf("a vector, and another one in %s", r.vectors.src.path))
	}
	rec.Vector = v.Vector
	return err
}

// endVectors checks that the file of vectors ends with the texts.
func (r *reader) endVectors() error {
	if r.vectors == nil || r.max > 0 && r.n == r.max {
		return nil
	}
	err := r.vectors.next(new(Record))
	switch {
	case err == io.EOF:
		return nil
	case err == nil || skippable(err):
		return r.vectorCount("more vectors than the %d records of %s", r.place, r.src.path)
	}
	return err
}
