package lcif

import "github.com/RoaringBitmap/roaring/v2"

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
func (n *ScaledNeighbors) Among(rows *roaring.Bitmap) NeighborSource {
	out := *n
	out.Only = both(rows, n.Only)
	return &out
}

// both returns the rows of two sets, of which the second may be nil for all rows.
func both(a, b *roaring.Bitmap) *roaring.Bitmap {
	if b == nil {
		return a
	}
	return roaring.And(a, b)
}
