package state

import (
	"context"
	"slices"

	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/vector"
)

// ReadRow copies a row out of the map, if there is a live row with the number, and keeps the decoded
// run of the other parts for the following rows. Features are numbers, even if they have names.
func (st *Collection) ReadRow(row uint32, run **ColdRun) (r rows.Row, live bool, err error) {
	defer Guard(st.Gen.File, CatchFaults(), &err)
	if err := st.Load(context.Background()); err != nil || row >= st.Entry.Rows || st.Deleted(row) {
		return r, false, err
	}
	if r, err = st.ReadVector(row); err != nil {
		return r, false, err
	}
	r.Cold, err = st.Cold(row, run)
	return r, err == nil, err
}

// ReadVector copies the key and the vector of a row, which may be deleted, out of the map. Load must
// have succeeded.
func (st *Collection) ReadVector(row uint32) (r rows.Row, err error) {
	key, err := st.Key(row)
	if err != nil {
		return r, err
	}
	r.Key = slices.Clone(key)
	if st.Entry.Sparse {
		x := st.sparseRows.Row(row)
		r.Sparse = vector.Sparse{Index: append([]uint32{}, x.Index...), Value: append([]float32{}, x.Value...)}
	}
	if st.Entry.Dim > 0 && !st.vectorless(row) {
		r.Vector = slices.Clone(st.base.Rows.Vector(int(row), make([]float32, st.Entry.Dim)))
	}
	return r, nil
}

// vectorless reports whether a row that is not deleted has no vector. Load must have succeeded.
func (st *Collection) vectorless(row uint32) bool {
	return st.Entry.Both() && st.base.Deleted != nil && st.base.Deleted.Contains(row)
}

// HasVector reports whether a row that is not deleted has a vector. Load must have succeeded.
func (st *Collection) HasVector(row uint32) bool { return st.Entry.Dim > 0 && !st.vectorless(row) }

// SparseRow returns the features of a row, in the map. Load must have succeeded.
func (st *Collection) SparseRow(row uint32) vector.Sparse { return st.sparseRows.Row(row) }
