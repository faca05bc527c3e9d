package check

import (
	"context"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// Index checks that the arrays of an index are consistent with each other.
func Index(ctx context.Context, st *state.Collection, r *layout.IndexRef) (err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	x, err := st.OpenIndex(ctx, r)
	if err != nil {
		return err
	}
	if learns := x.Manifest.Of.Traits().Predicts; r.Labels != learns {
		return fail.Corruptf(st.Entry.Name, "the catalog has Labels = %v for an index of kind %s",
			r.Labels, x.Manifest.Kind)
	}
	if _, err := st.Relabelled(r.Object); err != nil {
		return err
	}
	return x.Opened.Check(ctx)
}

// IndexBlocks checks the checksum of every block of an index, and that its arrays are
// consistent.
func IndexBlocks(ctx context.Context, st *state.Collection, r *layout.IndexRef) (err error) {
	for _, object := range r.Objects() {
		if err := Blocks(st, object); err != nil {
			return err
		}
	}
	if st.Load(ctx) != nil {
		return nil // the rows are damaged; the index cannot be checked without them
	}
	return Index(ctx, st, r)
}

// Blocks checks the checksum of every block of an object.
func Blocks(st *state.Collection, object uint64) (err error) {
	g := st.Gen
	g.Locked(func() {
		from := codec.Key(object, 0, 0)
		c := g.Tx.Bucket(layout.BucketBlocks).Cursor()
		for k, v := c.Seek(from[:]); err == nil && len(k) == codec.KeySize &&
			string(k[:8]) == string(from[:8]); k, v = c.Next() {
			_, kind, chunk := codec.ParseKey(k)
			if _, e := layout.ParseBlock(k, v, true); e != nil {
				err = layout.BlockError(st.Entry.Name, object, kind, chunk, e)
			}
		}
	})
	return err
}
