package lcif

import (
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/postings"
)

// Among returns a view whose neighbors are only rows of a set. Feature scores and the
// graph of second-order scores remain those of all rows.
func (v *View) Among(rows *roaring.Bitmap) *View {
	out := *v
	if v.Neighbors != nil {
		out.Neighbors = v.Neighbors.Among(rows)
	}
	return &out
}

// Among implements NeighborSource.
func (p *PostingsNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *p
	out.Params.Accept = both(rows, p.Params.Accept)
	return &out
}

// Among implements NeighborSource.
func (p *SegmentNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := &SegmentNeighbors{slices.Clone(p.Segments)}
	for i := range out.Segments {
		g := &out.Segments[i]
		g.Accept = both(within(rows, g), g.Accept)
	}
	return out
}

// within returns the rows of a set that are in a segment, by their number in it.
func within(rows *roaring.Bitmap, g *postings.Segment) *roaring.Bitmap {
	own := roaring.New()
	own.AddRange(uint64(g.First), uint64(g.First)+uint64(g.Len()))
	own.And(rows)
	return roaring.AddOffset64(own, -int64(g.First))
}

// Among implements NeighborSource. Searches become as wide as the set requires.
func (f *ForestNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *f
	out.Params.Filter = both(rows, f.Params.Filter)
	out.Params.NoWiden = false
	return &out
}

// Among implements NeighborSource.
func (n *ScaledNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *n
	out.Only = both(rows, n.Only)
	return &out
}

// Among implements NeighborSource.
func (g *GrownNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *g
	out.Base, out.Only = g.Base.Among(rows), both(rows, g.Only)
	return &out
}

// both returns the rows of two sets, of which the second may be nil for all rows.
func both(a, b *roaring.Bitmap) *roaring.Bitmap {
	if b == nil {
		return a
	}
	return roaring.And(a, b)
}
