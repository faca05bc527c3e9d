package lcifindex

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
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

// step is a step of maintenance after which a label model covers fresh rows and no longer
// counts deleted ones.
type step struct {
	m *kind.Manifest // of the index before the step
	// The step replaces segments [from, to) by one of n rows that begins with row first and has
	// DeletedRows deleted rows; if n is zero, it writes none. The segment is an object of its own.
	// Every step writes the head, and the next step deletes it.
	from, to              int
	object                uint64 // of the segment
	first, n, deletedRows int
	index                 *postings.Index // nil over dense rows
	lengths               []float64
	sets                  vector.CSR
	features              int
	covered               int  // number of rows that the model covers after the step
	read                  int  // number of rows read
	relabels              bool // no row is new or deleted
	head                  modelHead
	counts                *labels.FeatureLabels // the new patch, or all pairs if whole is set
	whole                 bool
	baseBytes             int64 // size of the pairs that are not rewritten
	params                lcif.Params
}

// Absorb returns a step, or reports that too many rows have changed for the model's weights and
// selection of features.
func (Kind) Absorb(
	ctx context.Context, st kind.Source, m *kind.Manifest, timer *kind.Timer,
) (s kind.Step, rebuild bool, err error) {
	l, c := detailOf(m), st.Collection()
	if c.Sparse {
		set, err := st.Sparse(ctx)
		if err == nil {
			err = labelled.CheckSpread(c.Name, c.Dim, set.Entries())
		}
		if err != nil {
			return nil, false, err
		}
	}
	a, err := ReadArrays(ctx, st, m)
	if err != nil {
		return nil, false, err
	}
	deletedRows := roaring.New()
	if d := st.DeletedSet(); d != nil {
		deletedRows = d
	}
	if a.IDF != nil || a.Keep != nil || l.Scale != nil {
		learned, newlyDeleted := l.Learned, l.LearnedDead
		if learned == 0 {
			learned, newlyDeleted = m.Info.Rows, int(a.deletedRows.GetCardinality())
		}
		changed := int(c.Rows) - learned + int(deletedRows.GetCardinality()) - newlyDeleted
		if float64(changed) > kind.Drift*float64(learned-newlyDeleted) {
			return nil, true, nil
		}
	}
	f := &following{
		st: st, a: a, newlyDeleted: deletedRows, relabelled: map[uint32][]uint32{},
		step: step{
			m: m, covered: int(c.Rows), features: l.Features,
			head: modelHead{keep: slices.Clone(a.Keep), idf: slices.Clone(a.IDF)},
		},
	}
	if c.Sparse {
		f.features = c.Dim
	}
	err = timer.Run("read", func(report func(int, int)) error { return f.readChange(ctx, report) })
	if err != nil {
		return nil, false, err
	}
	err = timer.Run("count", func(func(int, int)) error { return f.count(ctx) })
	if err == nil {
		err = f.segment(ctx, timer)
	}
	if err != nil {
		return nil, false, err
	}
	return &f.step, false, nil
}

// RewriteDue reports whether a segment of a label model must be rewritten although the model
// covers all rows and counts no deleted ones: a step leaves the segments unchanged that it does
// not merge. A rewrite is due if the deleted rows of the segment are at least the given share
// of the rows that the model covers.
func (l *detail) RewriteDue(st kind.Source, m *kind.Manifest, share float64) bool {
	deletedRows := st.DeletedSet()
	deleted := func(g *segment) int {
		return kind.DeletedWithin(deletedRows, g.First, g.Rows) - g.Dead
	}
	from, _, _, ok := planSegments(l.Segments, m.Info.Rows, deleted)
	return ok && float64(deleted(&l.Segments[from])) >= share*float64(m.Info.Rows)
}

