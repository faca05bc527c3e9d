package forestindex

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// Maintenance absorbs fresh rows into a forest without regrowing its trees
// (docs/ARCHITECTURE.md, section 10). A fresh row becomes a training point: it is routed down
// every tree, and its nearest rows are added as labels to the leaves it is routed to. It also
// becomes a label: the rows that have it as a label are found among its own neighbors, using
// the stored distance of every row's farthest label, and the row is added to the leaves that
// contain them. Nothing is removed from a leaf, neither deleted rows nor labels that are no
// longer among the nearest, so those distances do not change. The forest becomes less accurate
// with the share of changed rows, and is rebuilt when enough rows have changed.

const (
	// stepRows is the maximum number of rows that a step absorbs.
	stepRows = 2048
	// insertBeam is the width of the beam that finds the nearest rows of an absorbed row.
	insertBeam = 200
)

// candidate is a row at a squared distance in the partition space.
type candidate struct {
	row  uint32
	dist float32
}

func byDistance(a, b candidate) int {
	return cmp.Or(cmp.Compare(a.dist, b.dist), cmp.Compare(a.row, b.row))
}

// step is a step of maintenance that absorbs rows into a forest.
type step struct {
	m       *kind.Manifest // of the index before
	v       *query.View
	lo, hi  int // the absorbed rows
	live    int // number of absorbed rows that are not deleted
	overlay *forest.Overlay
	lists   *patch[uint32]
	hops    *listPatch
	sketch  *patch[byte]
	quant   *patch[byte]
	probes  *probes
	kept    map[codec.Kind][]arrays.Run // runs of the index after the step; set by Emit
	removed []kind.BlockRef
}

