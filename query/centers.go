package query

import (
	"unsafe"

	"github.com/anndb/anndb/vector"
)

// centerShift is log2 of the number of rows of a group, which have consecutive numbers.
const centerShift = 7

// CenterGroups returns the number of groups of n rows.
func CenterGroups(n int) int { return (n + 1<<centerShift - 1) >> centerShift }

// CenterGroup returns the group of a row.
func CenterGroup(row uint32) int { return int(row >> centerShift) }

// Centers are points near the rows of groups of 128 rows with consecutive numbers: about their means, in
// eight bits a coordinate. Sketches of signs made of the differences of rows from their centers estimate
// better than those made of differences from the mean of all rows where near rows have near numbers, since
// the error of an estimate grows with these differences. The value of a stored byte is Offset + Step·byte.
// Rows of later groups have no center.
type Centers struct {
	Chunks       [][]byte // 1<<Shift centers each
	Shift        uint
	N            int // centers
	Offset, Step float32
}

// stored returns the stored center of a group of a partition space of dim coordinates.
func (c *Centers) stored(group, dim int) []byte {
	at := (group & (1<<c.Shift - 1)) * dim
	return c.Chunks[group>>c.Shift][at : at+dim]
}

// of returns the center of a row, nil for a row without one.
func (c *Centers) of(row, dim int) []float32 {
	if c == nil || CenterGroup(uint32(row)) >= c.N {
		return nil
	}
	out := make([]float32, dim)
	for i, b := range c.stored(CenterGroup(uint32(row)), dim) {
		out[i] = c.Offset + c.Step*float32(b)
	}
	return out
}

// NewCenters rounds the means of groups, dim coordinates each, to bytes. There is at least one.
func NewCenters(means []float32, dim int) *Centers {
	lo, hi := means[0], means[0]
	for _, x := range means {
		lo, hi = min(lo, x), max(hi, x)
	}
	step := (hi - lo) / 255
	if !(step > 0) {
		step = 1
	}
	bytes := make([]byte, len(means))
	for i, x := range means {
		bytes[i] = uint8(max(0, min(255, (x-lo)/step+0.5)))
	}
	return &Centers{Chunks: [][]byte{bytes}, Shift: 31, N: len(means) / dim, Offset: lo, Step: step}
}

// nearCenters are the distances of a query to centers, computed when they are first needed.
type nearCenters struct {
	shifted []float32 // the query in the coordinates of the centers
	mean    float32   // squared distance to the mean of all rows
	by      []float32 // by group: squared distance to the center, less mean
	known   []uint32  // by group: epoch if by is known
	epoch   uint32
	todo    []int
}

// set begins a query.
func (n *nearCenters) set(c *Centers, x, mean []float32) {
	if len(n.by) < c.N {
		n.by, n.known, n.epoch = make([]float32, c.N), make([]uint32, c.N), 0
	}
	if n.epoch++; n.epoch == 0 {
		clear(n.known)
		n.epoch = 1
	}
	n.shifted = grow(n.shifted, len(x))
	for i, y := range x {
		n.shifted[i] = (y - c.Offset) / c.Step
	}
	n.mean = vector.L2Squared(x, mean)
}

// prefetch prefetches the centers of rows whose distances are not known.
func (n *nearCenters) prefetch(c *Centers, ids []uint32) {
	dim := len(n.shifted)
	n.todo = n.todo[:0]
	for _, id := range ids {
		g := CenterGroup(id)
		if g >= c.N || n.known[g] == n.epoch {
			continue
		}
		n.known[g] = n.epoch
		n.todo = append(n.todo, g)
		vector.Prefetch(unsafe.Pointer(unsafe.SliceData(c.stored(g, dim))), dim)
	}
}

// add computes the distances to the prefetched centers, and adds those of rows to their estimates.
func (n *nearCenters) add(c *Centers, ids []uint32, out []float32) {
	for _, g := range n.todo {
		n.by[g] = c.Step*c.Step*vector.L2SquaredFloat32Uint8(n.shifted, c.stored(g, len(n.shifted))) - n.mean
	}
	for i, id := range ids {
		if g := CenterGroup(id); g < c.N {
			out[i] += n.by[g]
		}
	}
}