// following is the state of one step while it is computed.
type following struct {
	step
	st           kind.Source
	a            *Arrays
	newlyDeleted *roaring.Bitmap   // rows that are deleted now
	number       map[string]uint32 // of labels
	fresh        [][]uint32        // label sets of the rows after those covered; empty for deleted rows
	added        *vector.CSR       // unit vectors of the live fresh rows
	addSets      [][]uint32
	removed      *vector.CSR // unit vectors of covered rows deleted since
	subSets      [][]uint32
	deleted      int // number of covered rows deleted since
	// relabelled has the present label sets of the covered rows whose labels have changed. Such a
	// row is among both the added and the removed rows.
	relabelled map[uint32][]uint32
}

// unchanged reports whether the model already covers exactly the rows that it would cover after
// the step.
func (f *following) unchanged() bool {
	return f.covered == f.m.Info.Rows && f.deleted == 0
}

// row returns a copy of a row's features, weighed as the model weighs them.
func (f *following) row(row uint32) vector.Sparse {
	if !f.st.Collection().Sparse {
		x := f.st.DenseRow(int(row), make([]float32, f.st.Collection().Dim))
		if s := detailOf(f.m).Scale; s != nil {
			x = s.Apply(nil, x)
		}
		return kind.Listed(x)
	}
	x := f.st.SparseRow(row)
	x = vector.Sparse{Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
	if f.head.idf != nil {
		labelled.Weigh(x, f.head.idf)
	}
	return x
}

// units scales rows to unit length as the model does.
func (f *following) units(rows *vector.CSR) *vector.CSR {
	rows.Cols = f.features
	return lcif.UnitRows(rows, &lcif.View{Features: f.features, Keep: f.head.keep})
}

// extend prepares the head for features and labels that are new to the model.
func (f *following) extend() {
	// New features have no weight, and are not kept if the model leaves any feature out.
	if f.head.idf != nil {
		f.head.idf = append(f.head.idf, make([]float32, f.features-len(f.head.idf))...)
	}
	if f.head.keep != nil {
		f.head.keep = append(f.head.keep, make([]uint64, (f.features+63)/64-len(f.head.keep))...)
	}
	f.number = make(map[string]uint32, f.a.Names.Len())
	for i := range f.a.Names.Len() {
		name := string(f.a.Names.At(i))
		f.number[name] = uint32(i)
		f.head.names = append(f.head.names, name)
	}
}

// readChange reads the rows that were written, deleted or relabelled since the model was made.
func (f *following) readChange(ctx context.Context, report func(done, total int)) error {
	f.extend()
	covered := f.m.Info.Rows
	newlyDeleted := roaring.AndNot(f.newlyDeleted, f.a.deletedRows)
	newlyDeleted.RemoveRange(uint64(covered), 1<<32)
	relabelled, err := f.st.Relabelled(f.m.Object)
	if err != nil {
		return err
	}
	if relabelled == nil {
		relabelled = roaring.New()
	}
	relabelled.AndNot(f.newlyDeleted)
	relabelled.RemoveRange(uint64(covered), 1<<32)
	f.deleted = int(newlyDeleted.GetCardinality())
	total := f.covered - covered + f.deleted + int(relabelled.GetCardinality())
	tick := func() error {
		if f.read++; f.read%1024 == 0 {
			report(f.read, total)
			if err := ctx.Err(); err != nil {
				return fail.Wrapf(err, "maintain")
			}
		}
		return nil
	}
	f.added = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	f.removed = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for it := newlyDeleted.Iterator(); it.HasNext(); {
		row := it.Next()
		f.remove(row, f.a.sets.Row(int(row)))
		if err := tick(); err != nil {
			return err
		}
	}
	labelsOf := f.st.LabelReader()
	for it := relabelled.Iterator(); it.HasNext(); {
		row := it.Next()
		set, err := f.setOf(row, labelsOf)
		if err := errors.Join(err, tick()); err != nil {
			return err
		}
		if had := f.a.sets.Row(int(row)); !slices.Equal(set, had) {
			f.relabelled[row] = set
			f.remove(row, had)
			f.add(row, set)
		}
	}
	for row := uint32(covered); row < uint32(f.covered); row++ {
		if err := tick(); err != nil {
			return err
		}
		if f.newlyDeleted.Contains(row) {
			f.fresh = append(f.fresh, nil)
			continue
		}
		set, err := f.setOf(row, labelsOf)
		if err != nil {
			return err
		}
		f.fresh = append(f.fresh, set)
		f.add(row, set)
	}
	f.added, f.removed = f.units(f.added), f.units(f.removed)
	f.head.deletedRows, f.relabels = f.newlyDeleted.Clone(), f.unchanged()
	f.params = *paramsOf(f.m)
	f.params.Thresholds = namedThresholds(f.params.Thresholds, f.head.names[:f.a.Names.Len()], f.head.names)
	return nil
}

// add counts a row with a label set.
func (f *following) add(row uint32, set []uint32) {
	f.added.Append(f.row(row))
	f.addSets = append(f.addSets, set)
}

// remove no longer counts a row with a label set.
func (f *following) remove(row uint32, set []uint32) {
	f.removed.Append(f.row(row))
	f.subSets = append(f.subSets, slices.Clone(set))
}

// setOf returns the numbers of a row's present labels, ascending, and gives new labels the next
// numbers.
func (f *following) setOf(row uint32, labelsOf func(uint32) ([]string, error)) ([]uint32, error) {
	names, err := labelsOf(row)
	if err != nil {
		return nil, err
	}
	set := make([]uint32, 0, len(names))
	for _, name := range names {
		id, ok := f.number[name]
		if !ok {
			id = uint32(len(f.head.names))
			f.number[name] = id
			f.head.names = append(f.head.names, name)
		}
		set = append(set, id)
	}
	slices.Sort(set)
	return slices.Compact(set), nil
}

// count computes the sums after the change.
func (f *following) count(ctx context.Context) error {
	failed := func(err error) error { return fail.Wrapf(err, "label model") }
	counted := func(units *vector.CSR, sets [][]uint32, names int) (*labels.FeatureLabels, error) {
		matrix, err := labels.FromSets(sets, names)
		if err != nil {
			return nil, err
		}
		return labels.CountFeatureLabels(ctx, lcif.FeatureRows(units), matrix, kind.WorkersOf(ctx))
	}
	add, err := counted(f.added, f.addSets, len(f.head.names))
	if err != nil {
		return failed(err)
	}
	// Deleted rows have only features and labels of the model.
	f.removed.Cols = detailOf(f.m).Features
	sub, err := counted(f.removed, f.subSets, detailOf(f.m).Labels)
	if err != nil {
		return failed(err)
	}
	a := f.a
	old := &labels.FeatureLabels{Ptr: a.Patch.Ptr, Label: a.Patch.Label, Sum: a.PatchSum, Rows: a.Rows}
	for i := 0; i < len(a.Square); i += 2 {
		old.Square = append(old.Square, labels.Uint128{Hi: a.Square[i], Lo: a.Square[i+1]})
	}
	p := &labels.Patched{
		Base: &labels.FeatureLabels{Ptr: a.Base.Ptr, Label: a.Base.Label, Sum: a.BaseSum}, Patch: old,
	}
	if f.counts, err = p.Change(add, sub, kind.WorkersOf(ctx)); err != nil {
		return f.st.Corrupt("index %q: %w", f.m.Info.Name, err)
	}
	f.baseBytes = int64(16*len(a.Base.Ptr) + 12*len(a.Base.Label) + 4*len(a.Base.Value))
	if patchFull(len(f.counts.Label), len(add.Label)+len(sub.Label), len(a.Base.Label)) {
		f.whole, f.baseBytes = true, 0
		f.counts = (&labels.Patched{Base: p.Base, Patch: f.counts}).Whole()
	}
	f.head.square, f.head.rows = f.counts.Square, f.counts.Rows
	if f.head.powers, err = f.counts.Powers(storedPower(paramsOf(f.m))); err != nil {
		return failed(err)
	}
	return nil
}

// segment builds the segment of the step, if one is needed.
func (f *following) segment(ctx context.Context, timer *kind.Timer) error {
	segments := detailOf(f.m).Segments
	newlyDeleted := func(first, n int) int { return kind.DeletedWithin(f.newlyDeleted, first, n) }
	from, to, end, ok := planSegments(segments, f.covered,
		func(g *segment) int { return newlyDeleted(g.First, g.Rows) - g.Dead })
	if again := f.relabelledRows(); float64(len(again)) > kind.Drift*float64(f.covered) {
		from, to, end, ok = 0, len(segments), f.covered, true
	}
	if !ok {
		f.keepRelabelled()
		return nil
	}
	f.from, f.to, f.first = from, to, f.m.Info.Rows
	if from < len(segments) {
		f.first = segments[from].First
	}
	f.n, f.deletedRows = end-f.first, newlyDeleted(f.first, end-f.first)
	f.read += max(0, f.m.Info.Rows-f.first)
	rows := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	f.sets = vector.CSR{Ptr: []uint64{0}, Cols: len(f.head.names)}
	for i := f.first; i < end; i++ {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return fail.Wrapf(err, "maintain")
			}
		}
		var x vector.Sparse
		var set []uint32
		if !f.newlyDeleted.Contains(uint32(i)) {
			if set = f.labels(i); f.st.Collection().Sparse {
				x = f.row(uint32(i))
			}
		}
		rows.Append(x)
		f.sets.Index = append(f.sets.Index, set...)
		f.sets.Ptr = append(f.sets.Ptr, uint64(len(f.sets.Index)))
	}
	f.keepRelabelled()
	if !f.st.Collection().Sparse {
		return nil
	}
	units := f.units(rows)
	f.lengths = postings.Lengths(rows, f.head.keep)
	err := timer.Run("postings", func(report func(int, int)) (err error) {
		f.index, err = postings.Build(ctx, units, report)
		return err
	})
	if err != nil {
		return fail.Wrapf(err, "postings")
	}
	return nil
}

