package db

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Maintenance of a label model is exact: it stores and predicts what a model rebuilt with the
// same parameters would. The inverted index and the label sets of its rows grow by segments, as
// inverted indexes do. The sums behind the feature–label similarities are integers, so a step
// computes the contributions of fresh and of deleted rows from these rows alone. Pairs of a
// feature and a label whose sum has changed are stored in a patch; when the patch is large, a
// step rewrites all pairs. Weights and selection of features are part of the parameters: a
// model that has any is relearned when a fifth of its rows has changed.

// All pairs are rewritten once more than one in patchShare of them has changed, but never for
// patchLeast changed pairs or fewer.
const (
	patchShare = 2
	patchLeast = 4096
)

// patchFull reports whether to rewrite all pairs, where the patch has changed pairs in addition
// to base pairs, and the step has touched some of them. A step writes the patch: if each step
// touches q more pairs and all B are rewritten once the patch has L, a step writes L/2 + B·q/L
// pairs on average, which is least at L² = 2·q·B.
func patchFull(changed, touched, base int) bool {
	if changed <= patchLeast {
		return false
	}
	return changed > base/patchShare ||
		touched > 0 && float64(changed)*float64(changed) > 2*float64(touched)*float64(base)
}

// lcifStep is a step of maintenance after which a label model covers fresh rows and no longer
// counts deleted ones.
type lcifStep struct {
	m *manifest // of the index before the step
	// The step replaces segments [from, to) by one of n rows that begins with row first and has
	// dead deleted rows; if n is zero, it writes none. The segment is an object of its own.
	// Every step writes the head, and the next step deletes it.
	from, to       int
	object         uint64 // of the segment
	first, n, dead int
	index          *postings.Index // nil over dense rows
	lengths        []float64
	sets           vector.CSR
	features       int
	covered        int // number of rows that the model covers after the step
	read           int // number of rows read
	head           lcifHead
	counts         *labels.FeatureLabels // the new patch, or all pairs if whole is set
	whole          bool
	baseBytes      int64 // size of the pairs that are not rewritten
	params         query.LCIFParams
}

