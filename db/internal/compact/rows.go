package compact

import (
	"context"
	"iter"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// readRow copies a row as a transaction writes it, unless it is deleted, and keeps the decoded run of
// labels and payloads for the following rows.
func readRow(st *state.Collection, row uint32, run **state.ColdRun) (r rows.Row, live bool, err error) {
	if r, live, err = st.ReadRow(row, run); err != nil || !live {
		return r, false, err
	}
	err = forChange(st, &r)
	return r, err == nil, err
}

// deletedRow copies the key and the vector of a deleted row.
func deletedRow(st *state.Collection, row uint32) (r rows.Row, err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	if r, err = st.ReadVector(row); err == nil {
		err = forChange(st, &r)
	}
	return r, err
}

// forChange gives the features of a row their names, if they have names, as a transaction writes it. It
// checks the row as if a program had put it.
func forChange(st *state.Collection, r *rows.Row) (err error) {
	if st.Entry.Named {
		if r.Features, err = st.NamedFeatures(r.Sparse); err != nil {
			return err
		}
		r.Sparse = vector.Sparse{}
	}
	if err := layout.CheckRow(st.Entry, r); err != nil {
		return fail.Wrapf(err, "collection %q", st.Entry.Name)
	}
	return nil
}

// inOrder yields copies of the live rows of a collection in the order of their numbers.
func inOrder(st *state.Collection) iter.Seq2[rows.Row, error] {
	return func(yield func(rows.Row, error) bool) {
		var run *state.ColdRun
		for row := range st.Entry.Rows {
			r, live, err := readRow(st, row, &run)
			if err != nil {
				yield(rows.Row{}, err)
				return
			}
			if live && !yield(r, nil) {
				return
			}
		}
	}
}

// A search reads sketches, lists and vectors by row number, and reads rows that are near each
// other in space in succession. If rows are stored in arbitrary order, these reads are spread
// over the whole memory; if near rows have near numbers, they share cache lines and pages. That
// matters if an index is larger than the processor's caches.

// nearBatch is the number of bytes of vectors that are read together.
const nearBatch = 64 << 20

// nearRows iterates over a collection's live rows, near rows in succession.
func nearRows(ctx context.Context, st *state.Collection) (iter.Seq2[rows.Row, error], error) {
	order, err := nearOrder(ctx, st)
	if err != nil {
		return nil, err
	}
	return func(yield func(rows.Row, error) bool) {
		// Labels and payloads are stored in compressed runs. Therefore the rows of a batch are
		// read in the order of their numbers and then yielded in the new order.
		batch := max(1, nearBatch/(4*st.Entry.Dim))
		batched := make([]rows.Row, 0, min(batch, len(order)))
		for part := range slices.Chunk(order, batch) {
			batched = batched[:len(part)]
			places := make([]int, len(part))
			for i := range places {
				places[i] = i
			}
			slices.SortFunc(places, func(a, b int) int { return int(part[a]) - int(part[b]) })
			var run *state.ColdRun
			for _, at := range places {
				r, ok, err := readRow(st, part[at], &run)
				if err == nil && !ok {
					err = fail.Corruptf(st.Entry.Name, "row %d is deleted and is not", part[at])
				}
				if err != nil {
					yield(rows.Row{}, err)
					return
				}
				batched[at] = r
			}
			for i := range batched {
				if !yield(batched[i], nil) {
					return
				}
			}
		}
	}, nil
}

// nearOrder returns the order in which nearRows yields rows.
func nearOrder(ctx context.Context, st *state.Collection) (order []uint32, err error) {
	defer state.Guard(st.Gen.File, state.CatchFaults(), &err)
	return forestindex.NearFirst(ctx, st)
}
