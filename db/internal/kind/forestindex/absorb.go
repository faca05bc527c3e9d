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
	"github.com/anndb/anndb/vector"
)

// Maintenance absorbs fresh rows into the neighbor lists and sketches of a forest, as HNSW inserts
// (docs/ARCHITECTURE.md, section 10). The trees stay: a beam begins at the rows of their leaves and
// reaches absorbed rows through the lists. Nothing is removed from a leaf, so the forest becomes
// less accurate with the share of changed rows, and is rebuilt when enough rows have changed. A
// forest that no beam can search absorbs nothing: its fresh rows are scanned until then.

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
	if !d.FromRows {
		return nil, false, nil // learned from training queries
	}
	deletedRows := 0
	if b := kind.Within(st.DeletedSet(), 0, rows); b != nil {
		deletedRows = int(b.GetCardinality())
	}
	grown, dead := d.grown()
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
	if rows == m.Info.Rows || d.SketchWidth == 0 || d.NeighborK == 0 {
		return nil, false, nil
	}
	x, err := st.OpenNamed(ctx, m.Info.Name)
	if err != nil {
		return nil, false, err
	}
	p, err := loadProbes(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	v := x.(*opened).view
	f := &absorbing{
		ctx: ctx, m: m, probes: p, isDeleted: st.Deleted, st: st,
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
	probes    *probes // nil if there are none
	isDeleted func(row uint32) bool
	st        kind.Source
	rows      []uint32  // the absorbed rows that are not deleted
	space     *flatRows // all absorbed rows, in the partition space
	near      [][]candidate
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
		return f.link()
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
	k := 2 * (f.v.Neighbors.K + 1)
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
	p := query.Params{K: k, Sketch: true, Beam: insertBeam, R: 2 * k, NoWiden: true}
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
	f.hops = newListPatch(v.Neighbors, f.hi)
	f.sketch = newPatch(v.Sketch.Keep, v.Sketch.Width, v.Sketch.Shift, f.hi)
	enc, rotated := encoderOf(v), make([]float32, v.Rotation.R)
	if m.Quantized {
		f.quant = newPatch(v.Quant.Chunks, v.Inner(), v.Quant.Shift, f.hi)
	}
	for row := f.lo; row < f.hi; row++ {
		x, list := f.row(uint32(row)), f.hops.row(row)
		for i := range list {
			list[i] = uint32(row)
		}
		v.Rotation.Apply(x, rotated)
		enc.Encode(f.sketch.row(row), row, x, rotated, v.Rotation.Mean)
		if f.quant != nil {
			dst := f.quant.row(row)
			for i, y := range x {
				dst[i] = uint8(math.RoundToEven(float64(max(0, min(255, (y-m.QuantOffset)/m.QuantStep)))))
			}
		}
	}
}

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
	writePatch(w, s, codec.KindNeighbors, &s.hops.patch, d.Runs)
	writePatch(w, s, codec.KindSketch, s.sketch, d.Runs)
	writePatch(w, s, codec.KindQuantized, s.quant, d.Runs)
	s.emitProbes(w, s.probes)
	m.Info.Bytes = maps.Clone(s.m.Info.Bytes)
	if m.Info.Bytes == nil { // in a forged file
		m.Info.Bytes = map[string]int64{}
	}
	m.Info.Bytes[codec.KindNeighbors.String()] = s.hops.bytes(w)
	m.Info.Bytes[codec.KindSketch.String()] = int64(s.hi * d.SketchWidth)
	m.Info.Rows = s.hi
	m.Info.TrainingPoints += s.live
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
