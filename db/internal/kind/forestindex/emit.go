package forestindex

import (
	"math"
	"slices"
	"unsafe"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/forest"
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