// Absorb returns a step that absorbs fresh rows, or reports that too many rows have changed.
func (Kind) Absorb(
	ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer,
) (s kind.Step, rebuild bool, err error) {
	d, rows := detailOf(m), int(st.Collection().Rows)
	if !d.Lists {
		return nil, false, nil // learned from training queries
	}
	deletedRows := 0
	if b := kind.Within(st.DeletedSet(), 0, rows); b != nil {
		deletedRows = int(b.GetCardinality())
	}
	grown, dead := d.grown(m)
	changed := rows - grown + deletedRows - dead
	if float64(changed) > kind.Drift*float64(grown-dead) {
		return nil, true, nil
	}
	if d.RewriteDue(st, m, 0) {
		w, rebuild, err := watch(ctx, st, m, timer)
		if err != nil || rebuild {
			return nil, rebuild, err
		}
		return w, false, nil
	}
	if rows == m.Info.Rows {
		return nil, false, nil
	}
	x, err := st.OpenNamed(ctx, m.Info.Name)
	if err != nil {
		return nil, false, err
	}
	lists, err := loadLists(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	p, err := loadProbes(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	v := x.(*index).view
	f := &absorbing{
		ctx: ctx, m: m, lists: lists, probes: p, isDeleted: st.Deleted, st: st,
		step: step{m: m, v: v, lo: m.Info.Rows, hi: min(rows, m.Info.Rows+stepRows)},
	}
	if err := f.absorb(timer); err != nil {
		return nil, false, err
	}
	return &f.step, false, nil
}

// absorbing holds the work of one step.
type absorbing struct {
	step
	ctx       context.Context
	m         *kind.Manifest
	lists     *labelLists
	probes    *probes // nil if there are none
	isDeleted func(row uint32) bool
	st        kind.Source
	rows      []uint32  // the absorbed rows that are not deleted
	space     *flatRows // all absorbed rows, in the partition space
	near      [][]candidate
	gains     forest.Gains
}

func (f *absorbing) absorb(timer *kind.Timer) error {
	for row := f.lo; row < f.hi; row++ {
		if !f.isDeleted(uint32(row)) {
			f.rows = append(f.rows, uint32(row))
		}
	}
	f.live = len(f.rows)
	f.space = partitionSpace(f.v, f.lo, f.hi)
	err := timer.Run("neighbours", func(report func(int, int)) error { return f.findNear(report) })
	if err != nil {
		return err
	}
	return timer.Run("insert", func(func(int, int)) error {
		if f.probes != nil {
			if err := f.probes.insert(f.ctx, f.st, f.v, f.lo, f.hi, f.m.Info.Curve.K); err != nil {
				return err
			}
			f.step.probes = f.probes
		}
		f.start()
		if err := f.enter(f.own()); err != nil {
			return err
		}
		if f.hops != nil {
			if err := f.link(); err != nil {
				return err
			}
		}
		if err := f.ctx.Err(); err != nil {
			return fmt.Errorf("db: %w", err)
		}
		old := *f.v.Forest
		old.CorpusN = f.hi
		var err error
		f.overlay, err = old.AddGains(f.gains)
		return err
	})
}

// each runs the functions made by start for i in [0, n) on the step's goroutines.
func (f *absorbing) each(n int, start func() func(i, _ int) error) error {
	err := par.Ranges(f.ctx, par.Work{N: n, Workers: kind.WorkersOf(f.ctx)}, start)
	if err != nil && err == f.ctx.Err() {
		return fmt.Errorf("db: %w", err)
	}
	return err
}

// row returns the vector of an absorbed row in the partition space.
func (f *absorbing) row(r uint32) []float32 { return f.space.Row(int(r)-f.lo, nil) }

// findNear finds the nearest rows of every absorbed row, among covered rows and the other rows
// of the step. It finds twice as many as the row's own list holds, since the row may be a label
// of rows that are not its own labels.
func (f *absorbing) findNear(report func(done, total int)) error {
	f.near = make([][]candidate, len(f.rows))
	k := 2 * f.nearest()
	find, err := f.finder(k)
	if err != nil {
		return err
	}
	var done atomic.Int64
	return f.each(len(f.rows), func() func(i, _ int) error {
		one := find()
		return func(i, _ int) (err error) {
			defer f.st.Guard(debug.SetPanicOnFault(true), &err)
			near, err := one(f.rows[i], nil)
			if err != nil {
				return err
			}
			x := f.row(f.rows[i])
			bound := float32(math.Inf(1))
			if len(near) == k {
				bound = near[k-1].dist
			}
			for _, other := range f.rows {
				if d := vector.L2Squared(x, f.row(other)); other != f.rows[i] && d <= bound {
					near = append(near, candidate{other, d})
				}
			}
			slices.SortFunc(near, byDistance)
			f.near[i] = near[:min(k, len(near))]
			report(int(done.Add(1)), len(f.rows))
			return nil
		}
	})
}

// findNear appends the nearest covered rows of a fresh row, nearest first, with squared distances in the
// partition space.
type findNear = func(row uint32, dst []candidate) ([]candidate, error)

// finder returns a function that makes one findNear for k rows per goroutine. It searches the index with
// generous parameters. Under inner product it searches exactly, because the results of a query are not the
// nearest rows of a row.
func (f *absorbing) finder(k int) (func() findNear, error) {
	live := f.v.N
	if f.v.Deleted != nil {
		live -= int(f.v.Deleted.Rank(uint32(f.v.N - 1)))
	}
	if k = min(k, live); k == 0 {
		return func() findNear {
			return func(_ uint32, dst []candidate) ([]candidate, error) { return dst, nil }
		}, nil
	}
	if f.v.Metric == vector.InnerProduct {
		return f.exactFinder(k)
	}
	old := *f.v
	old.Rows.N, old.Fresh, old.FreshN = old.N, nil, 0
	p := query.Params{
		K: k, Sketch: true, Beam: insertBeam, R: 2 * k, Hops: 2, HopFrom: 24, HopKeep: k, NoWiden: true,
	}
	if !f.v.Forest.Natural {
		p.Method = query.Lookup
	}
	scale := float32(1)
	if f.v.Metric == vector.Cosine {
		scale = 2 // |a-b|² = 2 - 2cos for unit vectors
	}
	return func() findNear {
		s := query.NewSearcher()
		buf := make([]float32, old.Dim)
		var found []vector.Neighbor
		return func(row uint32, dst []candidate) ([]candidate, error) {
			var err error
			found, _, err = s.Search(f.ctx, &old, f.v.Rows.Vector(int(row), buf), &p, found[:0])
			for _, n := range found {
				dst = append(dst, candidate{n.ID, scale * n.Distance})
			}
			return dst, err
		}
	}, nil
}

// exactFinder is a finder that compares with all covered rows.
func (f *absorbing) exactFinder(k int) (func() findNear, error) {
	corpus := subset{rows: partitionSpace(f.v, 0, f.v.N), ids: []uint32{}}
	for row := range uint32(f.v.N) {
		if !f.isDeleted(row) {
			corpus.ids = append(corpus.ids, row)
		}
	}
	lab, err := labels.ExactNeighbors(f.ctx, corpus, f.space, k, kind.WorkersOf(f.ctx), nil)
	if err != nil {
		return nil, fail.Wrapf(err, "labels")
	}
	return func() findNear {
		return func(row uint32, dst []candidate) ([]candidate, error) {
			x := f.row(row)
			for _, i := range lab.Row(int(row) - f.lo) {
				dst = append(dst, candidate{corpus.ids[i], vector.L2Squared(x, corpus.Row(int(i), nil))})
			}
			return dst, nil
		}
	}, nil
}

// start prepares the sections that the step changes, and writes the sketches and the 8-bit copy
// of the absorbed rows, which depend on nothing else. Deleted rows have them too, and lists
// that contain only themselves.
func (f *absorbing) start() {
	m, v := detailOf(f.m), f.v
	f.step.lists = newPatch(f.lists.chunks, 1, f.lists.shift, f.hi)
	if n := v.Neighbors; n != nil {
		f.hops = newListPatch(n, f.hi)
	}
	var enc query.SketchEncoder
	var rotated []float32
	if s := v.Sketch; s != nil {
		f.sketch = newPatch(s.Keep, s.Width, s.Shift, f.hi)
		enc = encoderOf(v)
		rotated = make([]float32, v.Rotation.R)
	}
	if m.Quantized {
		f.quant = newPatch(v.Quant.Chunks, v.Inner(), v.Quant.Shift, f.hi)
	}
	for row := f.lo; row < f.hi; row++ {
		x := f.row(uint32(row))
		f.step.lists.row(row)[0] = 0
		if f.hops != nil {
			for i := range f.hops.row(row) {
				f.hops.row(row)[i] = uint32(row)
			}
		}
		if f.sketch != nil {
			v.Rotation.Apply(x, rotated)
			enc.Encode(f.sketch.row(row), row, x, rotated, v.Rotation.Mean)
		}
		if f.quant != nil {
			dst := f.quant.row(row)
			for i, y := range x {
				dst[i] = uint8(math.RoundToEven(float64(max(0, min(255, (y-m.QuantOffset)/m.QuantStep)))))
			}
		}
	}
}

// nearest returns the number of nearest rows, the row itself first, of which an absorbed row needs twice as
// many: those added to its leaves and those in its neighbor list.
func (f *absorbing) nearest() int {
	k := f.v.Forest.LabelsK
	if n := f.v.Neighbors; n != nil {
		k = max(k, n.K+1)
	}
	return k
}

// entry is an absorbed row with a nearby covered row.
type entry struct {
	into uint32
	candidate
}

// own writes the label lists of the absorbed rows, records the additions to their leaves, and returns
// the absorbed rows near each covered row.
func (f *absorbing) own() (near []entry) {
	route := f.router()
	labelsK := f.v.Forest.LabelsK
	for i, row := range f.rows {
		ids, reach := []uint32{row}, float32(math.Inf(1))
		for _, c := range f.near[i] {
			if len(ids) < labelsK {
				ids = append(ids, c.row)
				if len(ids) == labelsK {
					reach = c.dist
				}
			}
			if int(c.row) < f.lo {
				near = append(near, entry{c.row, candidate{row, c.dist}})
			}
		}
		f.step.lists.row(int(row))[0] = math.Float32bits(reach)
		for t, leaf := range route(f.row(row)) {
			slot := uint32(t)<<f.v.Forest.Depth + leaf
			f.gains.Points = append(f.gains.Points, slot)
			if f.v.Forest.Params.Members {
				f.gains.Members = append(f.gains.Members, forest.Gain{Slot: slot, Label: row})
			}
			if !f.v.Forest.Natural {
				continue
			}
			if f.hidden(row) {
				ids = ids[:1]
			}
			for _, id := range ids {
				f.gains.Labels = append(f.gains.Labels, forest.Gain{Slot: slot, Label: id})
			}
		}
	}
	return near
}

// router returns a function that finds the leaf of a vector in every tree. Its result is valid
// until the next call.
func (f *absorbing) router() func(x []float32) []uint32 {
	v := f.v
	leaves := make([]uint32, v.Forest.Trees)
	var z, rotated []float32
	if v.RotatedForest() {
		rotated = make([]float32, v.Rotation.R)
	}
	return func(x []float32) []uint32 {
		if rotated != nil {
			v.Rotation.Apply(x, rotated)
			x = rotated[:v.Forest.Dim]
		}
		y := v.Forest.Coordinates(x, z)
		if v.Forest.Coord == forest.CoordProjected {
			z = y
		}
		v.Forest.Route(y, leaves)
		return leaves
	}
}

// enter adds absorbed rows to the leaves of the covered rows whose labels they have become.
func (f *absorbing) enter(near []entry) error {
	near = slices.DeleteFunc(near, func(e entry) bool { return !(e.dist < f.lists.reach(e.into)) })
	slices.SortFunc(near, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.into, b.into), byDistance(a.candidate, b.candidate))
	})
	var groups [][]entry
	for len(near) > 0 {
		n := 1
		for n < len(near) && near[n].into == near[0].into {
			n++
		}
		groups = append(groups, near[:n])
		near = near[n:]
	}
	leaves := make([][]uint32, len(groups)) // of the covered rows
	if f.v.Forest.Natural {
		err := f.each(len(groups), func() func(i, _ int) error {
			route := f.router()
			x := make([]float32, f.v.Inner())
			return func(i, _ int) (err error) {
				defer f.st.Guard(debug.SetPanicOnFault(true), &err)
				rowInSpace(f.v, int(groups[i][0].into), x)
				leaves[i] = slices.Clone(route(x))
				return nil
			}
		})
		if err != nil {
			return err
		}
	}
	for i, entries := range groups {
		for _, e := range entries {
			if f.hidden(e.into) {
				continue
			}
			for t, leaf := range leaves[i] {
				f.gains.Labels = append(f.gains.Labels,
					forest.Gain{Slot: uint32(t)<<f.v.Forest.Depth + leaf, Label: e.row})
			}
		}
	}
	return nil
}

