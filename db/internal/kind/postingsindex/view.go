package postingsindex

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
)

// opened is an inverted index in one generation.
type opened struct {
	segments []postings.Segment
	m        *kind.Manifest
	st       kind.Source
	terms    []segmentTerms // of each segment, for BM25
}

// Open opens all segments in the map.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	x := &opened{m: m, st: st}
	for i := range m.Segments {
		g := &m.Segments[i]
		if g.Empty() {
			continue
		}
		one, err := Load(ctx, st, m.Info.Name, &Stored{g.Object, g.First, g.Rows, g.Own.(*Scalars)}, nil)
		if err != nil {
			return nil, err
		}
		if (one.Source.BM25 != nil) != (st.Collection().BM25 != nil) {
			return nil, fail.Corruptf(st.Collection().Name,
				"index %q: its values are not those of the collection's searches", m.Info.Name)
		}
		if one.Source.BM25 != nil {
			x.terms = append(x.terms, termsOf(st.Shared(g.Object, &removed{}).(*removed), &one))
		}
		x.segments = append(x.segments, one)
	}
	return x, nil
}

// Check checks each segment.
func (x *opened) Check(context.Context) error { return CheckArrays(x.segments) }

// CheckArrays checks that the arrays of each segment are consistent.
func CheckArrays(segments []postings.Segment) error {
	for i := range segments {
		if err := segments[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// maxSimilarity is the highest similarity of rows of unit length, with room for rounding.
const maxSimilarity = 1.001

// Search searches all segments and scans the rows that are in none.
func (x *opened) Search(ctx context.Context, s *kind.Search) error {
	set, err := x.st.Sparse(ctx)
	if err != nil {
		return err
	}
	segments := x.segments
	if s.Rows != nil {
		segments = postings.Among(segments, s.Rows)
	}
	s.Stats.Way = query.ByPostings
	if c := x.st.Collection(); c.BM25 != nil {
		return s.ByTerms(ctx, set, c, x.termLists(ctx, s, segments))
	}
	err = s.WidenHits(func(k int) (err error) {
		s.Hits, s.Postings, err = s.Inverted.SearchSegments(
			ctx, segments, s.Features, k, postings.SearchParams{}, s.Hits)
		return err
	})
	if err != nil {
		return err
	}
	for _, h := range s.Hits {
		if !(h.Score <= maxSimilarity) {
			return fail.Corruptf(x.st.Collection().Name,
				"index %q: row %d has a similarity of %g: its stored length is not that of its features",
				x.m.Info.Name, h.Row, h.Score)
		}
	}
	return s.AfterIndex(ctx, set, x.m.Info.Rows)
}

// Weighing holds the weights and the selection of features with which a label model indexes
// rows.
type Weighing struct {
	IDF  []float32
	Keep []uint64
}

// Stored is an inverted index of rows [First, First+Rows) in blocks of an object.
type Stored struct {
	Object      uint64
	First, Rows int
	Index       *Scalars
}

// Load opens an inverted index. w is not nil if its rows are weighed.
func Load(
	ctx context.Context, st kind.Source, name string, g *Stored, w *Weighing,
) (one postings.Segment, err error) {
	set, err := st.Sparse(ctx)
	if err != nil {
		return one, err
	}
	index, err := loadPostings(st.Arrays(ctx, name, g.Object), set, g, w, st.Collection().BM25)
	return postings.Segment{
		Index: index, First: uint32(g.First), Deleted: kind.Within(set.DeletedRows, g.First, g.Rows),
	}, err
}

// loadPostings opens a segment of a stored inverted index. Its blocks never change, so their
// cross-references are checked only once per process.
func loadPostings(
	r *arrays.Reader, set *kind.SparseSet, g *Stored, w *Weighing, bm25 *postings.BM25,
) (*postings.Index, error) {
	a := r.Section(codec.KindPostings)
	x := &postings.Index{Norm: g.Index.Norm, Source: rowSource(r, a, set, g, w)}
	if mean := g.Index.Mean; mean > 0 && r.Err == nil {
		if bm25 == nil {
			r.Fail("values of BM25, and the collection has no texts")
			return nil, r.Err
		}
		x.Source.BM25 = &postings.BM25{K1: bm25.K1, B: bm25.B, Mean: mean}
	}
	listArrays(a, &x.Lists)
	r.Once(kind.RolePostings, g.shape(w), 0, x.Validate)
	if r.Err != nil {
		return nil, r.Err
	}
	return x, nil
}

// shape identifies the properties that the arrays of a segment are checked against.
func (g *Stored) shape(w *Weighing) string {
	return fmt.Sprintf("%d %d %+v %t", g.First, g.Rows, *g.Index, w != nil)
}

// rowSource returns the collection's rows, set, as the rows of a segment, which stores no copy of
// them. A label model weighs them and selects features; it has no weights for features newer
// than the segment.
func rowSource(
	r *arrays.Reader, a *arrays.Section, set *kind.SparseSet, g *Stored, w *Weighing,
) *postings.Source {
	if r.Err != nil {
		return nil
	}
	s, err := postings.NewSource(set.Runs(), set.Shift, g.First, g.Rows, g.Index.Cols)
	if err != nil {
		r.Fail("%v", err)
		return nil
	}
	arrays.Field(a, arrayNorm, &s.Norm)
	if w == nil {
		return s
	}
	cols, words := g.Index.Cols, (g.Index.Cols+63)/64
	if w.IDF != nil {
		s.IDF = w.IDF[:min(len(w.IDF), cols)]
	}
	if w.Keep != nil {
		s.Keep = w.Keep[:min(len(w.Keep), words)]
	}
	// The model may have got other weights since the segment was written and checked.
	r.Need(s.IDF == nil || len(s.IDF) == cols, "weights of features")
	r.Need(s.Keep == nil || len(s.Keep) == words, "features kept")
	return s
}
