package db

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Index arrays that queries walk as one slice (nodes, leaf directories,
// rotation) are each one block, however long; everything else is cut into
// blocks of about 1 MiB. bbolt keeps a value contiguous in the map, so both
// are read in place.

// floats encodes float32 arrays one behind the other.
func floats(parts ...[]float32) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, codec.Bytes(p)...)
	}
	return out
}

// emit hands every block of a learned index to yield.
func (l *learned) emit(object uint64, yield func(key [16]byte, value []byte) error) (*manifest, map[string]int64, error) {
	sizes := map[string]int64{}
	put := func(key [16]byte, value []byte) error {
		_, kind, _ := codec.ParseKey(key[:])
		sizes[kind.String()] += int64(len(value))
		return yield(key, value)
	}
	one := func(kind codec.Kind, chunk uint32, elem codec.Elem, data []byte) error {
		if len(data) == 0 {
			return nil
		}
		key := codec.Key(object, kind, chunk)
		h := codec.Header{Kind: kind, Elem: elem, Rows: uint64(len(data) / elem.Size()), Cols: 1}
		return put(key, codec.Encode(key[:], h, data))
	}
	f := l.forest
	m := &manifest{
		Object: object, Metric: l.metric, Dim: l.dim, Lift: l.lift, Requested: l.requested,
		Forest: forestManifest{Params: f.Params, Dim: f.Dim, CorpusN: f.CorpusN, Coord: f.Coord, DirW: f.DirWidth, Points: f.Points},
	}
	m.Forest.Params.Corpus = nil
	write := []func() error{
		func() error { return one(codec.KindNodes, 0, codec.U8, encodeNodes(f.Nodes)) },
		func() error { return one(codec.KindLeafDir, 0, codec.U32, codec.Bytes(f.LeafDir)) },
		func() error { return one(codec.KindLeafDir, 1, codec.U32, codec.Bytes(f.MemberDir)) },
		func() error { return one(codec.KindDirections, 0, codec.U32, codec.Bytes(f.Proj.Ptr)) },
		func() error { return one(codec.KindDirections, 1, codec.U32, codec.Bytes(f.Proj.Idx)) },
		func() error { return one(codec.KindDirections, 2, codec.F32, codec.Bytes(f.Proj.Val)) },
		func() error { return one(codec.KindDirections, 3, codec.U32, codec.Bytes(f.DirIdx)) },
		func() error { return one(codec.KindDirections, 4, codec.F32, codec.Bytes(f.DirVal)) },
		func() error { return chunks(f.Leaves, codec.KindLeaves, one) },
		func() error { return chunks(f.Members, codec.KindMembers, one) },
	}
	if r := l.rotation; r != nil {
		m.Rotation = r.R
		write = append(write, func() error {
			return one(codec.KindRotation, 0, codec.F32, floats(r.Mean, r.Bias, r.Matrix))
		})
	}
	if w := l.opts.SketchBytes; w > 0 {
		m.SketchWidth, m.SketchShift, m.SketchStep = w, shiftFor(w), l.step
		m.SketchSteps = l.steps
		write = append(write, func() error {
			return blocksOf(object, codec.KindSketch, codec.U8, l.sketch, w, m.SketchShift, put)
		})
	}
	if k := l.opts.HopLabels; k > 0 {
		m.NeighborK, m.NeighborShift = k, shiftFor(4*k)
		write = append(write, func() error {
			return blocksOf(object, codec.KindNeighbors, codec.U32, codec.Bytes(l.hops), 4*k, m.NeighborShift, put)
		})
	}
	if l.lists != nil {
		const w = 4 * 2
		m.Lists, m.ListShift = true, shiftFor(w)
		write = append(write, func() error {
			return blocksOf(object, codec.KindLists, codec.U32, codec.Bytes(l.lists), w, m.ListShift, put)
		})
	}
	if l.quant != nil {
		w := len(l.quant) / max(1, l.n)
		m.Quantized, m.QuantShift, m.QuantOffset, m.QuantStep = true, shiftFor(w), l.quantOff, l.quantStp
		write = append(write, func() error {
			return blocksOf(object, codec.KindQuantized, codec.U8, l.quant, w, m.QuantShift, put)
		})
	}
	for _, w := range write {
		if err := w(); err != nil {
			return nil, nil, err
		}
	}
	return m, sizes, nil
}

func chunks(parts [][]byte, kind codec.Kind, one func(codec.Kind, uint32, codec.Elem, []byte) error) error {
	for i, p := range parts {
		if err := one(kind, uint32(i), codec.U8, p); err != nil {
			return err
		}
	}
	return nil
}

// A node is stored as threshold (float32) and dimension (uint32), the layout
// of forest.Node, so that the stored array is used in place.
const nodeBytes = 8

