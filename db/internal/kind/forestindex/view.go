package forestindex

import (
	"context"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Emit writes every block of a learned segment.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	f, e := l.forest, l.encoder
	d := &detail{
		Trees: treesManifest{
			Params: f.Params, Dim: f.Dim, Coord: f.Coord, DirW: f.DirWidth, Points: f.Points,
		},
	}
	d.Trees.Params.Corpus = nil
	g.Own, g.Dead = d, l.dead
	w.Block(codec.KindNodes, 0, codec.U8, 1, encodeNodes(f.Nodes))
	dirs := w.Section(codec.KindLeafDir)
	arrays.Field(dirs, 0, &f.LeafDir)
	arrays.Field(dirs, 1, &f.MemberDir)
	s := w.Section(codec.KindDirections)
	arrays.Field(s, 0, &f.Proj.Ptr)
	arrays.Field(s, 1, &f.Proj.Idx)
	arrays.Field(s, 2, &f.Proj.Val)
	arrays.Field(s, 3, &f.DirIdx)
	arrays.Field(s, 4, &f.DirVal)
	w.Blocks(codec.KindLeaves, f.Leaves)
	w.Blocks(codec.KindMembers, f.Members)
	if l.small {
		d.Curve = l.curve
	} else if d.Lift = l.lift; l.rotation != nil {
		d.Rotation = l.rotation.R
		all := slices.Concat(l.rotation.Mean, l.rotation.Bias, l.rotation.Matrix)
		arrays.Field(w.Section(codec.KindRotation), 0, &all)
	}
	if e.Width > 0 {
		d.SketchWidth, d.SketchShift = e.Width, arrays.ShiftFor(e.Width)
		d.SketchSigns, d.SketchSteps, d.SketchRest = e.Signs, e.Steps, e.Rest
		arrays.WriteRows(w, codec.KindSketch, l.sketch, e.Width, d.SketchShift)
		if c := e.Centers; c != nil {
			dim := len(c.Chunks[0]) / c.N
			d.Centers, d.CenterShift, d.CenterOffset, d.CenterStep = c.N, arrays.ShiftFor(dim), c.Offset, c.Step
			arrays.WriteRows(w, codec.KindCenters, c.Chunks[0], dim, d.CenterShift)
		}
	}
	if k := l.opts.ListNeighbors; k > 0 {
		d.NeighborK = k
		for i := range l.hops {
			w.Block(codec.KindNeighbors, uint32(i), codec.U8, 1, encodeNeighbors(&l.hops[i]))
		}
	}
	if l.quant != nil {
		width := len(l.quant) / max(1, l.n)
		d.Quantized, d.QuantShift, d.QuantOffset, d.QuantStep =
			true, arrays.ShiftFor(width), l.quantOff, l.quantStp
		arrays.WriteRows(w, codec.KindQuantized, l.quant, width, d.QuantShift)
	}
}

// A node is stored as threshold (float32) and dimension (uint32), the layout of forest.Node, so
// that the stored array is used in place.
const nodeBytes = 8

var _ = [1]struct{}{}[unsafe.Sizeof(forest.Node{})-nodeBytes]

func encodeNodes(nodes []forest.Node) []byte {
	vals := make([]uint32, 0, 2*len(nodes))
	for _, n := range nodes {
		vals = append(vals, math.Float32bits(n.Threshold), n.Dim)
	}
	return codec.Bytes(vals)
}

// decodeNodes returns a view of the stored nodes on little-endian machines with aligned blocks,
// and a copy otherwise.
func decodeNodes(r *arrays.Reader, n int) []forest.Node {
	var vals []uint32
	arrays.FieldOf(r.Section(codec.KindNodes), 0, &vals, 2*n)
	if vals == nil {
		return nil
	}
	return unsafe.Slice((*forest.Node)(unsafe.Pointer(unsafe.SliceData(vals))), n)
}

// loadView assembles the query view of a published index over the map. All counts are checked
// against the manifest and every directory entry against its block, so that queries need no
// bounds checks.
func loadView(ctx context.Context, st kind.Source, m *kind.Manifest, rows query.View) (*query.View, error) {
	v := &rows
	large := detailOf(&m.Segments[0])
	v.Lift, v.LiftNorm = m.Metric == vector.InnerProduct, large.Lift
	for i := range m.Segments {
		from := &m.Segments[i]
		g := query.Segment{First: from.First, N: from.Rows}
		if !from.Empty() {
			r := st.Arrays(ctx, m.Info.Name, from.Object)
			if i == 0 {
				loadRotation(r, v, large.Rotation)
			}
			if loadSegment(r, v, &g, from); r.Err != nil {
				return nil, r.Err
			}
			g.RawForest = optionsOf(m).Coordinates == 0
		}
		if i == 0 {
			v.Segment = g
		} else {
			v.Small = append(v.Small, g)
		}
	}
	if err := v.Validate(); err != nil {
		r := st.Arrays(ctx, m.Info.Name, m.Object)
		r.Fail("%v", err)
		return nil, r.Err
	}
	addFreshSketches(st, m, v) // reads the parts that were validated
	return v, nil
}

