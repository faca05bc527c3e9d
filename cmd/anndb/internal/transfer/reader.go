package transfer

import (
	"io"
	"iter"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// readRows is how many rows are read at a time. Large ones must fit the memory.
const readRows = 16

// batchReader reads rows in batches.
type batchReader struct {
	in    *input.File
	into  *db.CollectionInfo // the collection, or that to be made
	keys  newKeys
	embed embedding
	size  int // rows of a batch
	batch []db.Row
	other []db.Row // the memory of the batch before
	row   db.Row   // of the record that was read last
	// mismatch is why no record of the file suits the collection.
	mismatch error
	ended    bool
}

// batches iterates over the batches, beginning with one that has been read already.
func (r *batchReader) batches(first []db.Row) iter.Seq2[[]db.Row, error] {
	return func(yield func([]db.Row, error) bool) {
		for batch, err := first, error(nil); len(batch) > 0 || err != nil; batch, err = r.next() {
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// next is the next batch, empty at the end. Its rows share no memory with the reader, and their memory is
// used again for the second batch after it.
func (r *batchReader) next() ([]db.Row, error) {
	r.batch, r.other = r.other, r.batch
	n := 0
	for n < r.size && !r.ended {
		if n == len(r.batch) {
			r.batch = append(r.batch, db.Row{})
		}
		switch err := r.read(&r.batch[n]); {
		case err == io.EOF:
			r.ended = true
		case err != nil:
			return nil, err
		default:
			n++
		}
	}
	return r.batch[:n], r.embed.rows(r, r.batch[:n])
}

// read reads a row into the memory of an earlier one.
func (r *batchReader) read(row *db.Row) error {
	rec := dataset.Record{
		Key: row.Key, Vector: row.Vector, Features: row.Sparse, Labels: row.Labels, Payload: row.Payload,
		Attributes: row.Attributes,
	}
	if err := r.in.Read(&rec); err != nil {
		return err
	}
	*row = r.row
	return r.mismatch
}

// check makes a row of a record and refuses one that the collection would not take.
func (r *batchReader) check(rec *dataset.Record) error {
	r.row = db.Row{
		Key: r.keys.of(rec.Key, r.in.Keyed), Labels: rec.Labels, Payload: rec.Payload,
		Attributes: rec.Attributes, ExpiresAt: rec.ExpiresAt,
	}
	if len(rec.Vector) > 0 { // a collection without vectors refuses it
		r.row.Vector = rec.Vector
	}
	switch {
	case r.in.Kind == dataset.Dense:
	case r.in.Kind == dataset.Text:
		r.row.Text = rec.Text
	case !r.into.Named && !r.in.NamesItself():
		r.row.Sparse = rec.Features
	default:
		var q db.Query
		if q, r.mismatch = r.in.Query(rec, r.into.Named); r.mismatch != nil {
			return nil
		}
		r.row.Sparse, r.row.Features = q.Sparse, q.Features
	}
	if err := r.into.CheckRow(r.row); err != nil {
		return command.OfFile(err)
	}
	return r.keys.once(r.row.Key)
}
