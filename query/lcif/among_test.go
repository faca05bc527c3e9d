package lcif

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// TestAmong: a restricted source finds the passing rows among all neighbors, in their order.
func TestAmong(t *testing.T) {
	ctx := context.Background()
	m := twelveClusters(300, 8, 5)
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.d}
	for i := range m.n {
		row := slices.Clone(m.row(i))
		for j := range row {
			row[j] = max(row[j], -row[j]) // inverted lists have no values below zero
		}
		x.Append(sparse(row))
	}
	units := UnitRows(x, &View{Features: m.d})
	rows, build := selections(t, units)
	deleted := roaring.BitmapOf(3, 50, 290)
	scan := plainScan(m, m.n)
	scan.View.Deleted = deleted
	set := roaring.New()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.n {
		if r.IntN(4) == 0 {
			set.Add(uint32(i))
		}
	}
	set.Add(1000) // of a row written later
	for name, c := range map[string]struct {
		restricted NeighborSource
		sparse     bool
	}{
		"one segment": {&PostingsNeighbors{Segments: []postings.Segment{
			{Index: build(rows), Deleted: deleted},
		}}, true},
		"two segments and fresh rows": {&PostingsNeighbors{
			Segments: []postings.Segment{
				{Index: build(rows[:120]), Deleted: roaring.BitmapOf(3, 50)}, {Index: build(rows[120:200]), First: 120},
			},
			Fresh: labels.SelectRows(units, rows[200:]), First: 200, Deleted: deleted,
		}, true},
		"scan": {scan, false},
	} {
		among := (&View{Neighbors: c.restricted}).Among(set).Neighbors
		twice := among.Among(roaring.BitmapOf(0, 1, 2, 3, 4, 5, 6, 7))
		var s NeighborScratch
		for i := range 20 {
			q := NeighborQuery{Raw: units.Row(i), Unit: units.Row(i)}
			if !c.sparse {
				q.Raw = sparse(m.row(i))
			}
			full, err := c.restricted.Neighbors(ctx, &s, q, m.n, nil)
			must(t, err)
			check := func(source NeighborSource, pass func(row uint32) bool) {
				t.Helper()
				fails := func(h postings.Hit) bool { return !pass(h.Row) }
				want := slices.DeleteFunc(slices.Clone(full), fails)
				got, err := source.Neighbors(ctx, &s, q, 5, nil)
				if want = want[:min(5, len(want))]; err != nil || !slices.Equal(got, want) {
					t.Fatalf("%s, query %d: %v, %v, want %v", name, i, got, err, want)
				}
			}
			check(among, set.Contains)
			check(twice, func(row uint32) bool { return row < 8 && set.Contains(row) })
		}
	}
}
