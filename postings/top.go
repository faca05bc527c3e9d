package postings

import (
	"math"
	"math/bits"
	"slices"
)

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

// top keeps the k best hits pushed into it: once there are k, in a heap with
// the worst at the root.
type top struct {
	heap  []Hit
	k     int
	count []uint32 // scratch of append
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
		if len(t.heap) == t.k {
			// Floyd 1964: O(k), where k insertions would have been O(k log k).
			for i := t.k/2 - 1; i >= 0; i-- {
				t.sift(i, t.heap[i])
			}
		}
		return
	}
	if t.heap[0].worse(h) {
		t.sift(0, h)
	}
}

// sift puts h at place i or below it, where the children of a place are worse
// than none of its descendants.
func (t *top) sift(i int, h Hit) {
	heap := t.heap
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

// crowded is from how many hits on a bucket is sorted by comparison as a whole.
const crowded = 24

// append appends the hits to dst, best first, and empties t. Hits go to
// buckets of equal ranges of score, one or two a hit, so that the sorting left is
// between neighbours: O(k) but where scores crowd.
func (t *top) append(dst []Hit) []Hit {
	from := t.heap
	t.heap = t.heap[:0]
	n := len(from)
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	out := dst[start:]
	if n < 2 {
		copy(out, from)
		return dst
	}
	low, high := from[0].Score, from[0].Score
	for _, h := range from[1:] {
		low, high = min(low, h.Score), max(high, h.Score)
	}
	buckets := 1 << bits.Len(uint(n))
	perScore := float64(buckets-1) / (high - low)
	bucket := func(h Hit) int { return int((high - h.Score) * perScore) & (buckets - 1) }
	if !(perScore <= math.MaxFloat64) { // scores are equal, or nearly so
		copy(out, from)
		slices.SortFunc(out, compareHits)
		return dst
	}
	if cap(t.count) < buckets+1 {
		t.count = make([]uint32, buckets+1)
	}
	end := t.count[:buckets+1]
	clear(end)
	for _, h := range from {
		end[bucket(h)+1]++
	}
	most := uint32(0)
	for b := range buckets {
		most = max(most, end[b+1])
		end[b+1] += end[b]
	}
	for _, h := range from {
		b := bucket(h)
		out[end[b]] = h
		end[b]++
	}
	if most >= crowded {
		lo := uint32(0)
		for _, hi := range end[:buckets] {
			if hi-lo >= crowded {
				slices.SortFunc(out[lo:hi], compareHits)
			}
			lo = hi
		}
	}
	for i := 1; i < n; i++ {
		h := out[i]
		j := i
		for ; j > 0 && out[j-1].worse(h); j-- {
			out[j] = out[j-1]
		}
		out[j] = h
	}
	return dst
}
