package postings

import (
	"cmp"
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

// top keeps the k best hits pushed into it, the worst at the root of a heap once there are k.
type top struct {
	hits []Hit
	k    int
}

func (t *top) reset(k int) { t.hits, t.k = t.hits[:0], k }

// theta returns the score below which no row enters: zero while there are fewer than k hits.
func (t *top) theta() float64 {
	if len(t.hits) < t.k || t.k == 0 {
		return 0
	}
	return t.hits[0].Score
}

// push offers a row. It ignores scores that are not positive. O(log k).
func (t *top) push(h Hit) {
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

// append appends the hits to dst, best first, and empties t.
func (t *top) append(dst []Hit) []Hit {
	slices.SortFunc(t.hits, Hit.Compare)
	dst = append(dst, t.hits...)
	t.hits = t.hits[:0]
	return dst
}