var _ = [1]struct{}{}[unsafe.Sizeof(forest.Node{})-nodeBytes]

func encodeNodes(nodes []forest.Node) []byte {
	vals := make([]uint32, 0, 2*len(nodes))
	for _, n := range nodes {
		vals = append(vals, math.Float32bits(n.Threshold), n.Dim)
	}
	return codec.Bytes(vals)
}

// decodeNodes views the stored nodes in place on little-endian machines with
// aligned blocks, and copies otherwise.
func decodeNodes(r *sections, parts [][]byte, n int) []forest.Node {
	vals := array[uint32](r, parts, 0, 2*n)
	if vals == nil {
		return nil
	}
	return unsafe.Slice((*forest.Node)(unsafe.Pointer(unsafe.SliceData(vals))), n)
}

// sections reads the verified payloads of an index's blocks.
type sections struct {
	st     *collState
	object uint64
	index  string
	ctx    context.Context
	runs   map[codec.Kind][]blockRun // of kinds that other objects share in
	err    error
}

// all returns the payloads of every block of kind, in chunk order.
func (r *sections) all(kind codec.Kind) [][]byte {
	if r.err != nil {
		return nil
	}
	runs, ok := r.runs[kind]
	if !ok {
		runs = []blockRun{{Object: r.object}}
	}
	var out [][]byte
	for _, run := range runs {
		var part [][]byte
		if run.whole() {
			part, r.err = r.st.g.payloads(r.ctx, r.st.c.Name, run.Object, kind)
		} else {
			part, r.err = r.st.g.run(r.ctx, r.st.c.Name, run, kind)
		}
		if r.err != nil {
			return nil
		}
		out = append(out, part...)
	}
	return out
}

// array views one block as n numbers; n zero means it must be absent.
func array[T codec.Number](r *sections, parts [][]byte, chunk, n int) []T {
	if r.err != nil || n == 0 {
		return nil
	}
	if chunk >= len(parts) {
		r.fail("block %d is missing", chunk)
		return nil
	}
	v, err := codec.View[T](parts[chunk], n)
	if err != nil {
		r.fail("block %d: %v", chunk, err)
	}
	return v
}

// need records damage unless ok holds.
func (r *sections) need(ok bool, what string) {
	if r.err == nil && !ok {
		r.fail("%s", what)
	}
}

// fail records damage.
func (r *sections) fail(format string, a ...any) {
	r.err = &CorruptError{
		Collection: r.st.c.Name, Object: r.object, Offset: -1,
		Err: fmt.Errorf("index %q: %w", r.index, fmt.Errorf(format, a...)),
	}
}

// once runs a check of what has been viewed, unless it has passed before with
// this bound or a lower one, and records damage. shape is what it takes from the
// manifest.
func (r *sections) once(role checkRole, shape string, bound int, check func() error) {
	if r.err != nil {
		return
	}
	err := r.st.g.store.validated.once(checkKey{r.object, role, shape}, bound, check)
	if err != nil && r.err == nil {
		r.fail("%w", err)
	}
}

// loadView assembles the query view of a published index over the map. All
// counts are checked against the manifest and every directory entry against
// its block, so that queries need no bounds checks of their own.
func (st *collState) loadView(ctx context.Context, m *manifest, base query.View) (*query.View, error) {
	r := &sections{ctx: ctx, st: st, object: m.Object, index: m.Info.Name, runs: m.Runs}
	v := base
	v.N = m.Info.Rows
	v.Lift, v.LiftNorm = m.Metric == vector.InnerProduct, float32(m.Lift)
	v.RawForest = m.Info.Options.Rotate <= 0
	f, err := loadForest(m, r)
	if err != nil {
		return nil, err
	}
	v.Forest = f
	inner := m.Dim
	if v.Lift {
		inner++
	}
	if m.Rotation > 0 {
		rot := &forest.Rotation{R: m.Rotation, Dim: inner}
		parts := r.all(codec.KindRotation)
		all := array[float32](r, parts, 0, inner+m.Rotation+m.Rotation*inner)
		if r.err == nil {
			rot.Mean, rot.Bias, rot.Matrix = all[:inner], all[inner:inner+m.Rotation], all[inner+m.Rotation:]
		}
		v.Rotation = rot
		if r.err == nil && m.Metric == vector.L2 {
			v.ByteRotation = rot.Bytes()
		}
	}
	if m.SketchWidth > 0 {
		parts := r.all(codec.KindSketch)
		r.need(covers(parts, m.Info.Rows, m.SketchWidth, m.SketchShift), "sketches do not cover the rows")
		v.Sketch = query.SketchEncoder{Width: m.SketchWidth, Step: m.SketchStep, Steps: m.SketchSteps}.View(parts, m.SketchShift)
	}
	if m.NeighborK > 0 {
		parts := r.all(codec.KindNeighbors)
		r.need(covers(parts, m.Info.Rows, 4*m.NeighborK, m.NeighborShift), "label lists do not cover the rows")
		nv := &query.NeighborView{Shift: m.NeighborShift, K: m.NeighborK}
		for i := range parts {
			ids := array[uint32](r, parts, i, len(parts[i])/4)
			nv.Chunks = append(nv.Chunks, ids)
		}
		v.Neighbors = nv
	}
	if m.Quantized {
		parts := r.all(codec.KindQuantized)
		r.need(covers(parts, m.Info.Rows, inner, m.QuantShift), "8-bit copy does not cover the rows")
		v.Quant = &query.QuantView{Chunks: parts, Shift: m.QuantShift, Offset: m.QuantOffset, Step: m.QuantStep}
	}
	if r.err != nil {
		return nil, r.err
	}
	st.freshSketches(m, &v)
	if err := v.Validate(); err != nil {
		r.fail("%v", err)
		return nil, r.err
	}
	return &v, nil
}