// hidden reports whether a row equals a probe. It gets no votes for other rows in the leaves.
func (f *absorbing) hidden(row uint32) bool { return f.probes != nil && f.probes.hidden.Contains(row) }

func (s *step) Rows() int      { return s.hi - s.lo }
func (s *step) Action() string { return "insert" }
func (s *step) Objects() int   { return 1 }

// Emit writes the blocks that the step changes.
func (s *step) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	s.removed = nil
	m, was := *s.m, detailOf(s.m)
	d := *was
	m.Object, m.Own = object, &d
	d.Runs = was.runsOf(s.m.Object, builtSections)
	w := arrays.NewWriter(object, sink)
	writePatch(w, s, codec.KindLists, s.lists, d.Runs)
	if s.hops != nil {
		writePatch(w, s, codec.KindNeighbors, &s.hops.patch, d.Runs)
	}
	writePatch(w, s, codec.KindSketch, s.sketch, d.Runs)
	writePatch(w, s, codec.KindQuantized, s.quant, d.Runs)
	s.emitOverlay(w)
	s.emitProbes(w, s.probes)
	m.Info.Bytes = maps.Clone(s.m.Info.Bytes)
	for kind, n := range map[codec.Kind]int64{
		codec.KindLists:          int64(4 * s.hi),
		codec.KindNeighbors:      s.hops.bytes(w),
		codec.KindSketch:         int64(s.hi * d.SketchWidth),
		codec.KindOverlayDir:     int64(4 * (len(s.overlay.Dir) + len(s.overlay.MemberDir))),
		codec.KindOverlay:        length(s.overlay.Blocks),
		codec.KindOverlayMembers: length(s.overlay.MemberBlocks),
	} {
		if n > 0 {
			m.Info.Bytes[kind.String()] = n
		}
	}
	if d.Grown == 0 {
		d.Grown, d.GrownDead = was.grown(s.m)
	}
	m.Info.Rows = s.hi
	m.Info.TrainingPoints += s.live
	d.Trees.CorpusN = s.hi
	s.kept = d.Runs
	return &m, w.Err
}

