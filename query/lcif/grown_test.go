package lcif

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
)

// A source that has grown finds what an index of all rows finds, whatever its base
// is.
func TestGrownNeighborsAreThoseOfAllRows(t *testing.T) {
	ctx := context.Background()
	x, _ := topicSet(t, 220, 6)
	units := unitRows(x, x.Cols, nil)
	for i := range 40 { // ties between rows of both parts
		units.Append(units.Row(i))
	}
	units.Cols = x.Cols
	n := units.Rows()
	rows, build := selections(t, units)
	dead := roaring.BitmapOf(3, 50, 90, 150, 230)
	whole := &PostingsNeighbors{Index: build(rows), Params: postings.SearchParams{Deleted: dead}}
	for _, first := range []int{0, 1, 100, n} {
		base := &PostingsNeighbors{Index: build(rows[:first]), Params: postings.SearchParams{Deleted: dead}}
		g := &GrownNeighbors{Base: base, First: uint32(first), Rows: labels.SelectRows(units, rows[first:]), Deleted: dead}
		var s NeighborScratch
		for _, k := range []int{1, 7, 400} {
			for i := range n {
				q := NeighborQuery{units.Row(i), units.Row(i)}
				hits, err := whole.Neighbors(ctx, &s, q, k, nil)
				must(t, err)
				got, err := g.Neighbors(ctx, &s, q, k, []postings.Hit{{Row: 9}})
				if err != nil || got[0].Row != 9 || !slices.Equal(got[1:], hits) {
					t.Fatalf("first %d, k %d, query %d: %v, want %v, %v", first, k, i, got, hits, err)
				}
			}
		}
	}
	g := &GrownNeighbors{Base: whole, First: uint32(n), Rows: units}
	stop, cancel := context.WithCancel(ctx)
	cancel()
	var s NeighborScratch
	if _, err := g.Neighbors(stop, &s, NeighborQuery{units.Row(0), units.Row(0)}, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
