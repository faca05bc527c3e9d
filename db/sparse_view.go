package db

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
)

// loadSegments views all segments of an inverted index.
func (st *collState) loadSegments(ctx context.Context, m *manifest) ([]postings.Segment, error) {
	set, err := st.sparse(ctx)
	if err != nil {
		return nil, err
	}
	var out []postings.Segment
	for _, g := range m.segments() {
		index, err := st.loadPostings(ctx, m, &g)
		if err != nil {
			return nil, err
		}
		out = append(out, postings.Segment{Index: index, First: uint32(g.First), Deleted: within(set.dead, g.First, g.Rows)})
	}
	return out, nil
}

// within is the part of a set that lies in n rows from first on, counted from
// there; nil if there is none.
func within(set *roaring.Bitmap, first, n int) *roaring.Bitmap {
	if set == nil {
		return nil
	}
	out := set
	if first > 0 || !set.IsEmpty() && int(set.Maximum()) >= n {
		out = roaring.New()
		out.AddRange(uint64(first), uint64(first)+uint64(n))
		out.And(set)
		out = roaring.AddOffset64(out, -int64(first))
	}
	if out.IsEmpty() {
		return nil
	}
	return out
}

// loadPostings views a segment of a stored inverted index. Its blocks never
// change, so their cross-references are checked only once in the life of the
// process.
func (st *collState) loadPostings(ctx context.Context, m *manifest, g *segmentManifest) (*postings.Index, error) {
	r := st.arrays(ctx, m.Info.Name, g.Object)
	a := r.arrays(codec.KindPostings)
	s := &g.Sparse
	x := &postings.Index{Unit: s.Highest, Norm: s.Norm, Source: st.rowSource(a, m, g)}
	if s.Partition {
		x.Partition = &postings.Partition{M: s.M, TAATRows: s.TAATRows}
	}
	switch s.Compact {
	case "weighted":
		x.Weighted = &postings.Weighted{Stride: s.Stride, Unit: s.Unit, Residual: s.Residual}
		r.need(len(s.Bands) == len(x.Weighted.Bands), "bands")
		copy(x.Weighted.Bands[:], s.Bands)
	case "uniform":
		x.Uniform = &postings.Uniform{Stride: s.Stride}
	}
	postingsArrays(a, x)
	switch {
	case !s.Few:
		x.Used = nil
	case x.Used == nil:
		x.Used = []uint32{} // nil would mean all
	}
	r.once(rolePostings, g.shape(m), 0, x.Validate)
	if r.err != nil {
		return nil, r.err
	}
	return x, nil
}

// shape is what the arrays of a segment are viewed with.
func (g *segmentManifest) shape(m *manifest) string {
	return fmt.Sprintf("%d %d %+v %t", g.First, g.Rows, g.Sparse, m.LCIF != nil)
}

// rowSource is the collection's rows as those of a segment without rows of its
// own; a label model weighs and thins them.
func (st *collState) rowSource(a *arrays, m *manifest, g *segmentManifest) *postings.Source {
	r := a.r
	if r.err != nil {
		return nil
	}
	var set *sparseSet
	if set, r.err = st.sparse(r.ctx); r.err != nil {
		return nil
	}
	s, err := postings.NewSource(set.runs(), sparseShift, g.First, g.Rows, g.Sparse.Cols)
	if err != nil {
		r.fail("%v", err)
		return nil
	}
	array(a, arrayNorm, &s.Norm)
	if m.LCIF != nil {
		// Of features that came later than the segment it has none.
		head := r.of(m.Object)
		model := head.arrays(codec.KindSimilarity)
		array(model, arrayIDF, &s.IDF)
		array(model, arrayKeep, &s.Keep)
		if s.IDF != nil {
			s.IDF = s.IDF[:min(len(s.IDF), g.Sparse.Cols)]
		}
		if s.Keep != nil {
			s.Keep = s.Keep[:min(len(s.Keep), (g.Sparse.Cols+63)/64)]
		}
		// The segment stays as the model goes on with other weights, so it may
		// have been checked with others.
		head.need(s.IDF == nil || len(s.IDF) == g.Sparse.Cols, "weights of features")
		head.need(s.Keep == nil || len(s.Keep) == (g.Sparse.Cols+63)/64, "features kept")
		r.err = head.err
	}
	return s
}
