package postings

import "slices"

// Hit is a row and its score.
type Hit struct {
	Row   uint32
	Score float64
}

// worse orders hits from the last of an answer to the first: by score, then
// by falling row number.
func (h Hit) worse(g Hit) bool {
	return h.Score < g.Score || h.Score == g.Score && h.Row > g.Row
}

// compareHits is the order of answers. Scores are never NaN, so it needs no
// cmp.Compare, which costs twice as much.
func compareHits(a, b Hit) int {
	switch {
	case b.worse(a):
		return -1
	case a.worse(b):
		return 1
	}
	return 0
}

// top keeps the k best hits pushed into it, the worst at the root of a heap.
type top struct {
	heap []Hit
	k    int
}

func (t *top) reset(k int) {
	t.k = k
	t.heap = t.heap[:0]
}

func (t *top) full() bool { return len(t.heap) == t.k }

// theta is the score below which no row enters: zero while there are fewer
// than k hits.
func (t *top) theta() float64 {
	if !t.full() {
		return 0
	}
	return t.heap[0].Score
}

// push offers a row. Scores that are not positive are no hits. O(log k).
func (t *top) push(h Hit) {
	if h.Score <= 0 {
		return
	}
	if len(t.heap) < t.k {
		t.heap = append(t.heap, h)
		for i := len(t.heap) - 1; i > 0; {
			p := (i - 1) / 2
			if !t.heap[i].worse(t.heap[p]) {
				break
			}
			t.heap[i], t.heap[p] = t.heap[p], t.heap[i]
			i = p
		}
		return
	}
	if !t.heap[0].worse(h) {
		return
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= len(t.heap) {
			break
		}
		if c+1 < len(t.heap) && t.heap[c+1].worse(t.heap[c]) {
			c++
		}
		if !t.heap[c].worse(h) {
			break
		}
		t.heap[i] = t.heap[c]
		i = c
	}
	t.heap[i] = h
}

// append appends the hits to dst, best first, and empties t.
func (t *top) append(dst []Hit) []Hit {
	slices.SortFunc(t.heap, compareHits)
	dst = append(dst, t.heap...)
	t.heap = t.heap[:0]
	return dst
}