// labels returns the labels of a row after the step.
func (f *following) labels(i int) []uint32 {
	if set, ok := f.relabelled[uint32(i)]; ok {
		return set
	}
	if n := f.a.sets.Rows(); i >= n {
		return f.fresh[i-n]
	}
	return f.a.sets.Row(i)
}

// relabelledRows returns the live covered rows whose labels are not those in their segment,
// ascending.
func (f *following) relabelledRows() []uint32 {
	rows := slices.AppendSeq(slices.Clone(f.a.sets.relabelled.rows), maps.Keys(f.relabelled))
	slices.Sort(rows)
	return slices.DeleteFunc(slices.Compact(rows), f.newlyDeleted.Contains)
}

// keepRelabelled sets the label sets that replace those of segments that the step does not write.
func (f *following) keepRelabelled() {
	for _, row := range f.relabelledRows() {
		if i := int(row); i < f.first || i >= f.first+f.n {
			f.head.relabelled.add(row, f.labels(i))
		}
	}
}

// Rows returns the number of rows that the step has read.
func (s *step) Rows() int { return s.read }

// Action returns the name of the step, as in MaintainStep.Action.
func (s *step) Action() string {
	switch {
	case s.n == 0 && s.relabels:
		return "relabel"
	case s.n == 0:
		return "forget"
	}
	switch {
	case s.to-s.from > 1 || s.to-s.from == 1 && s.first+s.n > s.m.Info.Rows:
		return "merge"
	case s.to > s.from:
		return "rewrite"
	}
	return "segment"
}

