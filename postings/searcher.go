package postings

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/vector"
)

// Strategy selects how a window of rows is searched. All strategies find the same rows.
type Strategy uint8

const (
	// Auto searches windows in which the lists of the query are short by DAAT, the others by TAAT.
	Auto Strategy = iota
	// TAAT is term at a time: an array with a cell for every row adds up the lists, and the rows of the
	// highest cells are scored.
	TAAT
	// DAAT is document at a time with Weak-AND: cursors go through all lists together and skip rows
	// whose lists' maxima do not add up to the score of the k-th best row.
	DAAT
)

// SearchParams are the options of a search.
type SearchParams struct {
	Strategy Strategy
	// Deleted rows are never hits. Accept, if set, holds all rows that may be hits.
	Deleted, Accept *roaring.Bitmap
	// Mean is the mean length of all rows at present, for BM25.
	Mean float64
}

// Stats describe the work of a search.
type Stats struct {
	// Candidates is the number of rows that TAAT scored, and of the pivots that Weak-AND evaluated.
	Candidates int
	// Scored is the number of rows scored exactly.
	Scored int
	// Pruned is the number of rows that were not candidates.
	Pruned int
	// Postings is the number of entries of lists that were read. Bytes is the memory of these and of
	// the scored rows.
	Postings, Bytes int
}

// Add adds the work of another search.
func (s *Stats) Add(o *Stats) {
	s.Candidates, s.Scored, s.Pruned = s.Candidates+o.Candidates, s.Scored+o.Scored, s.Pruned+o.Pruned
	s.Postings, s.Bytes = s.Postings+o.Postings, s.Bytes+o.Bytes
}

// term is a feature of the query that has a list.
type term struct {
	feature uint32
	weight  float32
	list    rowList
	// container is the next container of the list, containers their end, rank the next one's first code.
	container, containers, rank int
	// step is what the square of a code adds to a score, bound what the highest value of the list does
	// (definition 13), units is step in the units of the cells, times 2¹⁶, or bound without codes.
	step, bound float64
	units       uint16
}

// Searcher holds the memory of searches, so that searches do not allocate after the first few.
// It may be used on any index, by one goroutine at a time. The zero value is ready.
type Searcher struct {
	top    top
	terms  []term
	scorer scorer
	stats  Stats
	params SearchParams

	parts []part // of the query's lists in the current window
	lists *Lists // of the segment
	first uint32 // number of the first row of the window in the segment
	base  uint32 // number of the first row of the segment
	scan  scan
	turns []turn
}

// NewSearcher returns a Searcher.
func NewSearcher() *Searcher { return new(Searcher) }

// Search appends the k best rows for q to dst, best first: fewer where fewer
// share a feature with it. Features the index does not know are ignored.
//
// Errors: ErrParams for a query that is malformed or has negative values, or a negative k; the
// context's, which is checked for each window.
func (s *Searcher) Search(ctx context.Context, ix *Index, q vector.Sparse, k int, p SearchParams,
	dst []Hit) ([]Hit, Stats, error) {
	one := [1]Segment{{Index: ix, Deleted: p.Deleted, Accept: p.Accept}}
	return s.SearchSegments(ctx, one[:], q, k, SearchParams{Strategy: p.Strategy, Mean: p.Mean}, dst)
}

// Segment is one of several indexes over consecutive ranges of rows.
type Segment struct {
	*Index
	// First is the number of the index's row 0 among the rows of all segments.
	First uint32
	// Deleted and Accept are as in SearchParams, by row number within the segment.
	Deleted, Accept *roaring.Bitmap
}

// Among returns segments that find only rows of a set, among those that they accept.
func Among(segments []Segment, rows *roaring.Bitmap) []Segment {
	out := slices.Clone(segments)
	for i := range out {
		g := &out[i]
		own := rows
		if n := uint64(g.Len()); g.First > 0 || !rows.IsEmpty() && uint64(rows.Maximum()) >= n {
			own = roaring.New()
			own.AddRange(uint64(g.First), uint64(g.First)+n)
			own.And(rows)
			own = roaring.AddOffset64(own, -int64(g.First))
		}
		if g.Accept != nil {
			own = roaring.And(own, g.Accept)
		}
		g.Accept = own
	}
	return out
}

