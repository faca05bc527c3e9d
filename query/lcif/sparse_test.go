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

// Neighbors among segments and fresh rows are those that an index of all rows finds.
func TestPostingsNeighborsAreThoseOfOneIndex(t *testing.T) {
	ctx := context.Background()
	x, _ := topicSet(t, 220, 6)
	units := UnitRows(x, &View{Features: x.Cols})
	for i := range 40 { // ties between rows of both parts
		units.Append(units.Row(i))
	}
	units.Cols = x.Cols
	n := units.Rows()
	rows, build := selections(t, units)
	dead := roaring.BitmapOf(3, 50, 90, 150, 230)
	segment := func(from, to int) postings.Segment {
		own := roaring.AddOffset64(roaring.And(dead, roaring.BitmapOf(numbersOf(from, to)...)), -int64(from))
		return postings.Segment{Index: build(rows[from:to]), First: uint32(from), Deleted: own}
	}
	whole := &PostingsNeighbors{Segments: []postings.Segment{segment(0, n)}}
	for _, first := range []int{0, 1, 100, n} {
		g := &PostingsNeighbors{Fresh: labels.SelectRows(units, rows[first:]), First: uint32(first), Deleted: dead}
		if first > 0 {
			g.Segments = []postings.Segment{segment(0, first/2), segment(first/2, first)}
		}
		var s NeighborScratch
		for _, k := range []int{1, 7, 400} {
			for i := range n {
				q := NeighborQuery{Raw: units.Row(i), Unit: units.Row(i)}
				hits, err := whole.Neighbors(ctx, &s, q, k, nil)
				must(t, err)
				got, err := g.Neighbors(ctx, &s, q, k, []postings.Hit{{Row: 9}})
				if err != nil || got[0].Row != 9 || !slices.Equal(got[1:], hits) {
					t.Fatalf("first %d, k %d, query %d: %v, want %v, %v", first, k, i, got, hits, err)
				}
			}
		}
	}
	g := &PostingsNeighbors{Segments: whole.Segments, First: uint32(n), Fresh: units}
	stop, cancel := context.WithCancel(ctx)
	cancel()
	var s NeighborScratch
	if _, err := g.Neighbors(stop, &s, NeighborQuery{Raw: units.Row(0), Unit: units.Row(0)}, 3, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// numbersOf returns the numbers from one to before another.
func numbersOf(from, to int) (out []uint32) {
	for i := from; i < to; i++ {
		out = append(out, uint32(i))
	}
	return out
}
