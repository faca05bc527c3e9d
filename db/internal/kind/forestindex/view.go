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

// Emit writes every block of a learned index.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	f := l.forest
	m := &detail{
		Lift: l.lift, FromRows: l.fromRows,
		Trees: treesManifest{
			Params: f.Params, Dim: f.Dim, CorpusN: f.CorpusN, Coord: f.Coord, DirW: f.DirWidth,
			Points: f.Points,
		},
	}
	m.Trees.Params.Corpus = nil
	w.Block(codec.KindNodes, 0, codec.U8, 1, encodeNodes(f.Nodes))
	dirs := w.Section(codec.KindLeafDir)
	arrays.Field(dirs, 0, &f.LeafDir)
	arrays.Field(dirs, 1, &f.MemberDir)
	d := w.Section(codec.KindDirections)
	arrays.Field(d, 0, &f.Proj.Ptr)
	arrays.Field(d, 1, &f.Proj.Idx)
	arrays.Field(d, 2, &f.Proj.Val)
	arrays.Field(d, 3, &f.DirIdx)
	arrays.Field(d, 4, &f.DirVal)
	w.Blocks(codec.KindLeaves, f.Leaves)
	w.Blocks(codec.KindMembers, f.Members)
	if r := l.rotation; r != nil {
		m.Rotation = r.R
		all := slices.Concat(r.Mean, r.Bias, r.Matrix)
		arrays.Field(w.Section(codec.KindRotation), 0, &all)
	}
	if width := l.encoder.Width; width > 0 {
		m.SketchWidth, m.SketchShift = width, arrays.ShiftFor(width)
		m.SketchSigns, m.SketchSteps = l.encoder.Signs, l.encoder.Steps
		arrays.WriteRows(w, codec.KindSketch, l.sketch, width, m.SketchShift)
		if c := l.encoder.Centers; c != nil {
			dim := len(c.Chunks[0]) / c.N
			m.Centers, m.CenterShift, m.CenterOffset, m.CenterStep = c.N, arrays.ShiftFor(dim), c.Offset, c.Step
			arrays.WriteRows(w, codec.KindCenters, c.Chunks[0], dim, m.CenterShift)
		}
	}
	if k := l.opts.ListNeighbors; k > 0 {
		m.NeighborK = k
		for i := range l.hops {
			w.Block(codec.KindNeighbors, uint32(i), codec.U8, 1, encodeNeighbors(&l.hops[i]))
		}
	}
	if l.probes != nil {
		m.Probes = len(l.probes.rows)
		l.probes.write(w)
	}
	if l.quant != nil {
		width := len(l.quant) / max(1, l.n)
		m.Quantized, m.QuantShift, m.QuantOffset, m.QuantStep =
			true, arrays.ShiftFor(width), l.quantOff, l.quantStp
		arrays.WriteRows(w, codec.KindQuantized, l.quant, width, m.QuantShift)
	}
	g.Own = m
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
func loadView(ctx context.Context, st kind.Source, m *kind.Manifest, base query.View) (*query.View, error) {
	d := detailOf(m)
	r := st.Arrays(ctx, m.Info.Name, m.Object)
	r.Runs = d.Runs
	v := base
	v.N = m.Info.Rows
	v.Lift, v.LiftNorm = m.Metric == vector.InnerProduct, d.Lift
	v.RawForest = optionsOf(m).Coordinates == 0
	f, err := loadForest(m, r)
	if err != nil {
		return nil, err
	}
	v.Forest = f
	inner := m.Dim
	if v.Lift {
		inner++
	}
	if d.Rotation > 0 {
		rot := &forest.Rotation{R: d.Rotation, Dim: inner}
		var all []float32
		arrays.FieldOf(r.Section(codec.KindRotation), 0, &all, inner+d.Rotation+d.Rotation*inner)
		if r.Err == nil {
			rot.Mean, rot.Bias, rot.Matrix = all[:inner], all[inner:inner+d.Rotation], all[inner+d.Rotation:]
		}
		v.Rotation = rot
		if r.Err == nil && m.Metric == vector.L2 {
			v.ByteRotation = rot.Bytes()
		}
	}
	if d.SketchWidth > 0 {
		parts := arrays.ReadRows[byte](r, codec.KindSketch, m.Info.Rows, d.SketchWidth, d.SketchShift)
		e := query.SketchEncoder{Width: d.SketchWidth, Signs: d.SketchSigns, Steps: d.SketchSteps}
		if d.Centers > 0 {
			e.Centers = &query.Centers{N: d.Centers, Shift: d.CenterShift, Offset: d.CenterOffset, Step: d.CenterStep,
				Chunks: arrays.ReadRows[byte](r, codec.KindCenters, d.Centers, inner, d.CenterShift)}
		}
		v.Sketch = e.View(parts, d.SketchShift)
		v.Sketch.Request = v.Rows.Request
	}
	if d.NeighborK > 0 {
		lists, err := decodeNeighbors(r.Blocks(codec.KindNeighbors), m.Info.Rows, d.NeighborK)
		if r.Err == nil && err != nil {
			r.Fail("%v", err)
		}
		if r.Err != nil {
			return nil, r.Err
		}
		v.Neighbors, lists.Request = lists, v.Rows.Request
	}
	if d.Quantized {
		parts := arrays.ReadRows[byte](r, codec.KindQuantized, m.Info.Rows, inner, d.QuantShift)
		v.Quant = &query.QuantView{Chunks: parts, Shift: d.QuantShift, Offset: d.QuantOffset,
			Step: d.QuantStep}
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if err := v.Validate(); err != nil {
		r.Fail("%v", err)
		return nil, r.Err
	}
	addFreshSketches(st, m, &v) // reads the parts that were validated
	return &v, nil
}

// loadForest returns a view of the arrays of a forest and checks their cross-references.
func loadForest(m *kind.Manifest, r *arrays.Reader) (*forest.Forest, error) {
	d := detailOf(m)
	p := d.Trees.Params
	slots := p.Trees << p.Depth
	f := &forest.Forest{
		Params: p, Dim: d.Trees.Dim, CorpusN: d.Trees.CorpusN, Coord: d.Trees.Coord,
		DirWidth: d.Trees.DirW, Points: d.Trees.Points,
	}
	f.Nodes = decodeNodes(r, slots)
	r.Need(len(f.Nodes) == slots, "node count")
	absorbed := m.Info.TrainingPoints - d.Trees.Points
	r.Need(absorbed >= 0 && absorbed <= m.Info.Rows-f.CorpusN, "training points")
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
	validateForest(r, m, f)
	return f, r.Err
}

// validateForest checks the arrays of a forest once for all steps of maintenance, which keep them.
func validateForest(r *arrays.Reader, m *kind.Manifest, f *forest.Forest) {
	d := detailOf(m)
	var runs [][]arrays.Run
	for _, section := range treeSections {
		runs = append(runs, d.Runs[section])
	}
	trees := *r
	trees.Object = d.firstObject(r.Object, codec.KindNodes)
	shape := fmt.Sprint(f.Trees, f.Depth, f.Natural, f.Params.Members, f.Dim, f.Coord, f.DirWidth, f.Points, runs)
	trees.Once(kind.RoleForest, shape, f.CorpusN, f.Validate)
	r.Err = trees.Err
}
