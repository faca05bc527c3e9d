package forestindex

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/query"
)

// The lists of a forged file may name rows that do not exist: linking passes over them.
func TestLinkForgedLists(t *testing.T) {
	const n, dim, k, none = 12, 2, 3, 1 << 20
	v := &query.View{Dim: dim, Segment: query.Segment{N: n - 2}, Rows: query.RowSet{N: n, Dim: dim, Shift: 31}}
	for i := range n {
		row := make([]byte, 4*dim)
		binary.LittleEndian.PutUint32(row, math.Float32bits(float32(i*i)))
		v.Rows.Tail = append(v.Rows.Tail, row)
	}
	var old []uint32
	for i := range uint32(n - 2) {
		old = append(old, (i+1)%(n-2), none, none+i)
	}
	f := &absorbing{ctx: t.Context(), st: unguarded{}, rows: []uint32{n - 2, n - 1}}
	f.v, f.lo, f.hi = v, n-2, n
	v.Neighbors = &query.NeighborView{Blocks: packed(old, k), Shift: neighborShift(k), K: k}
	f.hops = newListPatch(v.Neighbors, n)
	f.near = [][]candidate{{{row: n - 1}, {row: n - 3}, {row: n - 4}}, {{row: n - 2}, {row: n - 3}}}
	must(t, f.link())
	for _, row := range f.rows {
		listed := false
		for i := range n {
			listed = listed || i != int(row) && slices.Contains(f.hops.at(i), row)
		}
		if !listed {
			t.Errorf("row %d is on no list", row)
		}
	}
}
