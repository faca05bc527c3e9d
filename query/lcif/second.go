package lcif

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// secondNeighbors is the number of nearest other rows of a neighbor that second-order scores use.
const secondNeighbors = 10

// secondOrder finds the neighbors of training rows, for second-order scores. The zero value is
// ready.
type secondOrder struct {
	lists map[uint32][]near // by row
	unit  vector.Sparse
	hits  []postings.Hit
	near  []near // memory of the lists
}

// of returns the neighbors of a row of the last find, ascending by row.
func (s *secondOrder) of(row uint32) []near { return s.lists[row] }

// find finds the neighbors of rows, one search each, in place of earlier ones. Errors: those of the
// view's source.
func (s *secondOrder) find(ctx context.Context, v *View, rows []near, scratch *NeighborScratch) error {
	if s.lists == nil {
		s.lists = map[uint32][]near{}
	}
	clear(s.lists)
	s.near = slices.Grow(s.near[:0], len(rows)*secondNeighbors)
	for _, n := range rows {
		from := len(s.near)
		if err := s.search(ctx, v, n.row, scratch); err != nil {
			return err
		}
		s.lists[n.row] = s.near[from:]
	}
	return nil
}

// search appends the neighbors of a row to s.near.
func (s *secondOrder) search(ctx context.Context, v *View, row uint32, scratch *NeighborScratch) (err error) {
	raw := v.Row(row)
	normalise(&s.unit, raw, v.Features, v.Keep)
	x := scratch.vectorOf(v, row)
	if s.unit.Len() == 0 && x == nil {
		return nil
	}
	q := NeighborQuery{raw, s.unit, x}
	s.hits, err = v.Neighbors.Neighbors(ctx, scratch, q, secondNeighbors+1, s.hits[:0])
	if err != nil {
		return err
	}
	from := len(s.near)
	for _, h := range s.hits {
		if h.Row != row && h.Score > 0 && len(s.near)-from < secondNeighbors {
			s.near = append(s.near, near{h.Row, float32(h.Score)})
		}
	}
	slices.SortFunc(s.near[from:], func(a, b near) int { return cmp.Compare(a.row, b.row) })
	return nil
}

// otherLists returns the neighbors of the rows that occur in lists, by row.
func otherLists(ctx context.Context, v *View, lists [][]near, workers int) (map[uint32][]near, error) {
	out := map[uint32][]near{}
	for _, list := range lists {
		for _, n := range list {
			out[n.row] = nil
		}
	}
	rows := slices.Sorted(maps.Keys(out))
	found := make([][]near, len(rows))
	err := eachRow(ctx, len(rows), workers, nil, func() func(int) error {
		s, scratch := new(secondOrder), new(NeighborScratch)
		return func(i int) error {
			s.near = s.near[:0]
			err := s.search(ctx, v, rows[i], scratch)
			found[i] = slices.Clone(s.near)
			return err
		}
	})
	for i, row := range rows {
		out[row] = found[i]
	}
	return out, err
}