// writePatch writes the blocks of a section that a step changes, if the index has the section,
// and sets runs to the location of all blocks of the section.
func writePatch[T codec.Number](w *arrays.Writer, s *step, section codec.Kind, p *patch[T],
	runs map[codec.Kind][]arrays.Run) {
	if p == nil {
		return
	}
	blocks := detailOf(s.m).located(s.m.Object, section, p.stored)
	for c := range p.chunks() {
		data, ok := p.fresh[c]
		if !ok {
			continue
		}
		at := arrays.Run{Object: w.Object, From: uint32(c), To: uint32(c) + 1}
		if c < len(blocks) {
			was := blocks[c]
			s.removed = append(s.removed, kind.BlockRef{Object: was.Object, Kind: section, Number: was.From})
			blocks[c] = at
		} else {
			blocks = append(blocks, at)
		}
		p.write(w, section, c, data)
	}
	runs[section] = arrays.Joined(blocks)
}

// emitOverlay writes the complete overlay and records the blocks of the previous one as
// removed.
func (s *step) emitOverlay(w *arrays.Writer) {
	if old := s.v.Forest.Overlay; old != nil {
		for section, n := range map[codec.Kind]int{codec.KindOverlay: len(old.Blocks),
			codec.KindOverlayMembers: len(old.MemberBlocks), codec.KindOverlayDir: 2} {
			for _, r := range detailOf(s.m).located(s.m.Object, section, n) {
				s.removed = append(s.removed, kind.BlockRef{Object: r.Object, Kind: section, Number: r.From})
			}
		}
	}
	o := s.overlay
	dirs := w.Section(codec.KindOverlayDir)
	arrays.Field(dirs, 0, &o.Dir)
	arrays.Field(dirs, 1, &o.MemberDir)
	w.Blocks(codec.KindOverlay, o.Blocks)
	w.Blocks(codec.KindOverlayMembers, o.MemberBlocks)
}

// Parts returns the earlier objects that the index still uses.
func (s *step) Parts() []uint64 {
	before := map[uint64]bool{s.m.Object: true}
	for _, runs := range detailOf(s.m).Runs {
		for _, r := range runs {
			before[r.Object] = true
		}
	}
	var out []uint64
	for _, runs := range s.kept {
		for _, r := range runs {
			if before[r.Object] {
				before[r.Object] = false // listed once
				out = append(out, r.Object)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Garbage returns the blocks of kept objects that the index no longer needs.
func (s *step) Garbage() []kind.BlockRef { return s.removed }

func length(blocks [][]byte) (n int64) {
	for _, b := range blocks {
		n += int64(len(b))
	}
	return n
}