// SearchSegments is Search over segments whose rows do not overlap. The answer is that of one
// index over all their rows. The score that k rows have reached in earlier segments prunes
// later ones. p's Deleted and Accept must be nil. Errors: as Search.
func (s *Searcher) SearchSegments(ctx context.Context, segments []Segment, q vector.Sparse, k int,
	p SearchParams, dst []Hit) ([]Hit, Stats, error) {
	if err := checkQuery(q, k); err != nil {
		return dst, Stats{}, err
	}
	if p.Deleted != nil || p.Accept != nil {
		return dst, Stats{}, fmt.Errorf("%w: deleted and accepted rows must be set per segment", ErrParams)
	}
	rows := 0
	for i := range segments {
		rows += segments[i].Len()
	}
	s.top.reset(min(k, rows))
	s.stats = Stats{}
	for i := range segments {
		g := &segments[i]
		s.params = SearchParams{Strategy: p.Strategy, Deleted: g.Deleted, Accept: g.Accept, Mean: p.Mean}
		s.base = g.First
		if err := s.segment(ctx, g.Index, q); err != nil {
			return dst, Stats{}, err
		}
	}
	s.stats.Pruned = rows - s.stats.Candidates
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

// shortShare decides between the strategies: a window is searched by DAAT if it has more rows than
// this number for each entry of the query's lists. TAAT takes time for every row, DAAT more for an entry.
const shortShare = 256

// mostTerms is the maximum number of a query's lists for TAAT: each may have a unit of a cell.
const mostTerms = 1 << 14

// segment searches one index and offers its hits to s.top.
func (s *Searcher) segment(ctx context.Context, ix *Index, q vector.Sparse) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.open(ix, q); s.top.k == 0 || len(s.terms) == 0 {
		return nil
	}
	s.lists = &ix.Lists
	s.scorer.load(ix, s.terms, s.params.Mean)
	defer s.unload()
	for first := 0; first < ix.Len(); first += windowRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.first = uint32(first)
		rows := min(ix.Len()-first, windowRows)
		entries := s.window(uint16(first>>windowBits), ix.Len())
		switch {
		case entries == 0:
		case s.params.Strategy == DAAT, s.params.Strategy == Auto && entries*shortShare < rows,
			len(s.terms) > mostTerms:
			s.weakAND()
		default:
			s.scanWindow(rows)
		}
	}
	return nil
}

func (s *Searcher) unload() {
	s.scorer.unload(s.terms)
	s.stats.Bytes += 8 * s.scorer.read
}

// open finds the lists of the query's features and the units of the cells.
func (s *Searcher) open(ix *Index, q vector.Sparse) {
	s.terms = s.terms[:0]
	at, ok := 0, false
	growth := 1.0
	if ix.Source != nil && ix.Source.BM25 != nil {
		growth = ix.Source.BM25.growth(s.params.Mean)
	}
	var length, most, sum float64
	for i, f := range q.Index {
		if int(f) >= ix.Features() {
			break
		}
		if q.Value[i] == 0 || ix.Source != nil && !ix.Source.keeps(f) {
			continue
		}
		if at, ok = ix.find(f, at); !ok {
			continue
		}
		list := ix.list(at)
		weight := float64(q.Value[i])
		bound := up(weight * float64(ix.Max[at]) * growth)
		t := term{
			feature: f, weight: q.Value[i], list: list, containers: list.set.end(ix.Len()),
			step: bound / maxSquare, bound: bound,
		}
		if !ix.hasCodes() { // all codes are 255, and the ratio multiplies what they add up to
			t.step = weight * ix.Norm / maxSquare
		}
		s.terms = append(s.terms, t)
		length += weight * weight
		most = max(most, bound)
		sum += t.step * maxSquare
	}
	s.scan.perScore = highestScore / max(math.Sqrt(length)*ix.Norm*growth, most)
	scale := s.scan.perScore * (1 << 16)
	counts := !ix.hasCodes()
	if counts { // cells must not overflow
		s.scan.perScore = float64(maxEstimate-min(len(s.terms), mostTerms)) / sum
		scale = s.scan.perScore * maxSquare
	}
	for i := range s.terms {
		t := &s.terms[i]
		t.units = uint16(math.Ceil(min(t.step*scale, maxEstimate)))
		counts = counts && t.weight == s.terms[0].weight
	}
	s.scan.unit = 0
	if counts && len(s.terms) > 0 {
		s.scan.unit = uint32(s.terms[0].units)
	}
}

// part is a container of a term's list: the rows of the list in the current window.
type part struct {
	*term
	in   rowContainer
	code []uint8 // of the container's rows, and what follows; nil without codes
	// row is the number in the window at which a cursor is, at the place of that row: the index of its
	// number in a list, or of its word in a bitmap. rest holds that word without the bits below the
	// row. rank is the rank of the row, or of the next row that TAAT adds.
	row, at, rank int
	rest          uint16
}

// window collects the containers of a window in s.parts and returns the number of their entries. It does not
// count the longest one if its rows need others to be hits: Weak-AND skips it. rows is the number of rows of
// the segment. The caller requests windows in ascending order.
func (s *Searcher) window(key uint16, rows int) (entries int) {
	s.parts = s.parts[:0]
	longest := 0
	for i := range s.terms {
		t := &s.terms[i]
		if t.container == t.containers || t.list.set.key(t.container, rows) != key {
			continue
		}
		p := part{term: t}
		p.in, t.container = t.list.set.container(t.container, rows)
		if t.list.code != nil {
			p.code = t.list.code[t.rank:]
		}
		s.parts = append(s.parts, p)
		t.rank += p.in.n
		entries += p.in.n
		if p.in.n > s.parts[longest].in.n {
			longest = len(s.parts) - 1
		}
	}
	if entries > 0 && s.parts[longest].bound < s.top.theta()*nearly {
		entries -= s.parts[longest].in.n
	}
	return entries
}

// accepted reports whether a row of the segment may be a hit.
func (s *Searcher) accepted(row uint32) bool {
	p := &s.params
	return (p.Deleted == nil || !p.Deleted.Contains(row)) && (p.Accept == nil || p.Accept.Contains(row))
}

// offer scores a row of the segment exactly.
func (s *Searcher) offer(row uint32) {
	s.stats.Scored++
	s.top.push(Hit{s.base + row, s.scorer.score(row)})
}

// read adds to the counts of postings and bytes read.
func (s *Searcher) read(postings, bytes int) {
	s.stats.Postings += postings
	s.stats.Bytes += bytes
}
