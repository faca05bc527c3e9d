package state

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// Sparse loads the rows of a sparse collection.
func (st *Collection) Sparse(ctx context.Context) (*kind.SparseSet, error) {
	if !st.Entry.Sparse {
		return nil, fmt.Errorf("%w: %q has no features", fail.Kind, st.Entry.Name)
	}
	return &st.sparseRows, st.Load(ctx)
}

func (st *Collection) loadSparse(ctx context.Context) (err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	c, g := st.Entry, st.Gen
	vals, err := g.section(ctx, c.Name, c.ID, codec.KindSparse, int(c.ChunkCount()))
	if err != nil {
		return err
	}
	set := kind.SparseSet{N: int(c.Rows), Shift: c.Shift(), Live: int(c.Live)}
	// Chunks never change and Features only grows, so a valid chunk stays valid.
	checked := g.File.checked.Section(c.ID, codec.KindSparse)
	for i, v := range vals {
		chunk, err := rows.ViewSparse(v.payload, 1<<c.Shift(), c.Features, !checked.Has(uint32(i)))
		if err != nil {
			return st.damaged(codec.KindSparse, uint32(i), err)
		}
		checked.Set(uint32(i))
		set.Chunks = append(set.Chunks, chunk)
	}
	set.Tail = vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: c.Features}
	st.tailKeys = nil
	format := c.RowFormat()
	err = st.eachTail(func(row uint32, payload []byte) error {
		one, err := format.Split(payload)
		if err != nil {
			return err
		}
		set.Tail.Append(one.Sparse)
		st.tailKeys = append(st.tailKeys, one.Key)
		return nil
	})
	if err != nil {
		return err
	}
	if err := set.Tail.Validate(); err != nil {
		return fail.Corruptf(c.Name, "rows not sealed yet: %w", err)
	}
	if set.Tail.Cols > c.Features {
		return fail.Corruptf(c.Name, "feature %d of %d", set.Tail.Cols-1, c.Features)
	}
	deletedRows, err := st.tombstones()
	if err != nil {
		return err
	}
	set.DeletedRows = deletedRows
	st.sparseRows = set
	return nil
}
