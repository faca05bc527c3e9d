package postings

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/vector"
)

// Strategy selects a method to find the k best rows. All strategies return the same rows.
type Strategy uint8

const (
	// Auto lets the planner choose.
	Auto Strategy = iota
	// Partitioned is INSTANCEKNNFAST (Feremans 2020, Algorithm 8): over the TAAT part, term at
	// a time into an array with a cell for every row and a vectorised scan for cells above the
	// threshold; then over the DAAT part, document at a time with Weak-AND. It needs a
	// Partition. With m = 0 it is M-WAND, with Everything it is term at a time only.
	Partitioned
	// Compact is the search of Weighted or Uniform.
	Compact
	// Union scores every row that shares a feature with the query. It is best when those are
	// few.
	Union
	// byRows reads the rows, not the lists, for many queries at once: SearchParams.ByRows.
	byRows
)

var strategyNames = [...]string{"auto", "partitioned", "compact", "union", "rows"}

func (s Strategy) String() string {
	if int(s) < len(strategyNames) {
		return strategyNames[s]
	}
	return fmt.Sprintf("strategy %d", uint8(s))
}

// SearchParams are the options of a search.
type SearchParams struct {
	Strategy Strategy
	// ByRows makes SearchBatch read the rows, for blocks of queries at once, wherever that is
	// possible, and not only where it is estimated to be faster. Where it is not possible,
	// Strategy applies. Search and SearchSegments ignore it.
	ByRows bool
	// Deleted rows are never hits. Accept, if set, holds all rows that may be hits.
	Deleted, Accept *roaring.Bitmap
	// Count also counts the rows that TAAT accumulates, for Stats.Candidates,
	// at the cost of another scan.
	Count bool
}

// Stats describe the work of a search.
type Stats struct {
	Strategy Strategy
	// Candidates is the number of rows evaluated in the sense of the paper's Table 4: rows that
	// TAAT accumulated (with SearchParams.Count, otherwise as Scored) plus pivots that Weak-AND
	// evaluated; for Compact and Union, rows scored exactly.
	Candidates int
	// Scored is the number of rows scored exactly.
	Scored int
	// Pruned is the number of rows that were not candidates.
	Pruned int
	// Postings is the number of entries of lists, cells of columns and bits of bitmaps that
	// were read. Bytes is the memory of these and of the scored rows.
	Postings, Bytes int
}

// add sums the statistics of segments.
func (s *Stats) add(t Stats) {
	s.Strategy = t.Strategy
	s.Candidates += t.Candidates
	s.Scored += t.Scored
	s.Pruned += t.Pruned
	s.Postings += t.Postings
	s.Bytes += t.Bytes
}

// term is a feature of the query that occurs in the index.
type term struct {
	feature uint32 // number of its list
	weight  float32
}

// Searcher holds the memory of searches, so that searches do not allocate after the first few.
// It may be used on any index, by one goroutine at a time. The zero value is ready.
type Searcher struct {
	top    top
	terms  []term
	scorer scorer
	loaded bool // the query is loaded into the scorer
	stats  Stats
	params SearchParams
	base   uint32 // number of the first row of the segment

	sums    []float32
	near    []nearRow
	block   []uint32
	parted  []partTerm
	cursors []cursor
	turns   []turn
	union   []uint64
	picker  picker
	weighted
	uniform
	batch  *batch    // half a megabyte, allocated on first use
	answer []Hit     // answer of a query in a batch
	ones   []float32 // values of queries without values
}

// NewSearcher returns a Searcher.
func NewSearcher() *Searcher { return new(Searcher) }

// Search appends the k best rows for q to dst, best first: fewer where fewer
// share a feature with it. Features the index does not know are ignored.
//
// Errors: ErrParams for a query that is malformed or has negative values, a negative k, or a
// strategy whose structure the index lacks; the context's, which is checked after each list or
// window.
func (s *Searcher) Search(ctx context.Context, ix *Index, q vector.Sparse, k int, p SearchParams,
	dst []Hit) ([]Hit, Stats, error) {
	if err := checkQuery(q, k); err != nil {
		return dst, Stats{}, err
	}
	return s.search(ctx, ix, q, k, p, dst)
}

// search is Search for a verified query and k.
func (s *Searcher) search(ctx context.Context, ix *Index, q vector.Sparse, k int, p SearchParams,
	dst []Hit) ([]Hit, Stats, error) {
	s.top.reset(min(k, ix.Len()))
	s.stats = Stats{}
	if err := s.segment(ctx, ix, 0, q, p); err != nil {
		return dst, Stats{}, err
	}
	return s.top.append(dst), s.stats, nil
}

func checkQuery(q vector.Sparse, k int) error {
	if k < 0 {
		return fmt.Errorf("%w: k is %d", ErrParams, k)
	}
	if err := q.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrParams, err)
	}
	for i, v := range q.Value {
		if v < 0 {
			return fmt.Errorf("%w: feature %d of the query is %g", ErrParams, q.Index[i], v)
		}
	}
	return nil
}