// absorb returns a step, or reports that too many rows have changed for the model's weights and
// selection of features.
func (lcifKind) absorb(
	ctx context.Context, st source, _ *indexRef, m *manifest, w work,
) (s step, rebuild bool, err error) {
	l, c := m.lcif(), st.entry()
	if c.Sparse {
		set, err := st.sparse(ctx)
		if err == nil {
			err = checkSpread(c.Name, c.Dim, set.entries())
		}
		if err != nil {
			return nil, false, err
		}
	}
	a, err := readLCIF(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	dead := roaring.New()
	if d := st.dead(); d != nil {
		dead = d
	}
	if a.idf != nil || a.keep != nil || l.Scale != nil {
		learned, gone := l.Learned, l.LearnedDead
		if learned == 0 {
			learned, gone = m.Info.Rows, int(a.dead.GetCardinality())
		}
		changed := int(c.Rows) - learned + int(dead.GetCardinality()) - gone
		if float64(changed) > drift*float64(learned-gone) {
			return nil, true, nil
		}
	}
	f := &lcifFollowing{
		st: st, a: a, gone: dead,
		lcifStep: lcifStep{
			m: m, covered: int(c.Rows), features: l.Features,
			head: lcifHead{keep: slices.Clone(a.keep), idf: slices.Clone(a.idf)},
		},
	}
	if c.Sparse {
		f.features = c.Dim
	}
	err = w.timer.run("read", func(report func(int, int)) error { return f.readChange(ctx, report) })
	if err != nil {
		return nil, false, err
	}
	err = w.timer.run("count", func(func(int, int)) error { return f.count(ctx, w.workers) })
	if err == nil {
		err = f.segment(ctx, w.timer)
	}
	if err == nil && l.Graph > 0 && f.unchanged() {
		g := a.graph
		f.head.graph = &vector.CSR{
			Ptr: slices.Clone(g.Ptr), Index: slices.Clone(g.Index), Value: slices.Clone(g.Value), Cols: g.Cols,
		}
	} else if err == nil && l.Graph > 0 {
		err = w.timer.run("graph", func(report func(int, int)) error { return f.graph(ctx, w.workers, report) })
	}
	if err != nil {
		return nil, false, err
	}
	return &f.lcifStep, false, nil
}

// rewriteDue reports whether a segment of a label model must be rewritten although the model
// covers all rows and counts no deleted ones: a step leaves the segments unchanged that it does
// not merge. A rewrite is due if the deleted rows of the segment are at least the given share
// of the rows that the model covers.
func (st *collState) rewriteDue(m *manifest, share float64) bool {
	l, ok := m.own.(*lcifManifest)
	if !ok {
		return false
	}
	deleted := func(g *segmentManifest) int { return deletedWithin(st.dead(), g.First, g.Rows) - g.Dead }
	from, _, _, ok := planSegments(l.Segments, m.Info.Rows, deleted)
	return ok && float64(deleted(&l.Segments[from])) >= share*float64(m.Info.Rows)
}

// deletedWithin returns the number of rows in [first, first+n) that are in dead.
func deletedWithin(dead *roaring.Bitmap, first, n int) int {
	if b := within(dead, first, n); b != nil {
		return int(b.GetCardinality())
	}
	return 0
}

// graph computes the neighbor lists of all rows after the step.
func (f *lcifFollowing) graph(
	ctx context.Context, workers int, report func(done, total int),
) error {
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range uint32(f.covered) {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return wrapf(err, "maintain")
			}
		}
		var x vector.Sparse
		if !f.gone.Contains(i) {
			x = f.row(i)
		}
		rows.Append(x)
	}
	rows.Cols = f.features
	view := &query.LCIFView{Features: f.features, Keep: f.head.keep}
	if f.st.entry().Sparse {
		index, err := postings.Build(ctx, query.UnitRows(rows, view), postings.Params{}, nil)
		if err != nil {
			return wrapf(err, "postings")
		}
		view.Neighbors = &query.PostingsNeighbors{Index: index}
	} else {
		source, err := modelNeighbors(ctx, f.st, f.m.lcif().Neighbors, f.m.lcif().Scale)
		if err != nil {
			return err
		}
		view.Neighbors = &guardedNeighbors{f.st, source}
	}
	if err := view.AddGraph(ctx, rows, f.m.lcif().Graph, workers, report); err != nil {
		return wrapf(err, "nearest rows of rows")
	}
	f.head.graph = view.Graph
	return nil
}

// lcifFollowing is the state of one step while it is computed.
type lcifFollowing struct {
	lcifStep
	st      source
	a       *lcifArrays
	gone    *roaring.Bitmap // rows that are deleted now
	fresh   [][]uint32      // label sets of the rows after those covered; empty for deleted rows
	added   *vector.CSR     // unit vectors of the live fresh rows
	addSets [][]uint32
	removed *vector.CSR // unit vectors of covered rows deleted since
	subSets [][]uint32
}

// unchanged reports whether the model already covers exactly the rows that it would cover after
// the step.
func (f *lcifFollowing) unchanged() bool {
	return f.covered == f.m.Info.Rows && f.removed.Rows() == 0
}

