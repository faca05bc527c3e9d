package query

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/anndb/anndb/vector"
)

// How much is done between two looks at the context: work of some microseconds,
// next to which a look costs nothing, and which a deadline can wait for even where
// every row comes from a disk.
const (
	mostRows        = 64      // exact distances
	mostCoordinates = 1 << 14 // in them
	sketchRun       = 1 << 13 // sketches
	beamRun         = 64      // steps of a beam search
	sortRun         = 1 << 13 // rows sorted
)

// begin prepares the looks at the context of a search.
func (s *Searcher) begin(ctx context.Context) {
	s.ctx, s.err = ctx, nil
	rows := min(mostRows, mostCoordinates/max(1, s.v.Dim))
	s.every = 1<<max(0, bits.Len(uint(rows))-1) - 1
}

// halted reports whether the search is to stop: whether its context has ended. It
// sets err then, and every loop that it cuts short may leave what it likes behind.
func (s *Searcher) halted() bool {
	if s.err == nil && s.ctx != nil {
		s.err = stopped(s.ctx)
	}
	return s.err != nil
}

// stopped is the error of a context that has ended.
func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// judgements are what Params.Accept has said of rows in one search, so that it is
// asked once for each: about verdict, row by row, for a row that it rejected,
// verdict+1 for one that it accepted; smaller numbers are of older searches.
type judgements struct {
	judged  []uint16
	verdict uint16
}

// begin forgets all judgements, without touching the array except once in 32,767
// searches.
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

// accepted reports whether Params.Accept accepts a row. Once the context has ended
// it accepts none and is not asked.
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

// sort sorts hits, nearest first, ties by row: long ones run by run, with looks at
// the context between. The result may be in other memory.
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

// merge2 merges two sorted runs, unless it is stopped.
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