// loadForest views the arrays of a forest and checks their cross-references.
func loadForest(m *manifest, r *sections) (*forest.Forest, error) {
	p := m.Forest.Params
	slots := p.Trees << p.Depth
	f := &forest.Forest{
		Params: p, Dim: m.Forest.Dim, CorpusN: m.Forest.CorpusN, Coord: m.Forest.Coord,
		DirWidth: m.Forest.DirW, Points: m.Forest.Points,
	}
	f.Nodes = decodeNodes(r, r.all(codec.KindNodes), slots)
	r.need(len(f.Nodes) == slots, "node count")
	dirs := r.all(codec.KindLeafDir)
	if p.Natural {
		f.LeafDir = array[uint32](r, dirs, 0, slots)
		f.Leaves = r.all(codec.KindLeaves)
	}
	if p.Members {
		f.MemberDir = array[uint32](r, dirs, 1, slots)
		f.Members = r.all(codec.KindMembers)
	}
	if o := r.all(codec.KindOverlayDir); len(o) > 0 {
		f.Overlay = &forest.Overlay{Points: m.Info.TrainingPoints - m.Forest.Points}
		if p.Natural && len(o[0]) > 0 {
			f.Overlay.Dir, f.Overlay.Blocks = array[uint32](r, o, 0, slots), r.all(codec.KindOverlay)
		}
		if p.Members && len(o) > 1 {
			f.Overlay.MemberDir, f.Overlay.MemberBlocks = array[uint32](r, o, 1, slots), r.all(codec.KindOverlayMembers)
		}
	}
	d := r.all(codec.KindDirections)
	switch f.Coord {
	case "projected":
		f.Proj.Ptr = array[uint32](r, d, 0, p.Trees*p.Depth+1)
		if r.err == nil {
			nnz := int(f.Proj.Ptr[len(f.Proj.Ptr)-1])
			f.Proj.Idx = array[uint32](r, d, 1, nnz)
			f.Proj.Val = array[float32](r, d, 2, nnz)
		}
	case "directions":
		f.DirIdx = array[uint32](r, d, 3, slots*f.DirWidth)
		f.DirVal = array[float32](r, d, 4, slots*f.DirWidth)
	}
	r.validate(m, f)
	return f, r.err
}

// validate checks the arrays of a forest, and what its leaves have gained. The
// trees stay for a while as maintenance goes on, with more rows each time.
func (r *sections) validate(m *manifest, f *forest.Forest) {
	shape := func(kinds ...codec.Kind) string {
		runs := make([][]blockRun, len(kinds))
		for i, kind := range kinds {
			runs[i] = m.Runs[kind]
		}
		return fmt.Sprint(f.Trees, f.Depth, f.Natural, f.Params.Members, f.Dim, f.Coord, f.DirWidth, f.Points, runs)
	}
	trees := *r
	trees.object = m.home(codec.KindNodes)
	grown := shape(codec.KindNodes, codec.KindLeafDir, codec.KindLeaves, codec.KindMembers, codec.KindDirections)
	trees.once(roleForest, grown, f.CorpusN, f.Validate)
	if r.err = trees.err; f.Overlay != nil {
		// The votes of an overlay are checked against the leaves of its forest.
		gained := shape(codec.KindOverlayDir, codec.KindOverlay, codec.KindOverlayMembers)
		r.once(roleOverlay, fmt.Sprint(trees.object, grown, f.Overlay.Points, gained), f.CorpusN, f.ValidateOverlay)
	}
}

// covers says whether blocks of 1<<shift rows of width bytes hold n rows.
func covers(parts [][]byte, n, width int, shift uint) bool {
	per := 1 << shift
	if len(parts) != (n+per-1)/per {
		return false
	}
	for i, p := range parts {
		if len(p) < min(per, n-i*per)*width {
			return false
		}
	}
	return true
}
