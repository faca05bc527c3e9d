// Package forestindex is the kind of index that finds rows of a dense collection: a forest with
// sketches and neighbor lists, which packages trees/forest and query learn and search.
package forestindex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Kind implements forests over a dense collection, with the other structures that queries
// need: sketches, neighbor lists.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Dense: true, Composes: true, Options: (*index.Forest)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &detail{} }

// detail is the detail of a segment of a forest.
type detail struct {
	// Lift is the bound M of the lift sqrt(M²-|x|²) under inner product, Rotation the number of stored
	// rotated coordinates, 0 for none. Small segments use those of the large one.
	Lift     float32
	Rotation int
	Trees    treesManifest

	SketchWidth int
	SketchShift uint
	SketchSigns bool      `json:",omitempty"`
	SketchSteps []float32 `json:",omitempty"`
	SketchRest  float32   `json:",omitempty"` // query.SketchEncoder.Rest

	// Centers is the number of centers of sketches of signs.
	Centers                  int     `json:",omitempty"`
	CenterShift              uint    `json:",omitempty"`
	CenterOffset, CenterStep float32 `json:",omitempty"`

	NeighborK int

	// Curve has the settings of a small segment; those of the large one are in the manifest.
	Curve *query.Curve `json:",omitempty"`
}

// treesManifest holds the scalar fields of a forest.Forest.
type treesManifest struct {
	Params forest.Params
	Dim    int
	Coord  string
	DirW   int
	Points int // training points of the trees
}

// optionsOf returns the resolved options in a forest's manifest.
func optionsOf(m *kind.Manifest) *options { return (*options)(m.Options.(*index.Forest)) }

// detailOf returns the detail of a forest's segment.
func detailOf(g *kind.Segment) *detail { return g.Own.(*detail) }

// encoder returns the encoder of the segment's sketches, without their centers.
func (f *detail) encoder() query.SketchEncoder {
	return query.SketchEncoder{Width: f.SketchWidth, Signs: f.SketchSigns, Steps: f.SketchSteps,
		Rest: f.SketchRest}
}

// Check refuses values that no build can have written.
func (f *detail) Check(m *kind.Manifest, g *kind.Segment) error {
	p := f.Trees.Params
	step := func(x float32) bool { return x > 0 && !math.IsInf(float64(x), 1) }
	scale := func(offset, step float32) bool { last := offset + 255*step; return last-last == 0 }
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{m.Dim >= 1 && m.Dim <= kind.MaxDim, "dimension"},
		{p.Trees >= 1 && p.Trees <= maxTrees && p.Depth >= 1 && p.Depth <= maxDepth, "forest shape"},
		{p.LabelsK >= 0 && p.LabelsK <= maxLeafNeighbors, "labels of a leaf"},
		{f.Trees.Dim >= 1 && f.Trees.Dim <= kind.MaxDim+1, "forest dimension"},
		{f.Trees.DirW >= 0 && f.Trees.DirW <= kind.MaxDim+1, "direction width"},
		{f.Lift >= 0, "length of lifted rows"},
		{f.Rotation >= 0 && f.Rotation <= kind.MaxDim+1, "rotation"},
		{f.SketchWidth == 0 || query.SketchWidth(f.SketchWidth, f.SketchSigns), "sketch width"},
		{f.SketchShift <= 24, "sketch blocks"},
		{!slices.ContainsFunc(f.SketchSteps, func(x float32) bool { return !step(x) }), "sketch steps"},
		{f.SketchRest >= 0 && f.SketchRest <= 1, "sketch weight"},
		{f.Centers >= 0 && f.Centers <= query.CenterGroups(g.Rows) && f.CenterShift <= 24 &&
			(f.Centers == 0 || step(f.CenterStep) && scale(f.CenterOffset, f.CenterStep) && f.SketchSigns),
			"centers of sketches"},
		{f.NeighborK >= 0 && f.NeighborK <= maxListNeighbors, "neighbors a row"},
		{f.Trees.Points == g.Rows-g.Dead || m.Foreign && f.Trees.Points >= 0, "training points"},
	} {
		if !c.ok {
			return errors.New(c.what)
		}
	}
	for _, c := range []*query.Curve{m.Info.Curve, f.Curve} {
		if c != nil {
			if err := c.Validate(p.Natural, p.Members); err != nil {
				return err
			}
		}
	}
	return nil
}

// opened is a forest in one generation.
type opened struct {
	view *query.View
	m    *kind.Manifest
}

// Open assembles the view of a stored forest.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	rows, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	v, err := loadView(ctx, st, m, *rows)
	return &opened{v, m}, err
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
		g.Sketch = e.View(arrays.ReadRows[byte](r, codec.KindSketch, g.N, d.SketchWidth, d.SketchShift),
			d.SketchShift)
	}
	if d.NeighborK > 0 {
		lists, err := decodeNeighbors(r.Blocks(codec.KindNeighbors), g.N, d.NeighborK)
		if r.Err == nil && err != nil {
			r.Fail("%v", err)
		}
		if r.Err != nil {
			return
		}
		g.Neighbors = lists
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

// RowView returns the view that is searched, to tests of package db that look into the forest.
func (x *opened) RowView() *query.View { return x.view }

// segments yields the large segment, and the small ones that have trees.
func (x *opened) segments(yield func(*query.Segment) bool) {
	if !yield(&x.view.Segment) {
		return
	}
	for i := range x.view.Small {
		if g := &x.view.Small[i]; g.Forest != nil && !yield(g) {
			return
		}
	}
}

// mostRows is the number of rows within a radius beyond which an exact scan costs less than a search.
const mostRows = 4096

// Search searches the view with the setting for the recall.
func (x *opened) Search(ctx context.Context, s *kind.Search) error {
	return s.Widen(func(k int) (more bool, err error) {
		p, err := x.setting(s, k)
		if err != nil {
			return false, err
		}
		return s.InView(ctx, x.view, p, k)
	})
}

// setting returns the parameters of a search for k rows. They are those of the exact scan if no measured
// setting reaches the recall, or if there were too few rows to measure any.
func (x *opened) setting(s *kind.Search, k int) (p query.Params, err error) {
	if s.Params != nil {
		return *s.Params, nil
	}
	if x.m.Info.Curve == nil && optionsOf(x.m).NoTune {
		return p, fmt.Errorf("%w: index %q was built without the tuner: a search by it needs its parameters",
			fail.Option, x.m.Info.Name)
	}
	p, ok := x.m.Info.Curve.Setting(s.Recall, k)
	if !ok || k >= x.view.LiveCount || s.Within() && k > mostRows {
		return query.Params{Method: query.Flat}, nil
	}
	return p, nil
}

// Check checks trees and neighbor lists.
func (x *opened) Check(context.Context) error {
	for g := range x.segments {
		if err := g.Forest.Validate(); err != nil {
			return err
		}
		if g.Neighbors != nil {
			if err := g.Neighbors.Check(g.N); err != nil {
				return err
			}
		}
	}
	return nil
}