// loadRotation reads the rotation to so many coordinates, if that is not zero.
func loadRotation(r *arrays.Reader, v *query.View, coordinates int) {
	if coordinates == 0 {
		return
	}
	n := v.Inner()
	rot := &forest.Rotation{R: coordinates, Dim: n}
	var all []float32
	arrays.FieldOf(r.Section(codec.KindRotation), 0, &all, n+coordinates+coordinates*n)
	if r.Err != nil {
		return
	}
	rot.Mean, rot.Bias, rot.Matrix = all[:n], all[n:n+coordinates], all[n+coordinates:]
	if v.Rotation = rot; v.Metric == vector.L2 {
		v.ByteRotation = rot.Bytes()
	}
}

// loadSegment reads the parts of a segment.
func loadSegment(r *arrays.Reader, v *query.View, g *query.Segment, from *kind.Segment) {
	d := detailOf(from)
	g.Forest, g.Curve = loadForest(r, from), d.Curve
	if d.SketchWidth > 0 {
		e := d.encoder()
		if d.Centers > 0 {
			e.Centers = &query.Centers{N: d.Centers, Shift: d.CenterShift, Offset: d.CenterOffset, Step: d.CenterStep,
				Chunks: arrays.ReadRows[byte](r, codec.KindCenters, d.Centers, v.Inner(), d.CenterShift)}
		}
		g.Sketch = e.View(arrays.ReadRows[byte](r, codec.KindSketch, g.N, d.SketchWidth, d.SketchShift), d.SketchShift)
		g.Sketch.Request = v.Rows.Request
	}
	if d.NeighborK > 0 {
		lists, err := decodeNeighbors(r.Blocks(codec.KindNeighbors), g.N, d.NeighborK)
		if r.Err == nil && err != nil {
			r.Fail("%v", err)
		}
		if r.Err != nil {
			return
		}
		g.Neighbors, lists.Request = lists, v.Rows.Request
	}
	if d.Quantized {
		g.Quant = &query.QuantView{
			Chunks: arrays.ReadRows[byte](r, codec.KindQuantized, g.N, v.Inner(), d.QuantShift),
			Shift:  d.QuantShift, Offset: d.QuantOffset, Step: d.QuantStep,
		}
	}
}

// loadForest returns a view of the arrays of a forest and checks their cross-references.
func loadForest(r *arrays.Reader, from *kind.Segment) *forest.Forest {
	d := detailOf(from)
	p := d.Trees.Params
	slots := p.Trees << p.Depth
	f := &forest.Forest{
		Params: p, Dim: d.Trees.Dim, CorpusN: from.Rows, Coord: d.Trees.Coord,
		DirWidth: d.Trees.DirW, Points: d.Trees.Points,
	}
	f.Nodes = decodeNodes(r, slots)
	r.Need(len(f.Nodes) == slots, "node count")
	dirs := r.Section(codec.KindLeafDir)
	if p.Natural {
		arrays.FieldOf(dirs, 0, &f.LeafDir, slots)
		f.Leaves = r.Blocks(codec.KindLeaves)
	}
	if p.Members {
		arrays.FieldOf(dirs, 1, &f.MemberDir, slots)
		f.Members = r.Blocks(codec.KindMembers)
	}
	dir := r.Section(codec.KindDirections)
	switch f.Coord {
	case "projected":
		arrays.FieldOf(dir, 0, &f.Proj.Ptr, p.Trees*p.Depth+1)
		if r.Err == nil {
			nnz := int(f.Proj.Ptr[len(f.Proj.Ptr)-1])
			arrays.FieldOf(dir, 1, &f.Proj.Idx, nnz)
			arrays.FieldOf(dir, 2, &f.Proj.Val, nnz)
		}
	case "directions":
		arrays.FieldOf(dir, 3, &f.DirIdx, slots*f.DirWidth)
		arrays.FieldOf(dir, 4, &f.DirVal, slots*f.DirWidth)
	}
	shape := fmt.Sprint(f.Trees, f.Depth, f.Natural, f.Params.Members, f.Dim, f.Coord, f.DirWidth, f.Points)
	r.Once(kind.RoleForest, shape, f.CorpusN, f.Validate)
	return f
}
