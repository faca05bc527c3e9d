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

// worse reports whether h comes after g in an answer: by score, then by row number.
func (h Hit) worse(g Hit) bool {
	return h.Score < g.Score || h.Score == g.Score && h.Row > g.Row
}

// compareHits defines the order of answers. Scores are never NaN, so it needs no cmp.Compare,
// which costs twice as much.
func compareHits(a, b Hit) int {
	switch {
	case b.worse(a):
		return -1
	case a.worse(b):
		return 1
	}
	return 0
}

// top keeps the k best hits pushed into it. It collects up to 2k hits before it drops the worse
// half, so that most pushes only append. Weak-AND needs the exact threshold at any time and
// uses top as a heap instead.
type top struct {
	hits  []Hit // in heap mode with k hits: the worst at the root
	k     int
	floor float64  // k hits have at least this score; zero with fewer hits
	count []uint32 // scratch of sort
	spare []Hit
	ranking
	// sorted is the number of hits if all of them are in order.
	sorted int
}

func (t *top) reset(k int) {
	t.k, t.floor, t.sorted = k, 0, 0
	t.hits = t.hits[:0]
}

// full reports whether there are k hits.
func (t *top) full() bool { return len(t.hits) >= t.k }

// theta returns the score below which no row enters: zero while there are fewer than k hits.
func (t *top) theta() float64 { return t.floor }

// push offers a row, not in heap mode. It ignores scores that are not positive. O(1),
// amortised.
func (t *top) push(h Hit) {
	if h.Score <= 0 || h.Score < t.floor {
		return
	}
	t.hits = append(t.hits, h)
	switch len(t.hits) {
	case t.k:
		t.floor = h.Score
		for _, g := range t.hits {
			t.floor = min(t.floor, g.Score)
		}
	case 2 * t.k:
		t.cut()
	}
}

// cut drops all but the k best hits.
func (t *top) cut() {
	t.spare = t.sort(t.spare[:0])
	t.hits, t.spare = t.spare, t.hits
	t.floor = t.hits[t.k-1].Score
	t.sorted = t.k
}

// setHits takes ownership of hits that are nearly in order, the first ones offered. O(hits) if
// they are in order.
func (t *top) setHits(hits []Hit) {
	arrange(hits)
	t.hits = hits[:min(len(hits), t.k)]
	t.sorted = len(t.hits)
	if len(t.hits) == t.k && t.k > 0 {
		t.floor = t.hits[t.k-1].Score
	}
}

// arrange sorts nearly ordered hits by insertion. Scores are above zero.
func arrange(hits []Hit) {
	if len(hits) == 0 {
		return
	}
	last := hits[0] // the hit before i
	for i := 1; i < len(hits); i++ {
		h := hits[i]
		// Compute whether last is worse as a difference of numbers: a branch on equal scores,
		// which is unpredictable, costs more than all the rest.
		_, less := bits.Sub64(uint64(h.Row), uint64(last.Row), 0)
		_, less = bits.Sub64(math.Float64bits(last.Score), math.Float64bits(h.Score), less)
		if less == 0 {
			last = h
			continue
		}
		j := i
		for ; j > 0 && hits[j-1].worse(h); j-- {
			hits[j] = hits[j-1]
		}
		hits[j] = h
	}
}

// heap starts heap mode.
func (t *top) heap() {
	if len(t.hits) < t.k {
		return
	}
	t.cut()
	slices.Reverse(t.hits) // worst first: a heap
	t.sorted = 0
}

// pushHeap offers a row in heap mode. O(log k).
func (t *top) pushHeap(h Hit) {
	switch {
	case h.Score <= 0:
	case len(t.hits) < t.k:
		if t.hits = append(t.hits, h); len(t.hits) == t.k {
			t.floor = h.Score
			t.heap()
		}
	case t.hits[0].worse(h):
		t.sift(0, h)
		t.floor = t.hits[0].Score
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

// crowded is the number of hits from which a bucket is sorted by comparison, unless it is in
// order, as equal scores of neighbouring rows are.
const crowded = 24

// append appends the k best hits to dst, best first, and empties t.
func (t *top) append(dst []Hit) []Hit {
	dst = t.sort(dst)
	t.hits, t.sorted = t.hits[:0], 0
	return dst
}

// maxRanked is the maximum number of hits that are sorted by their ranks, which compares all
// pairs: a multiple of 64.
const maxRanked = 256

// ranking is the scratch memory of sorting by ranks.
type ranking struct {
	keys  [maxRanked]uint16 // keys of hits, higher for higher scores
	ranks [maxRanked]uint16
	taken [maxRanked]uint8 // number of places taken with the same rank
}

// quantise computes keys of hits whose scores are between low and high. It returns false if it
// cannot.
func (r *ranking) quantise(hits []Hit, low, high float64) bool {
	perScore := (1<<15 - 1) / (high - low)
	if !(perScore <= math.MaxFloat64) { // scores are equal or nearly equal
		return false
	}
	for i := range hits {
		r.keys[i] = uint16(int((hits[i].Score-low)*perScore)) & (1<<15 - 1)
	}
	return true
}

// rank orders the first n hits by their keys, which are below 1<<15.
func (r *ranking) rank(n int) {
	rank16(&r.keys, n, &r.ranks)
	clear(r.taken[:n])
}

// place returns the place of hit i in that order. Hits of equal rank must be requested in
// ascending order, each once.
func (r *ranking) place(i int) int {
	rank := r.ranks[i] % maxRanked
	at := int(rank) + int(r.taken[rank])
	r.taken[rank]++
	return at
}

// sort appends the k best hits to dst, best first. A few hits are placed by the ranks of their
// scores in 15 bits. More hits are divided into buckets of equal ranges of score with one or
// two hits each, and then only hits within a bucket are sorted: O(hits) unless many scores are
// close together.
func (t *top) sort(dst []Hit) []Hit {
	from := t.hits
	n, start := len(from), len(dst)
	keep := start + min(n, t.k)
	dst = slices.Grow(dst, n)[:start+n]
	out := dst[start:]
	if n < 2 || n == t.sorted {
		copy(out, from)
		return dst[:keep]
	}
	low, high := from[0].Score, from[0].Score
	for _, h := range from[1:] {
		// Scores are never NaN, so the NaN checks of min and max are unnecessary.
		if h.Score < low {
			low = h.Score
		}
		if h.Score > high {
			high = h.Score
		}
	}
	if ranksFast && n <= maxRanked && t.quantise(from, low, high) {
		t.rank(n)
		for i := range from {
			out[t.place(i)] = from[i]
		}
		arrange(out)
		return dst[:keep]
	}
	buckets := 1 << bits.Len(uint(n))
	perScore := float64(buckets-1) / (high - low)
	bucket := func(h Hit) int { return int((high-h.Score)*perScore) & (buckets - 1) }
	if !(perScore <= math.MaxFloat64) { // scores are equal or nearly equal
		copy(out, from)
		slices.SortFunc(out, compareHits)
		return dst[:keep]
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
			if hi-lo >= crowded && !slices.IsSortedFunc(out[lo:hi], compareHits) {
				slices.SortFunc(out[lo:hi], compareHits)
			}
			lo = hi
		}
	}
	arrange(out)
	return dst[:keep]
}
