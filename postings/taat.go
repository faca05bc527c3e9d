package postings

import (
	"context"
	"math"
	"slices"
)

// nearRow is a row and its estimated score.
type nearRow struct {
	row uint32
	sum float32
}

// tinySum is the smallest estimate that is relied on: smaller ones may have lost digits, or all
// of them, to underflow.
const tinySum = 1e-30

// slack returns the relative error of a sum of n products in float32 (Higham 2002, section
// 3.1), for non-negative terms, doubled. With θ' the k-th best estimate, a row whose estimate
// is below (1-slack)·θ' cannot be among the k best.
func slack(n int) float32 { return float32(n+4) * (2.1 / (1 << 24)) }

// scoreNear scores the rows of s.near exactly that may be among the k best. It returns false and
// scores none if s.near may lack some of them, because the threshold is among estimates that
// underflow may have corrupted.
func (s *Searcher) scoreNear() bool {
	keep := 1 - slack(len(s.terms))
	least := float32(min(s.top.theta(), math.MaxFloat32)) * keep
	if len(s.near) >= s.top.k {
		least = max(least, s.keepNear())
	}
	if least < tinySum {
		return false
	}
	for _, r := range s.near {
		if r.sum >= least {
			s.offer(r.row)
		}
	}
	return true
}

// selectNearest moves the k rows of highest estimate to the front.
func selectNearest(r []nearRow, k int) {
	lo, hi := 0, len(r)
	for hi-lo > 16 {
		a, b, c := r[lo].sum, r[lo+(hi-lo)/2].sum, r[hi-1].sum
		pivot := max(min(a, b), min(max(a, b), c))
		i, j := lo, hi-1
		for i <= j {
			for r[i].sum > pivot {
				i++
			}
			for r[j].sum < pivot {
				j--
			}
			if i <= j {
				r[i], r[j] = r[j], r[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j + 1
		case k >= i:
			lo = i
		default:
			return
		}
	}
	slices.SortFunc(r[lo:hi], func(a, b nearRow) int {
		switch {
		case a.sum > b.sum:
			return -1
		case a.sum < b.sum:
			return 1
		}
		return 0
	})
}

// scanRows is the number of cells of the accumulator that are scanned between updates of the
// threshold.
const scanRows = 1024

// taatPart is phase (i) of INSTANCEKNNFAST: an array of sums, or a union where the TAAT lists
// are so short that a union is faster.
func (s *Searcher) taatPart(ctx context.Context, ix *Index) error {
	p, listed := ix.Partition, 0
	for _, t := range s.partition(p) {
		listed += p.TAAT.size(t.list)
	}
	if unionRow*float64(listed) > ix.rowsCost() {
		return s.denseTAAT(ctx, ix)
	}
	if listed == 0 {
		return nil
	}
	return s.searchUnion(ctx, ix, taatLists)
}

// denseTAAT accumulates the TAAT part into an array.
func (s *Searcher) denseTAAT(ctx context.Context, ix *Index) error {
	n := ix.Len()
	p := ix.Partition
	if cap(s.sums) < n {
		s.sums = make([]float32, n)
	}
	sums := s.sums[:n]
	clear(sums)
	for _, t := range s.partition(p) {
		if err := ctx.Err(); err != nil {
			return err
		}
		list := p.TAAT.list(t.list)
		list.scatter(sums, t.weight)
		s.mark(len(list.value), list.bytes())
	}
	if s.params.Count {
		for _, v := range sums {
			if v > 0 {
				s.stats.Candidates++
			}
		}
	}
	if cap(s.block) < scanRows {
		s.block = make([]uint32, scanRows)
	}
	k := s.top.k
	slackFactor := 1 - slack(len(s.terms))
	s.near = s.near[:0]
	least := max(tinySum, float32(min(s.top.theta(), math.MaxFloat32))*slackFactor)
	limit := max(4*k, 256)
	for from := 0; from < n; from += scanRows {
		block := sums[from:min(from+scanRows, n)]
		found := s.block[:scanRows]
		for _, i := range found[:atLeastFloat(block, least, found)] {
			row := uint32(from) + i
			if block[i] < least || !s.accepted(row) {
				continue
			}
			s.near = append(s.near, nearRow{row, block[i]})
			if len(s.near) >= limit {
				least = max(least, s.keepNear())
				limit = max(limit, 2*len(s.near))
			}
		}
	}
	if !s.scoreNear() {
		counted := s.stats.Candidates
		err := s.searchUnion(ctx, ix, taatLists)
		if s.params.Count {
			s.stats.Candidates = counted
		}
		return err
	}
	if !s.params.Count {
		s.stats.Candidates = s.stats.Scored
	}
	return nil
}

// keepNear drops the rows of s.near that cannot be among the k best and returns the smallest
// estimate that can. s.near must hold at least k rows.
func (s *Searcher) keepNear() float32 {
	k := s.top.k
	selectNearest(s.near, k)
	least := s.near[0].sum
	for _, r := range s.near[1:k] {
		least = min(least, r.sum)
	}
	least *= 1 - slack(len(s.terms))
	if least < tinySum {
		return least // estimates this small are unreliable: drop none
	}
	kept := s.near[:k]
	for _, r := range s.near[k:] {
		if r.sum >= least {
			kept = append(kept, r)
		}
	}
	s.near = kept
	return least
}
