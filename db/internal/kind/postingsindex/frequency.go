package postingsindex

import (
	"context"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// BM25 weighs a term by the number of live rows that have it, and rows by the mean length. The lists of a
// segment have all rows that were live when it was built. Those that were deleted since are counted, each
// once, by the first generation that does not have it.

// removed counts the terms of the rows of a segment that were deleted after its build. All generations
// share it.
type removed struct {
	mu    sync.Mutex
	rows  *roaring.Bitmap
	order []uint32 // the rows, in the order in which they were counted
	terms map[uint32]int
	of    kind.Corpus
	all   kind.Corpus // the segment with its deleted rows
}

// segmentTerms are the terms of a segment in one generation: those of its lists, without those of its deleted
// rows: the first counted ones of the order, except for over, which are not deleted in this generation.
type segmentTerms struct {
	*removed
	counted int
	over    []uint32
}

// termsOf counts the deleted rows of a segment that are not counted yet.
func termsOf(r *removed, g *postings.Segment) segmentTerms {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows, r.terms = roaring.New(), map[uint32]int{}
		for _, length := range g.Source.Norm {
			r.all.Add(length)
		}
	}
	deleted := g.Deleted
	if deleted == nil {
		deleted = roaring.New()
	}
	for it := roaring.AndNot(deleted, r.rows).Iterator(); it.HasNext(); {
		row := it.Next()
		// A row that was deleted before the build has no length, and is in no list.
		length := g.Source.Norm[row]
		if length > 0 {
			for _, f := range g.Source.Row(row).Index {
				r.terms[f]++
			}
		}
		r.of.Add(length)
		r.rows.Add(row)
		r.order = append(r.order, row)
	}
	return segmentTerms{removed: r, counted: len(r.order), over: roaring.AndNot(r.rows, deleted).ToArray()}
}

// count adds the live rows of a segment that have each feature of x to have, and all of its live rows to c.
func (t *segmentTerms) count(g *postings.Segment, x vector.Sparse, have []int, c *kind.Corpus) {
	at, n := 0, 0
	for i, f := range x.Index {
		n, at = g.Count(f, at)
		have[i] += n
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, f := range x.Index {
		have[i] -= t.terms[f]
	}
	c.Rows += t.all.Rows - t.of.Rows
	c.Length += t.all.Length - t.of.Length
	for _, rows := range [][]uint32{t.over, t.order[t.counted:]} {
		for _, row := range rows {
			if g.Source.Norm[row] == 0 {
				continue
			}
			c.Add(g.Source.Norm[row])
			stored := g.Source.Row(row)
			for i, f := range x.Index {
				if stored.At(f) > 0 {
					have[i]++
				}
			}
		}
	}
}

// termLists is the index for a search by terms.
func (x *opened) termLists(ctx context.Context, s *kind.Search, segments []postings.Segment) kind.TermLists {
	return kind.TermLists{
		Covered: x.m.Info.Rows,
		Count: func(q vector.Sparse, have []int, c *kind.Corpus) {
			for i := range x.terms {
				x.terms[i].count(&x.segments[i], q, have, c)
			}
		},
		Find: func(weights vector.Sparse, mean float64, k int) (err error) {
			p := postings.SearchParams{Mean: mean}
			s.Hits, s.Postings, err = s.Inverted.SearchSegments(ctx, segments, weights, k, p, s.Hits)
			return err
		},
	}
}

// RowsWith implements kind.TermFinder.
func (x *opened) RowsWith(ctx context.Context, term uint32) (*roaring.Bitmap, error) {
	set, err := x.st.Sparse(ctx)
	if err != nil {
		return nil, err
	}
	return RowsWith(ctx, x.segments, set, x.m.Info.Rows, term)
}

// RowsWith returns the live rows that have a feature: by the lists of segments, and from the first row after
// these on by the rows themselves.
func RowsWith(
	ctx context.Context, segments []postings.Segment, set *kind.SparseSet, covered int, feature uint32,
) (*roaring.Bitmap, error) {
	out := roaring.New()
	for i := range segments {
		g := &segments[i]
		rows := g.RowsWith(feature)
		if g.Deleted != nil {
			rows.AndNot(g.Deleted)
		}
		out.Or(roaring.AddOffset(rows, g.First))
	}
	return out, set.AddRowsWith(ctx, out, feature, covered)
}
