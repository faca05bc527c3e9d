package query

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Amounts of work between two checks of the context: some microseconds, compared with which a
// check costs nothing, and which a deadline can tolerate even if every row is read from disk.
const (
	mostRows        = 64      // exact distances
	mostCoordinates = 1 << 14 // coordinates of their rows
	sketchRun       = 1 << 13 // sketches
	beamRun         = 64      // steps of a beam search
	sortRun         = 1 << 13 // rows sorted
)

// begin prepares a search's checks of its context.
func (s *Searcher) begin(ctx context.Context) {
	s.ctx, s.err = ctx, nil
	rows := min(mostRows, mostCoordinates/max(1, s.v.Dim))
	s.every = 1<<max(0, bits.Len(uint(rows))-1) - 1
}

// halted reports whether the search must stop because its context has ended. It then sets err,
// and an interrupted loop may leave any intermediate result.
func (s *Searcher) halted() bool {
	if s.err == nil && s.ctx != nil {
		s.err = stopped(s.ctx)
	}
	return s.err != nil
}

// stopped returns the error of a context that has ended.
func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// judgements records the results of Params.Accept in one search, so that it is called once per
// row: judged[row] is verdict for a rejected row, verdict+1 for an accepted one; smaller
// numbers are of older searches.
type judgements struct {
	judged  []uint16
	verdict uint16
}

// begin discards all judgements. It clears the array only once in 32,767 searches.
func (j *judgements) begin(rows int) {
	if len(j.judged) < rows {
		j.judged = make([]uint16, rows+rows/4)
		j.verdict = 0
	}
	j.verdict += 2
	if j.verdict == 0 {
		clear(j.judged)
		j.verdict = 2
	}
}

// accepted reports whether Params.Accept accepts a row. Once the context has ended it returns
// false without calling Accept.
func (s *Searcher) accepted(row uint32) bool {
	switch s.judged[row] {
	case s.verdict:
		return false
	case s.verdict + 1:
		return true
	}
	if s.halted() {
		return false
	}
	s.judged[row] = s.verdict
	if !s.p.Accept(row) {
		return false
	}
	s.judged[row]++
	return true
}

// sort sorts hits, nearest first, ties by row. Long slices are sorted in runs with checks of
// the context between them. The result may be in other memory.
func (s *Searcher) sort(x []vector.Neighbor) []vector.Neighbor {
	for lo := 0; lo < len(x) && (lo == 0 || !s.halted()); lo += sortRun {
		slices.SortFunc(x[lo:min(lo+sortRun, len(x))], compare)
	}
	if len(x) <= sortRun {
		return x
	}
	s.spare = grow(s.spare, len(x))
	from, to := x, s.spare
	for width := sortRun; width < len(x); width *= 2 {
		for lo := 0; lo < len(x); lo += 2 * width {
			mid, hi := min(lo+width, len(x)), min(lo+2*width, len(x))
			s.merge2(from[lo:mid], from[mid:hi], to[lo:hi])
		}
		from, to = to, from
	}
	return from
}

// merge2 merges two sorted runs, unless the search is stopped.
func (s *Searcher) merge2(a, b, out []vector.Neighbor) {
	for i := range out {
		if i%sortRun == sortRun-1 && s.halted() {
			return
		}
		if len(b) == 0 || len(a) > 0 && compare(a[0], b[0]) <= 0 {
			out[i], a = a[0], a[1:]
		} else {
			out[i], b = b[0], b[1:]
		}
	}
}

func compare(a, b vector.Neighbor) int {
	if c := cmp.Compare(a.Distance, b.Distance); c != 0 {
		return c
	}
	return cmp.Compare(a.ID, b.ID)
}