// row returns a copy of a row's features, weighed as the model weighs them.
func (f *lcifFollowing) row(row uint32) vector.Sparse {
	if !f.st.entry().Sparse {
		x := f.st.denseRow(int(row), make([]float32, f.st.entry().Dim))
		if s := f.m.lcif().Scale; s != nil {
			x = s.Apply(nil, x)
		}
		return listed(x)
	}
	x := f.st.sparseRow(row)
	x = vector.Sparse{Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
	if f.head.idf != nil {
		weigh(x, f.head.idf)
	}
	return x
}

// units scales rows to unit length as the model does.
func (f *lcifFollowing) units(rows *vector.CSR) *vector.CSR {
	rows.Cols = f.features
	return query.UnitRows(rows, &query.LCIFView{Features: f.features, Keep: f.head.keep})
}

// readChange reads the rows that were written or deleted since the model was made.
func (f *lcifFollowing) readChange(ctx context.Context, report func(done, total int)) error {
	// New features have no weight, and are not kept if the model leaves any feature out.
	if f.head.idf != nil {
		f.head.idf = append(f.head.idf, make([]float32, f.features-len(f.head.idf))...)
	}
	if f.head.keep != nil {
		f.head.keep = append(f.head.keep, make([]uint64, (f.features+63)/64-len(f.head.keep))...)
	}
	number := make(map[string]uint32, f.a.names.Len())
	for i := range f.a.names.Len() {
		name := string(f.a.names.At(i))
		number[name] = uint32(i)
		f.head.names = append(f.head.names, name)
	}
	covered := f.m.Info.Rows
	gone := roaring.AndNot(f.gone, f.a.dead)
	gone.RemoveRange(uint64(covered), 1<<32)
	total := f.covered - covered + int(gone.GetCardinality())
	tick := func() error {
		if f.read++; f.read%1024 == 0 {
			report(f.read, total)
			if err := ctx.Err(); err != nil {
				return wrapf(err, "maintain")
			}
		}
		return nil
	}
	added := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	removed := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for it := gone.Iterator(); it.HasNext(); {
		row := it.Next()
		removed.Append(f.row(row))
		f.subSets = append(f.subSets, slices.Clone(f.a.sets.Row(int(row))))
		if err := tick(); err != nil {
			return err
		}
	}
	var run *coldRows
	for row := uint32(covered); row < uint32(f.covered); row++ {
		if err := tick(); err != nil {
			return err
		}
		if f.gone.Contains(row) {
			f.fresh = append(f.fresh, nil)
			continue
		}
		names, err := f.st.labelsOf(row, &run)
		if err != nil {
			return err
		}
		var set []uint32
		for _, name := range names {
			id, ok := number[name]
			if !ok {
				id = uint32(len(f.head.names))
				number[name] = id
				f.head.names = append(f.head.names, name)
			}
			set = append(set, id)
		}
		slices.Sort(set)
		set = slices.Compact(set)
		added.Append(f.row(row))
		f.fresh, f.addSets = append(f.fresh, set), append(f.addSets, set)
	}
	f.added, f.removed = f.units(added), f.units(removed)
	f.head.dead = f.gone.Clone()
	f.params = *f.m.params()
	f.params.Thresholds = namedThresholds(f.params.Thresholds, f.head.names[:f.a.names.Len()], f.head.names)
	return nil
}

// count computes the sums after the change.
func (f *lcifFollowing) count(ctx context.Context, workers int) error {
	failed := func(err error) error { return wrapf(err, "label model") }
	counted := func(units *vector.CSR, sets [][]uint32, names int) (*labels.FeatureLabels, error) {
		matrix, err := labels.FromSets(sets, names)
		if err != nil {
			return nil, err
		}
		return labels.CountFeatureLabels(ctx, query.FeatureRows(units), matrix, workers)
	}
	add, err := counted(f.added, f.addSets, len(f.head.names))
	if err != nil {
		return failed(err)
	}
	// Deleted rows have only features and labels that the model knows.
	f.removed.Cols = f.m.lcif().Features
	sub, err := counted(f.removed, f.subSets, f.m.lcif().Labels)
	if err != nil {
		return failed(err)
	}
	a := f.a
	old := &labels.FeatureLabels{Ptr: a.patch.Ptr, Label: a.patch.Index, Sum: a.patchSum, Rows: a.rows}
	for i := 0; i < len(a.square); i += 2 {
		old.Square = append(old.Square, labels.Uint128{Hi: a.square[i], Lo: a.square[i+1]})
	}
	p := &labels.Patched{
		Base: &labels.FeatureLabels{Ptr: a.base.Ptr, Label: a.base.Index, Sum: a.baseSum}, Patch: old,
	}
	if f.counts, err = p.Change(add, sub, workers); err != nil {
		return corruptf(f.st.entry().Name, "index %q: %w", f.m.Info.Name, err)
	}
	f.baseBytes = int64(8*len(a.base.Ptr) + 16*len(a.base.Index))
	if patchFull(len(f.counts.Label), len(add.Label)+len(sub.Label), len(a.base.Index)) {
		f.whole, f.baseBytes = true, 0
		f.counts = (&labels.Patched{Base: p.Base, Patch: f.counts}).Whole()
	}
	f.head.square, f.head.rows = f.counts.Square, f.counts.Rows
	if f.head.powers, err = f.counts.Powers(storedPower(f.m.params())); err != nil {
		return failed(err)
	}
	return nil
}

// segment builds the segment of the step, if one is needed.
func (f *lcifFollowing) segment(ctx context.Context, timer *stageTimer) error {
	segments := f.m.lcif().Segments
	gone := func(first, n int) int { return deletedWithin(f.gone, first, n) }
	from, to, end, ok := planSegments(segments, f.covered,
		func(g *segmentManifest) int { return gone(g.First, g.Rows) - g.Dead })
	if !ok {
		return nil
	}
	f.from, f.to, f.first = from, to, f.m.Info.Rows
	if from < len(segments) {
		f.first = segments[from].First
	}
	f.n, f.dead = end-f.first, gone(f.first, end-f.first)
	f.read += max(0, f.m.Info.Rows-f.first)
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	f.sets = vector.CSR{Ptr: []uint64{0}, Cols: len(f.head.names)}
	for i := f.first; i < end; i++ {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return wrapf(err, "maintain")
			}
		}
		var x vector.Sparse
		var set []uint32
		if !f.gone.Contains(uint32(i)) {
			if set = f.a.sets.rowOr(i, f.fresh); f.st.entry().Sparse {
				x = f.row(uint32(i))
			}
		}
		rows.Append(x)
		f.sets.Index = append(f.sets.Index, set...)
		f.sets.Ptr = append(f.sets.Ptr, uint64(len(f.sets.Index)))
	}
	if !f.st.entry().Sparse {
		return nil
	}
	units := f.units(rows)
	f.lengths = postings.Lengths(rows, f.head.keep)
	err := timer.run("postings", func(report func(int, int)) (err error) {
		f.index, err = postings.Build(ctx, units, f.m.Info.Options.Postings.params(), report)
		return err
	})
	if err != nil {
		return wrapf(err, "postings")
	}
	return nil
}