// Objects returns the number of objects: one for the segment, if there is one, and one for the
// rest.
func (s *step) Objects() int { return min(s.n, 1) + 1 }

// Emit writes the segment, the changed pairs and the head, and returns the manifest of the
// model.
func (s *step) Emit(object uint64, sink arrays.Sink) (*kind.Manifest, error) {
	m, model := *s.m, *detailOf(s.m)
	m.Own = &model
	model.Segments = slices.Clone(model.Segments)
	if s.n > 0 {
		w := arrays.NewWriter(object, sink)
		one := segment{Object: object, First: s.first, Rows: s.n, Dead: s.deletedRows, Bytes: w.Sizes}
		if s.index != nil {
			one.Index = (&postingsindex.Learned{Index: s.index, Lengths: s.lengths}).Put(w)
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
		model.Base = model.baseObject(s.m.Object)
		patchPairs.put(w, s.counts, s.head.powers)
	}
	if model.Learned == 0 {
		model.Learned, model.LearnedDead = s.m.Info.Rows, s.m.Info.Rows-s.m.Info.TrainingPoints
	}
	opts := *optionsOf(&m)
	opts.Params = &s.params
	model.Features, model.Labels, m.Options = s.features, len(s.head.names), &opts
	m.Info.Rows, m.Info.TrainingPoints = s.covered, s.covered-int(s.head.deletedRows.GetCardinality())
	m.Info.Bytes = w.Sizes
	return &m, w.Err
}

// Parts returns the objects that the model holds in addition to its own.
func (s *step) Parts() []uint64 {
	var out []uint64
	if s.n > 0 {
		out = append(out, s.object)
	}
	for i, g := range detailOf(s.m).Segments {
		if s.n == 0 || i < s.from || i >= s.to {
			out = append(out, g.Object)
		}
	}
	if base := detailOf(s.m).baseObject(s.m.Object); !s.whole && !slices.Contains(out, base) {
		out = append(out, base)
	}
	return out
}

// Garbage returns the blocks of kept objects that the model no longer needs: the old head,
// pairs that were rewritten, and segments that were replaced. If the object of the old head
// also has a segment or pairs, as after a build, the head stays until the object or its pairs
// are deleted: it is small, and is stored between large blocks that would have to be rewritten.
func (s *step) Garbage() []kind.BlockRef {
	var out []kind.BlockRef
	drop := func(object uint64, section codec.Kind, numbers ...uint32) {
		for _, n := range numbers {
			out = append(out, kind.BlockRef{Object: object, Kind: section, Number: n})
		}
	}
	baseObject := detailOf(s.m).baseObject(s.m.Object)
	// Unlike the rest of the head, the sets of relabelled rows are large.
	drop(s.m.Object, codec.KindLabelMatrix, arrayRelabelledRow, arrayRelabelledPtr, arrayRelabelledIndex)
	stale := []uint64{s.m.Object}
	switch {
	case s.whole:
		drop(baseObject, codec.KindSimilarity, arraySumPtr, arraySumLabel, arraySum, arrayPowerStart, arrayPower)
		stale = append(stale, baseObject)
	case baseObject == s.m.Object:
		stale = nil
	}
	for _, object := range stale {
		drop(object, codec.KindLabelMatrix, arrayLabelNames, arrayLabelDeleted)
		drop(object, codec.KindSimilarity, arraySquare, arrayLabelRows, arrayKeep, arrayIDF,
			arrayPatchPtr, arrayPatchLabel, arrayPatchSum, arrayPatchStart, arrayPatchPower, arrayFeatureFactor, arrayLabelFactor)
	}
	for _, g := range detailOf(s.m).Segments[s.from:s.to] {
		drop(g.Object, codec.KindLabelMatrix, arrayLabelPtr, arrayLabelIndex)
		for n := range postingsindex.ArrayPostingsEnd {
			drop(g.Object, codec.KindPostings, n)
		}
	}
	kept := s.Parts()
	return slices.DeleteFunc(out, func(b kind.BlockRef) bool { return !slices.Contains(kept, b.Object) })
}
