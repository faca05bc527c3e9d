package vector

import (
	"math"
	"slices"
)

// Neighbor is a row and its distance. Neighbours are ordered by distance,
// then by row, so that equal inputs always give equal results.
type Neighbor struct {
	ID       uint32
	Distance float32
}

func (a Neighbor) less(b Neighbor) bool {
	return a.Distance < b.Distance || a.Distance == b.Distance && a.ID < b.ID
}

func compareNeighbors(a, b Neighbor) int {
	switch {
	case a.less(b):
		return -1
	case b.less(a):
		return 1
	}
	return 0
}

// TopK keeps the k nearest of the neighbours pushed into it, in a bounded
// max-heap. The zero value keeps none; Reset sets k. It is not safe for
// concurrent use.
type TopK struct {
	heap []Neighbor
	k    int
}

// NewTopK returns a TopK for k neighbours.
func NewTopK(k int) *TopK {
	t := new(TopK)
	t.Reset(k)
	return t
}

// Reset empties t and sets the number of neighbours it keeps. It allocates only if k
// is larger than in all earlier calls.
func (t *TopK) Reset(k int) {
	t.k = max(k, 0)
	if cap(t.heap) < t.k {
		t.heap = make([]Neighbor, 0, t.k)
	}
	t.heap = t.heap[:0]
}

// Push offers a neighbour and reports whether it is among the k nearest so far.
// O(log k). A NaN distance is never kept.
func (t *TopK) Push(id uint32, d float32) bool {
	n := Neighbor{id, d}
	if d != d {
		return false
	}
	if len(t.heap) < t.k {
		t.heap = append(t.heap, n)
		t.up(len(t.heap) - 1)
		return true
	}
	if t.k == 0 || !n.less(t.heap[0]) {
		return false
	}
	t.heap[0] = n
	t.down()
	return true
}

// Threshold returns the distance that a neighbour must not exceed to be kept: the
// largest distance kept, or +Inf while there are fewer than k neighbours.
func (t *TopK) Threshold() float32 {
	if len(t.heap) < t.k {
		return float32(math.Inf(1))
	}
	if t.k == 0 {
		return float32(math.Inf(-1))
	}
	return t.heap[0].Distance
}

// Len returns the number of neighbours kept.
func (t *TopK) Len() int { return len(t.heap) }

// Append appends the kept neighbours to dst, nearest first, and empties t.
// It allocates only to grow dst.
func (t *TopK) Append(dst []Neighbor) []Neighbor {
	slices.SortFunc(t.heap, compareNeighbors)
	dst = append(dst, t.heap...)
	t.heap = t.heap[:0]
	return dst
}

func (t *TopK) up(i int) {
	h := t.heap
	for i > 0 {
		p := (i - 1) / 2
		if !h[p].less(h[i]) {
			return
		}
		h[p], h[i] = h[i], h[p]
		i = p
	}
}

func (t *TopK) down() {
	h := t.heap
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c].less(h[c+1]) {
			c++
		}
		if !h[i].less(h[c]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}

// Peek appends the kept neighbours to dst in no particular order. t still keeps them.
func (t *TopK) Peek(dst []Neighbor) []Neighbor { return append(dst, t.heap...) }