// segment searches one index, whose rows are numbered from base, and offers its hits to s.top.
func (s *Searcher) segment(ctx context.Context, ix *Index, base uint32, q vector.Sparse,
	p SearchParams) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n := ix.Len()
	s.params, s.base = p, base
	s.terms = ix.appendTerms(s.terms[:0], q)
	if s.top.k == 0 || n == 0 || len(s.terms) == 0 {
		return nil
	}
	strategy, err := ix.choose(s.terms, p.Strategy)
	if err != nil {
		return err
	}
	before := s.stats
	s.stats = Stats{Strategy: strategy}
	if strategy != Compact || ix.Uniform == nil {
		s.loadScorer(ix)
	} // otherwise counts are scores
	switch strategy {
	case Partitioned:
		if err = s.taatPart(ctx, ix); err == nil {
			err = s.wand(ctx, ix.Partition)
		}
	case Compact:
		if ix.Uniform != nil {
			err = s.searchUniform(ctx, ix)
		} else {
			err = s.searchWeighted(ctx, ix)
		}
	case Union:
		err = s.searchUnion(ctx, ix, allLists)
	}
	s.unloadScorer()
	s.stats.Pruned = n - s.stats.Candidates
	before.add(s.stats)
	s.stats = before
	return err
}

// loadScorer loads the query into the scorer, unless it is loaded.
func (s *Searcher) loadScorer(ix *Index) {
	if !s.loaded {
		s.scorer.load(ix, s.terms)
		s.loaded = true
	}
}

// unloadScorer removes the query from the scorer and counts what was read.
func (s *Searcher) unloadScorer() {
	if s.loaded {
		s.scorer.unload(s.terms)
		s.stats.Bytes += 8 * s.scorer.read
		s.loaded = false
	}
}

// appendTerms appends the features of a query that the index may have.
func (ix *Index) appendTerms(dst []term, q vector.Sparse) []term {
	features := ix.Features()
	for i, f := range q.Index {
		if int(f) >= features {
			break
		}
		if q.Value[i] > 0 && (ix.Source == nil || ix.Source.keeps(f)) {
			if ix.Used != nil {
				at, ok := slices.BinarySearch(ix.Used, f)
				if !ok {
					continue
				}
				f = uint32(at)
			}
			dst = append(dst, term{f, q.Value[i]})
		}
	}
	return dst
}

// choose resolves a strategy.
func (ix *Index) choose(q []term, s Strategy) (Strategy, error) {
	compact := ix.Uniform != nil || ix.Weighted != nil
	switch s {
	case Auto:
		return ix.plan(q), nil
	case Partitioned:
		if ix.Partition == nil {
			return 0, fmt.Errorf("%w: %v on an index without a partition", ErrParams, s)
		}
	case Compact:
		if !compact {
			return 0, fmt.Errorf("%w: %v on an index without the compact structure", ErrParams, s)
		}
	case Union:
		if !compact && ix.Partition == nil {
			return 0, fmt.Errorf("%w: %v on an index without lists", ErrParams, s)
		}
	default:
		return 0, fmt.Errorf("%w: %v", ErrParams, s)
	}
	return s, nil
}

// accepted reports whether a row of the segment may be a hit.
func (s *Searcher) accepted(row uint32) bool {
	p := &s.params
	return (p.Deleted == nil || !p.Deleted.Contains(row)) && (p.Accept == nil || p.Accept.Contains(row))
}

// offer scores a row exactly.
func (s *Searcher) offer(row uint32) {
	s.top.push(s.hit(row))
}

// hit returns a row with its exact score.
func (s *Searcher) hit(row uint32) Hit {
	s.stats.Scored++
	return Hit{s.base + row, s.scorer.score(row)}
}

// source selects the lists of a union.
type source int

const (
	allLists  source = iota
	taatLists        // lists of the TAAT part
)

// searchUnion marks the rows of all lists of the query and scores each, except those whose bits
// are set in done.
func (s *Searcher) searchUnion(ctx context.Context, ix *Index, from source, done ...uint64) error {
	s.loadScorer(ix)
	words := (ix.Len() + 63) / 64
	if cap(s.union) < words {
		s.union = make([]uint64, words)
	}
	s.union = s.union[:words]
	clear(s.union)
	s.markUnion(ix, from)
	if extra := ix.Len() % 64; extra != 0 {
		s.union[words-1] &= 1<<extra - 1
	}
	for w, word := range s.union {
		if w%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if done != nil {
			word &^= done[w]
		}
		for ; word != 0; word &= word - 1 {
			if row := uint32(w*64 + bits.TrailingZeros64(word)); s.accepted(row) {
				s.offer(row)
			}
		}
	}
	s.stats.Candidates = s.stats.Scored
	return nil
}

// markUnion sets the bits of the rows of the query's lists.
func (s *Searcher) markUnion(ix *Index, from source) {
	if from == allLists && (ix.Uniform != nil || ix.Weighted != nil) {
		for _, t := range s.terms {
			if ix.Uniform != nil {
				s.mark(ix.Uniform.mark(t.feature, s.union))
			} else {
				s.mark(ix.Weighted.mark(t.feature, s.union))
			}
		}
		return
	}
	for _, t := range s.partition(ix.Partition) {
		s.mark(ix.Partition.TAAT.list(t.list).mark(s.union))
		if from != taatLists {
			s.mark(ix.Partition.DAAT.list(t.list).mark(s.union))
		}
	}
}

// mark adds to the counts of postings and bytes read.
func (s *Searcher) mark(postings, bytes int) {
	s.stats.Postings += postings
	s.stats.Bytes += bytes
}

// queryNorm returns the length of the known part of the query.
func queryNorm(q []term) float64 {
	var sum float64
	for _, t := range q {
		sum += float64(t.weight) * float64(t.weight)
	}
	return math.Sqrt(sum)
}
