package postings

import (
	"cmp"
	"math"
	"slices"
)

// Hit is a row and its score.
type Hit struct {
	Row   uint32
	Score float64
}

// Compare orders hits as in an answer: by falling score, then by row number.
func (h Hit) Compare(g Hit) int {
	return cmp.Or(cmp.Compare(g.Score, h.Score), cmp.Compare(h.Row, g.Row))
}

// worse reports whether h comes after g in an answer.
func (h Hit) worse(g Hit) bool {
	return h.Score < g.Score || h.Score == g.Score && h.Row > g.Row
}

// insertedHits is the maximum number of hits that are sorted by insertion.
const insertedHits = 16

// top keeps the k best hits pushed into it, the worst at the root of a heap once there are k, or sorted.
type top struct {
	hits   []Hit
	k      int
	sorted bool  // the best hit first, no heap
	room   []Hit // scratch of sort
}

func (t *top) reset(k int) { t.hits, t.k, t.sorted = t.hits[:0], k, false }

// theta returns the score below which no row enters: zero while there are fewer than k hits.
func (t *top) theta() float64 {
	if len(t.hits) < t.k || t.k == 0 {
		return 0
	}
	if t.sorted {
		return t.hits[t.k-1].Score
	}
	return t.hits[0].Score
}

// push offers a row. It ignores scores that are not positive. O(log k).
func (t *top) push(h Hit) {
	if t.sorted {
		slices.Reverse(t.hits)
		t.sorted = false
	}
	switch {
	case h.Score <= 0:
	case len(t.hits) < t.k:
		if t.hits = append(t.hits, h); len(t.hits) == t.k {
			for i := t.k/2 - 1; i >= 0; i-- {
				t.sift(i, t.hits[i])
			}
		}
	case t.k > 0 && t.hits[0].worse(h):
		t.sift(0, h)
	}
}

// sift puts h at place i or below it. Every other place must satisfy the heap condition: no
// descendant is worse.
func (t *top) sift(i int, h Hit) {
	heap := t.hits
	for {
		c := 2*i + 1
		if c >= len(heap) {
			break
		}
		if c+1 < len(heap) && heap[c+1].worse(heap[c]) {
			c++
		}
		if !heap[c].worse(h) {
			break
		}
		heap[i] = heap[c]
		i = c
	}
	heap[i] = h
}

// add offers hits whose rows ascend. It is faster than push for many.
func (t *top) add(hits []Hit) {
	if 4*len(hits) < t.k {
		for _, h := range hits {
			t.push(h)
		}
		return
	}
	ascend := len(t.hits) == 0
	t.hits = append(t.hits, hits...)
	t.sort(ascend)
	t.hits, t.sorted = t.hits[:min(t.k, len(t.hits))], true
}

// append appends the hits to dst, best first, and empties t.
func (t *top) append(dst []Hit) []Hit {
	if !t.sorted {
		t.sort(false)
	}
	dst = append(dst, t.hits...)
	t.hits, t.sorted = t.hits[:0], false
	return dst
}

// sort sorts the hits, best first: by the bytes of their rows, unless these ascend, by the scores in 2¹⁶
// steps, and the hits of a step by insertion.
func (t *top) sort(ascend bool) {
	if len(t.hits) > insertedHits {
		best, worst, rows := t.hits[0].Score, t.hits[0].Score, uint32(0)
		for _, h := range t.hits {
			best, worst, rows = max(best, h.Score), min(worst, h.Score), rows|h.Row
		}
		for shift := 0; rows>>shift > 0 && !ascend; shift += 8 {
			t.sortByte(func(h Hit) uint8 { return uint8(h.Row >> shift) })
		}
		steps := maxEstimate / max(best-worst, math.SmallestNonzeroFloat32)
		t.sortByte(func(h Hit) uint8 { return uint8(int32((best - h.Score) * steps)) })
		t.sortByte(func(h Hit) uint8 { return uint8(int32((best-h.Score)*steps) >> 8) })
	}
	hits := t.hits
	for i, h := range hits {
		for ; i > 0 && hits[i-1].worse(h); i-- {
			hits[i] = hits[i-1]
		}
		hits[i] = h
	}
}

// sortByte sorts the hits by a byte; hits of equal bytes stay in order.
func (t *top) sortByte(key func(Hit) uint8) {
	var start [256]uint32
	for _, h := range t.hits {
		start[key(h)]++
	}
	n := uint32(0)
	for i, count := range start {
		start[i] = n
		n += count
	}
	t.room = slices.Grow(t.room[:0], len(t.hits))[:len(t.hits)]
	for _, h := range t.hits {
		k := key(h)
		t.room[start[k]] = h
		start[k]++
	}
	t.hits, t.room = t.room, t.hits
}
