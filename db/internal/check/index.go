package check

import (
	"bytes"
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
	g := st.Gen
	for _, object := range r.Objects() {
		from := codec.Key(object, 0, 0)
		g.Locked(func() {
			c := g.Tx.Bucket(layout.BucketBlocks).Cursor()
			for k, v := c.Seek(from[:]); err == nil && bytes.HasPrefix(k, from[:8]); k, v = c.Next() {
				if _, e := layout.ParseBlock(k, v, true); e != nil {
					_, section, chunk := codec.ParseKey(k)
					err = layout.BlockError(st.Entry.Name, object, section, chunk, e)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if st.Load(ctx) != nil {
		return nil // the rows are damaged; the index cannot be checked without them
	}
	return Index(ctx, st, r)
}