// rowOr returns the labels of a row, which may be one of the fresh rows after the segments.
func (s *segmentSets) rowOr(i int, fresh [][]uint32) []uint32 {
	if n := s.Rows(); i >= n {
		return fresh[i-n]
	}
	return s.Row(i)
}

// rows returns the number of rows that the step has read.
func (s *lcifStep) rows() int { return s.read }

// action returns the name of the step, as in MaintainStep.Action.
func (s *lcifStep) action() string {
	if s.n == 0 {
		return "forget"
	}
	return (&segmentStep{m: s.m, from: s.from, to: s.to, first: s.first, n: s.n}).action()
}

// objects returns the number of objects: one for the segment, if there is one, and one for the
// rest.
func (s *lcifStep) objects() int { return min(s.n, 1) + 1 }

// emit writes the segment, the changed pairs and the head, and returns the manifest of the
// model.
func (s *lcifStep) emit(object uint64, sink arrays.Sink) (*manifest, error) {
	m, model := *s.m, *s.m.lcif()
	m.own = &model
	model.Segments = slices.Clone(model.Segments)
	if s.n > 0 {
		w := arrays.NewWriter(object, sink)
		one := segmentManifest{Object: object, First: s.first, Rows: s.n, Dead: s.dead, Bytes: w.Sizes}
		if s.index != nil {
			one = (&sparseLearned{index: s.index, lengths: s.lengths}).put(w, one)
		}
		labelSetArrays(w.Section(codec.KindLabelMatrix), &s.sets)
		if w.Err != nil {
			return nil, w.Err
		}
		model.Segments = slices.Replace(model.Segments, s.from, s.to, one)
		s.object = object
		object++
	}
	m.Object = object
	if model.Segments[0].Index != nil {
		m.Dim = s.features
	}
	w := arrays.NewWriter(object, sink)
	for _, g := range model.Segments {
		for _, kind := range []codec.Kind{codec.KindPostings, codec.KindLabelMatrix} {
			if n := g.Bytes[kind.String()]; n > 0 {
				w.Sizes[kind.String()] += n
			}
		}
	}
	if s.baseBytes > 0 {
		w.Sizes[codec.KindSimilarity.String()] += s.baseBytes
	}
	s.head.put(w)
	if s.whole {
		model.Base = 0
		basePairs.put(w, s.counts, s.head.powers)
	} else {
		model.Base = model.home(s.m.Object)
		patchPairs.put(w, s.counts, s.head.powers)
	}
	if model.Learned == 0 {
		model.Learned, model.LearnedDead = s.m.Info.Rows, s.m.Info.Rows-s.m.Info.TrainingPoints
	}
	model.Features, model.Labels, m.Info.Options.LCIF.Params = s.features, len(s.head.names), &s.params
	m.Info.Rows, m.Info.TrainingPoints = s.covered, s.covered-int(s.head.dead.GetCardinality())
	m.Info.Bytes = w.Sizes
	return &m, w.Err
}

