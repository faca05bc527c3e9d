// Package paper implements INSTANCEKNNSEARCH (Feremans et al. 2020, Algorithm 2), the baseline
// against which the paper measures its partition: term at a time into a hash map, over inverted
// lists in memory. It serves measurements and is an independent reference for tests; databases
// do not use it.
package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// Index holds the inverted lists of rows.
type Index struct {
	rows, byFeature *vector.CSR
}

// Build builds the lists of rows, which the index keeps. O(entries). Errors: postings.ErrParams
// for malformed rows or values below zero.
func Build(rows *vector.CSR) (*Index, error) {
	if err := rows.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", postings.ErrParams, err)
	}
	for e, v := range rows.Value {
		if v < 0 {
			return nil, fmt.Errorf("%w: entry %d is %g", postings.ErrParams, e, v)
		}
	}
	if rows.Value == nil {
		ones := *rows
		ones.Value = slices.Repeat([]float32{1}, len(rows.Index))
		rows = &ones
	}
	return &Index{rows, rows.Transpose()}, nil
}

// Bytes returns the memory of the lists.
func (ix *Index) Bytes() int {
	return 8*len(ix.byFeature.Ptr) + 4*len(ix.byFeature.Index) + 4*len(ix.byFeature.Value)
}

// Searcher holds the memory of searches, one at a time. The zero value is ready.
type Searcher struct {
	hash  map[uint32]float32
	near  []uint64  // rows with their estimates; see keyOf
	query []float32 // value of every feature, zero between searches
	hits  []postings.Hit
}

// keyOf packs a row and its estimate, which is not negative: ascending keys have descending
// estimates.
func keyOf(row uint32, sum float32) uint64 {
	return uint64(^math.Float32bits(sum))<<32 | uint64(row)
}

func sumOf(key uint64) float32 { return math.Float32frombits(^uint32(key >> 32)) }

// tinySum is the smallest estimate that is relied on: smaller ones may have lost digits, or all
// of them, to underflow.
const tinySum = 1e-30

// slack returns the relative error of a sum of n products of non-negative numbers in float32
// (Higham 2002, section 3.1), doubled.
func slack(n int) float32 { return float32(n+4) * (2.1 / (1 << 24)) }

// Search appends the k best rows for q, whose values are above zero, to dst, best first, ties
// by row: the hits of postings.Searcher.Search, bit for bit. It estimates the scores of all
// rows that share a feature with q in float32, then computes the scores of those that may be
// among the k best in float64. Stats.Candidates is the number of the former, Scored of the
// latter, Postings of the entries read. Errors: postings.ErrParams for a malformed query or a
// negative k; the context's.
func (s *Searcher) Search(
	ctx context.Context, ix *Index, q vector.Sparse, k int, dst []postings.Hit,
) ([]postings.Hit, postings.Stats, error) {
	if k < 0 {
		return dst, postings.Stats{}, fmt.Errorf("%w: k is %d", postings.ErrParams, k)
	}
	if err := q.Validate(); err != nil {
		return dst, postings.Stats{}, fmt.Errorf("%w: query: %w", postings.ErrParams, err)
	}
	for n := len(q.Index); n > 0 && int(q.Index[n-1]) >= ix.byFeature.Rows(); n-- {
		q.Index, q.Value = q.Index[:n-1], q.Value[:n-1]
	}
	if k == 0 {
		return dst, postings.Stats{Pruned: ix.rows.Rows()}, nil
	}
	stats, err := s.accumulate(ctx, ix, q)
	if err != nil {
		return dst, postings.Stats{}, err
	}
	if len(s.near) > k {
		s.keep(k, len(q.Index))
	}
	stats.Scored = len(s.near)
	s.score(ix, q)
	slices.SortFunc(s.hits, func(a, b postings.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
	})
	return append(dst, s.hits[:min(k, len(s.hits))]...), stats, nil
}

// accumulate fills s.near with the estimates of all rows that share a feature with
// the query.
func (s *Searcher) accumulate(ctx context.Context, ix *Index, q vector.Sparse) (postings.Stats, error) {
	if s.hash == nil {
		s.hash = map[uint32]float32{}
	}
	clear(s.hash)
	var stats postings.Stats
	for i, f := range q.Index {
		if err := ctx.Err(); err != nil {
			return stats, err
		}
		list := ix.byFeature.Row(int(f))
		for e, row := range list.Index {
			s.hash[row] += float32(q.Value[i] * list.Value[e])
		}
		stats.Postings += list.Len()
	}
	s.near = s.near[:0]
	for row, sum := range s.hash {
		s.near = append(s.near, keyOf(row, sum))
	}
	stats.Bytes, stats.Candidates = 8*stats.Postings, len(s.near)
	stats.Pruned = ix.rows.Rows() - stats.Candidates
	return stats, nil
}

// keep drops the rows of s.near whose estimates are too low for the k best. s.near holds at
// least k rows. No estimate below tinySum causes a row to be dropped.
func (s *Searcher) keep(k, terms int) {
	vector.SelectNth(s.near, k-1)
	least := sumOf(s.near[k-1]) * (1 - slack(terms))
	if least < tinySum {
		return
	}
	kept := s.near[:k]
	for _, key := range s.near[k:] {
		if sumOf(key) >= least {
			kept = append(kept, key)
		}
	}
	s.near = kept
}

// score fills s.hits with the exact scores of the rows of s.near. It adds a row's products in
// the order of its features, including zeros: the bits of vector.DotSparse.
func (s *Searcher) score(ix *Index, q vector.Sparse) {
	s.hits = s.hits[:0]
	s.query = slices.Grow(s.query[:0], ix.rows.Cols)[:ix.rows.Cols]
	for i, f := range q.Index {
		s.query[f] = q.Value[i]
	}
	for _, key := range s.near {
		row := ix.rows.Row(int(uint32(key)))
		var sum float64
		for e, f := range row.Index {
			sum += float64(s.query[f]) * float64(row.Value[e])
		}
		if sum > 0 {
			s.hits = append(s.hits, postings.Hit{Row: uint32(key), Score: sum})
		}
	}
	for _, f := range q.Index {
		s.query[f] = 0
	}
}
