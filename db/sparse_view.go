package db

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/postings"
)

// numbered views array number i of a section of numbered arrays, all of it.
func numbered[T codec.Number](r *sections, parts [][]byte, i uint32) []T {
	if r.err != nil || int(i) >= len(parts) {
		return nil
	}
	var zero T
	return array[T](r, parts, int(i), len(parts[i])/int(unsafe.Sizeof(zero)))
}

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
	r := &sections{ctx: ctx, st: st, object: g.Object, index: m.Info.Name}
	parts := r.all(codec.KindPostings)
	s := &g.Sparse
	x := &postings.Index{Unit: s.Highest, Norm: s.Norm, Source: st.rowSource(r, parts, m, g)}
	if s.Few {
		if x.Used = numbered[uint32](r, parts, arrayUsed); x.Used == nil {
			x.Used = []uint32{} // nil would mean all
		}
	}
	if s.Partition {
		x.Partition = &postings.Partition{
			M: s.M, TAATRows: s.TAATRows,
			Feature: numbered[uint32](r, parts, arrayFeature), Max: numbered[float32](r, parts, arrayMax),
			TAAT: rowSets(r, parts, arrayTAAT), DAAT: rowSets(r, parts, arrayDAAT),
		}
	}
	blocks := postings.Blocks{
		Ptr: numbered[uint32](r, parts, arrayListPtr), Key: numbered[uint16](r, parts, arrayListKey),
		Start: numbered[uint32](r, parts, arrayListStart), Low: numbered[uint16](r, parts, arrayListLow),
		Code: numbered[uint8](r, parts, arrayListCode),
	}
	columns := postings.Columns{Has: numbered[uint64](r, parts, arrayHas), Rank: numbered[uint32](r, parts, arrayRank)}
	switch s.Compact {
	case "weighted":
		x.Weighted = &postings.Weighted{
			Blocks: blocks, Columns: columns, Cells: numbered[uint8](r, parts, arrayCells), Stride: s.Stride,
			Scale: numbered[uint8](r, parts, arrayScale), Unit: s.Unit, Residual: s.Residual,
			BandOf: numbered[uint8](r, parts, arrayBand),
		}
		r.need(len(s.Bands) == len(x.Weighted.Bands), "bands")
		copy(x.Weighted.Bands[:], s.Bands)
	case "uniform":
		x.Uniform = &postings.Uniform{
			Blocks: blocks, Columns: columns, Words: numbered[uint64](r, parts, arrayWords), Stride: s.Stride,
			Order: numbered[uint32](r, parts, arrayOrder), Value: numbered[float32](r, parts, arrayValue),
		}
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
func (st *collState) rowSource(r *sections, parts [][]byte, m *manifest, g *segmentManifest) *postings.Source {
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
	s.Norm = numbered[float64](r, parts, arrayNorm)
	if m.LCIF != nil {
		// Of features that came later than the segment it has none.
		head := &sections{ctx: r.ctx, st: st, object: m.Object, index: r.index}
		model := head.all(codec.KindSimilarity)
		s.IDF, s.Keep = numbered[float32](head, model, arrayIDF), numbered[uint64](head, model, arrayKeep)
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

// rowSets views the arrays of a part of a partition, from number i on.
func rowSets(r *sections, parts [][]byte, i uint32) postings.RowSets {
	return postings.RowSets{
		At: numbered[uint64](r, parts, i), First: numbered[uint32](r, parts, i+1),
		Sets: numbered[uint16](r, parts, i+2), Value: numbered[float32](r, parts, i+3),
	}
}