// parts returns the objects that the model holds in addition to its own.
func (s *lcifStep) parts() []uint64 {
	var out []uint64
	if s.n > 0 {
		out = append(out, s.object)
	}
	for i, g := range s.m.lcif().Segments {
		if s.n == 0 || i < s.from || i >= s.to {
			out = append(out, g.Object)
		}
	}
	if base := s.m.lcif().home(s.m.Object); !s.whole && !slices.Contains(out, base) {
		out = append(out, base)
	}
	return out
}

// garbage returns the blocks of kept objects that the model no longer needs: the old head,
// pairs that were rewritten, and segments that were replaced. If the object of the old head
// also has a segment or pairs, as after a build, the head stays until the object or its pairs
// are deleted: it is small, and is stored between large blocks that would have to be rewritten.
func (s *lcifStep) garbage() []blockRef {
	var out []blockRef
	drop := func(object uint64, kind codec.Kind, numbers ...uint32) {
		for _, n := range numbers {
			out = append(out, blockRef{object, kind, n})
		}
	}
	home := s.m.lcif().home(s.m.Object)
	// Unlike the rest of the head, the neighbor lists are large.
	drop(s.m.Object, codec.KindSimilarity, arrayGraphPtr, arrayGraphRow, arrayGraphSimilarity)
	stale := []uint64{s.m.Object}
	switch {
	case s.whole:
		drop(home, codec.KindSimilarity, arraySumPtr, arraySumLabel, arraySum, arrayPower)
		stale = append(stale, home)
	case home == s.m.Object:
		stale = nil
	}
	for _, object := range stale {
		drop(object, codec.KindLabelMatrix, arrayLabelNames, arrayLabelDead)
		drop(object, codec.KindSimilarity, arraySquare, arrayLabelRows, arrayKeep, arrayIDF,
			arrayPatchPtr, arrayPatchLabel, arrayPatchSum, arrayPatchPower, arrayFeatureFactor, arrayLabelFactor)
	}
	for _, g := range s.m.lcif().Segments[s.from:s.to] {
		drop(g.Object, codec.KindLabelMatrix, arrayLabelPtr, arrayLabelIndex)
		for n := range arrayPostingsEnd {
			drop(g.Object, codec.KindPostings, n)
		}
	}
	kept := s.parts()
	return slices.DeleteFunc(out, func(b blockRef) bool { return !slices.Contains(kept, b.object) })
}
