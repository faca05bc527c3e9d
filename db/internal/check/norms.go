package check

import (
	"context"
	"fmt"
	"math"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// norms are the stored inverse norms of the rows in chunks, by chunk. There are none unless the metric is
// the cosine.
type norms struct {
	of    *layout.Collection
	byRow [][]float32
}

// storedNorms returns the norms of a collection.
func storedNorms(ctx context.Context, st *state.Collection) (norms, error) {
	n := norms{of: st.Entry}
	if n.of.Sparse || n.of.Metric != vector.Cosine {
		return n, nil
	}
	view, err := st.Rows(ctx)
	if err != nil {
		return n, err
	}
	n.byRow = view.Rows.InvNorm[:n.of.ChunkCount()] // those of later rows are not stored
	return n, nil
}

// row checks the norm of a row: searches compute distances with it.
func (n norms) row(row uint32, x []float32) error {
	chunk := row >> n.of.Shift()
	if chunk >= uint32(len(n.byRow)) {
		return nil
	}
	stored, want := n.byRow[chunk][row-chunk<<n.of.Shift()], vector.InverseNorm(x)
	// Kernels add the float32 squares in different orders, each with an error of at most one
	// rounding for each element; the root halves the error.
	room := float64(len(x)+4) * 0x1p-24 * float64(want)
	if stored == want || math.Abs(float64(stored)-float64(want)) <= room {
		return nil
	}
	return layout.BlockError(n.of.Name, n.of.ID, codec.KindNorms, chunk,
		fmt.Errorf("the inverse norm of row %d is %g, that of its coordinates %g", row, stored, want))
}
