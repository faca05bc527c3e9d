package postings

import (
	"context"
	"math"
	"math/bits"
	"slices"
)

const (
	// smallStrips is the maximum number of strips for which the scores of all positions are
	// estimated at once, instead of strip by strip against a threshold.
	smallStrips = 64
	// spareHits is the number of surplus hits that cost less than a search for a better
	// threshold.
	spareHits = 8
	// smallBits is the width of those counts: a byte.
	smallBits = 8
)

// uniformSmall is the scratch memory of searches in a small Uniform.
type uniformSmall struct {
	ratios   []uint16 // ratios of the index ratiosOf: see setRatios
	ratiosOf *Uniform
	// lowestRatio is the lowest ratio of a position with entries.
	lowestRatio uint16
	counts      []uint8
	estimates   []uint16
	found       []uint16 // positions
}

// setRatios computes the ratio of each position's value to the highest one, rounded up to 16
// bits. It keeps a reference to the index, so that no other index can get its address.
func (s *Searcher) setRatios(u *Uniform) {
	if s.ratiosOf == u {
		return
	}
	n := 64 * u.Stride
	if cap(s.ratios) < n {
		s.ratios, s.counts, s.estimates = make([]uint16, n), make([]uint8, n), make([]uint16, n)
	}
	s.ratios, s.counts, s.estimates = s.ratios[:n], s.counts[:n], s.estimates[:n]
	for at := range n {
		ratio := 0.0
		if at < len(u.Value) {
			ratio = min(math.Ceil(float64(u.Value[at])/float64(u.Value[0])*maxEstimate), maxEstimate)
		}
		s.ratios[at] = uint16(ratio)
		if ratio > 0 {
			s.lowestRatio = uint16(ratio) // values fall
		}
	}
	s.ratiosOf = u
}

// searchSmall is searchUniform for few rows. With K = ⌊(2¹⁶-1)/n⌋ for n terms, a
// row with count common features and the ratio ρ of its value to the highest one
// has the estimate A = ⌊count·K·⌈ρ·(2¹⁶-1)⌉/2¹⁶⌋, and
//
//	A - 1 < count·ρ·K·(2¹⁶-1)/2¹⁶ < A + 1
//
// where the middle term is the score in units. Some k rows have estimates of at least E, so a
// row with an estimate below E - 1 is not among the k best; another unit is for floating-point
// error. searchSmall reports whether it could distinguish the needed rows from those without
// common features; if not, it did nothing.
func (s *Searcher) searchSmall(ctx context.Context, ix *Index, planes int, weight float32) (bool,
	error) {
	u := ix.Uniform
	s.setRatios(u)
	factor := maxEstimate / len(s.terms)
	estimateStrips(&s.counted, s.deepest, s.planes, planes, u.Words, s.bitmaps, u.Stride,
		uint16(factor), s.ratios, s.counts, s.estimates)
	s.mark(64*u.Stride*len(s.bitmaps), 8*u.Stride*len(s.bitmaps))
	if err := ctx.Err(); err != nil {
		return true, err
	}
	perScore := down(float64(factor) * (float64(maxEstimate) / (1 << 16)) /
		(float64(weight) * float64(u.Value[0])))
	length := queryNorm(s.terms)
	least := lowest(s.estimates, s.top.k, s.top.k/8+spareHits, s.expected(ix, length)*perScore)
	least = max(least, int(min(s.top.theta()*perScore, maxEstimate))) - 2
	if least < 1 {
		if factor*int(s.lowestRatio) < 1<<16 {
			return false, nil // rows with common features may have estimates of zero
		}
		least = 1
	}
	s.offerSmall(u, weight, least)
	s.stats.Candidates = s.stats.Scored
	s.learn(ix, length)
	return true, nil
}

// offerSmall offers the positions whose estimates are at least least. It offers them in order
// if they are few and the first ones.
func (s *Searcher) offerSmall(u *Uniform, weight float32, least int) {
	if s.hits16 == nil {
		s.hits16, s.bounded = make([]uint16, scanRows+foundRoom), make([]uint16, scanRows)
	}
	found, most := s.found[:0], uint16(0)
	for from := 0; from < len(s.estimates); from += scanRows {
		block := s.estimates[from:min(from+scanRows, len(s.estimates))]
		for _, i := range s.hits16[:atLeast16(block, uint16(least), s.hits16)] {
			most = max(most, block[i])
			found = append(found, uint16(from+int(i)))
		}
	}
	s.found = found
	s.stats.Scored += len(found)
	t := &s.top
	if len(t.hits) > 0 || len(found) > 2*t.k+scanRows {
		for _, at := range found {
			t.push(s.smallHit(u, weight, at))
		}
		return
	}
	out := slices.Grow(t.hits, len(found))[:len(found)]
	if ranksFast && len(found) <= maxRanked {
		for i, at := range found {
			t.keys[i] = s.estimates[at] >> 1
		}
		t.rank(len(found))
		for i, at := range found {
			out[t.place(i)] = s.smallHit(u, weight, at)
		}
		t.setHits(out)
		return
	}
	// Sort by estimate, then within buckets, which takes few steps, since the positions of one
	// value are ordered by row.
	var end [smallBuckets + 1]uint32
	shift := bits.Len(uint(int(most)-least) / smallBuckets)
	for _, at := range found {
		end[(most-s.estimates[at])>>shift+1]++
	}
	for b := range smallBuckets {
		end[b+1] += end[b]
	}
	for _, at := range found {
		b := (most - s.estimates[at]) >> shift
		out[end[b]] = s.smallHit(u, weight, at)
		end[b]++
	}
	t.setHits(out)
}

// smallBuckets is the number of ranges of estimates by which hits are sorted.
const smallBuckets = 256

// smallHit returns the hit at a position.
func (s *Searcher) smallHit(u *Uniform, weight float32, at uint16) Hit {
	count := int(s.counts[at])
	return Hit{s.base + u.Order[at], uniformScore(weight, u.Value[at], count)}
}
