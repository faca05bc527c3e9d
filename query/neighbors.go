package query

import (
	"fmt"
	"slices"
)

// NeighborView holds the neighbor lists of the covered rows: at most K near rows each, nearest first, as
// labels.Diversify or nearest neighbours return them. Most lists have fewer than K rows. A list may repeat
// rows.
type NeighborView struct {
	K      int
	Shift  uint // a block holds the lists of 1<<Shift rows
	Blocks []NeighborBlock
}

// NeighborBlock holds neighbor lists: that of the block's row i is IDs[Starts[i]:Starts[i+1]].
type NeighborBlock struct {
	Starts []uint16
	IDs    []uint32
}

// PackNeighbors returns the block of the lists of the rows from first on. Each list has k places, of which
// those from the row itself on are not used. There are at most 65,535 places.
func PackNeighbors(lists []uint32, k, first int) NeighborBlock {
	n := len(lists) / k
	b := NeighborBlock{Starts: make([]uint16, n+1), IDs: make([]uint32, 0, len(lists))}
	for i := range n {
		for _, id := range lists[i*k : (i+1)*k] {
			if id == uint32(first+i) {
				break
			}
			b.IDs = append(b.IDs, id)
		}
		b.Starts[i+1] = uint16(len(b.IDs))
	}
	b.IDs = slices.Clone(b.IDs) // without the room for unused places
	return b
}

// list returns the first rows of a row's list, at most so many. It has less, or none, where a forged file
// has starts that are out of range.
func (v *NeighborView) list(row uint32, most int) []uint32 {
	b := &v.Blocks[row>>v.Shift]
	i := int(row & (1<<v.Shift - 1))
	from := int(b.Starts[i])
	to := min(int(b.Starts[i+1]), from+most, len(b.IDs))
	return b.IDs[min(from, to):to]
}

// Read copies a row's list to dst, which has K places. Places that are not used get the row itself.
func (v *NeighborView) Read(row int, dst []uint32) {
	for i := copy(dst, v.list(uint32(row), len(dst))); i < len(dst); i++ {
		dst[i] = uint32(row)
	}
}

// covers reports whether there is a list for each of n rows.
func (v *NeighborView) covers(n int) bool {
	if v.K < 1 || v.Shift > 16 || len(v.Blocks)<<v.Shift < n {
		return false
	}
	for i := range v.Blocks {
		if len(v.Blocks[i].Starts) <= min(1<<v.Shift, n-i<<v.Shift) {
			return false
		}
	}
	return true
}

// Check reports an error if lists of the n covered rows do not follow each other, have more than K rows,
// or name other rows or their own row, in time proportional to n.
func (v *NeighborView) Check(n int) error {
	for row := range n {
		b, i := &v.Blocks[row>>v.Shift], row&(1<<v.Shift-1)
		from, to := int(b.Starts[i]), int(b.Starts[i+1])
		last := i == len(b.Starts)-2
		if i == 0 && from != 0 || to < from || to-from > v.K || to > len(b.IDs) || last && to < len(b.IDs) {
			return fmt.Errorf("%w: neighbor list %d is from %d to %d of %d", ErrView, row, from, to, len(b.IDs))
		}
		for _, id := range b.IDs[from:to] {
			if int(id) >= n || int(id) == row {
				return fmt.Errorf("%w: neighbor list %d names row %d of %d", ErrView, row, id, n)
			}
		}
	}
	return nil
}
