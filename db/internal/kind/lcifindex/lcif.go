// Package lcifindex is the kind of index that predicts labels from nearest rows and from features
// (package query/lcif), over sparse and dense collections.
package lcifindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
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

// Name is the kind of label models by LCIF.
const Name = "lcif"

// options are the resolved options of a build.
type options struct {
	index.LCIF
	labels []string // of Params.Thresholds.PerLabel if the model is rebuilt
}

// resolve fills in the defaults for so many rows. A rebuild takes what the tuner chose: the
// parameters, whose thresholds are by label, the weighting and the index that finds neighbors.
func resolve(job *kind.Job, live int) (o options, err error) {
	o.LCIF = *job.Given.(*index.LCIF)
	if job.Before != nil {
		kept := optionsOf(job.Before)
		o.Params, o.Weight, o.Neighbors, o.labels = kept.Params, kept.Weight, kept.Neighbors, job.Labels
		o.Cut = nil
	}
	o.Folds = max(2, min(cmp.Or(o.Folds, 10), live))
	o.TuneRows = cmp.Or(o.TuneRows, 10_000)
	if live < 2 && (o.Params == nil || o.Cut != nil) {
		return o, fmt.Errorf("%w: %d rows are too few to choose the parameters by cross-validation: want 2 or more",
			fail.Option, live)
	}
	if c := o.Cut; c != nil {
		own := *c
		own.NoTop = own.NoTop || o.AllowEmpty
		if !own.PerLabel {
			own.Share = cmp.Or(own.Share, 1)
		}
		o.Cut = &own
	}
	if o.Weight == "" && (o.Params != nil || o.Paper) {
		o.Weight = labelled.WeightNone
	}
	return o, nil
}

// learned is a label model that has been learned but not yet stored.
type learned struct {
	postingsindex.Learned // without an inverted index in a dense collection
	opts                  options
	rows, dim             int
	names                 []string
	sets                  *labels.Matrix // by row number; deleted rows have no labels
	counts                *labels.FeatureLabels
	power                 *labels.Powers  // similarities to the power of params.Beta
	deletedRows           *roaring.Bitmap // rows that were deleted
	keep                  []uint64
	idf                   []float32
	scale                 *lcif.Scaling
	params                lcif.Params
	curve                 *lcif.Curve
}

// detail is the part of a manifest that only label models have. Their parameters are in
// the options.
type detail struct {
	kind.PlainDetail
	Features, Labels int
	// Neighbors names the index that finds neighbors in a dense collection.
	Neighbors string `json:",omitempty"`
	// Scale standardizes the columns of a dense collection, if set.
	Scale *lcif.Scaling `json:",omitempty"`
	// Base is the object that stores the pairs, if it is not the model's own.
	Base uint64 `json:",omitempty"`
	// Learned is the number of rows that the model was learned from, LearnedDead the number of
	// deleted ones among them. Maintenance sets both; zero means the number of rows that the model
	// covers.
	Learned     int `json:",omitempty"`
	LearnedDead int `json:",omitempty"`
	// Segments are the parts of the label sets and, if the rows are sparse, of the inverted
	// index.
	Segments []segment
}

// detailOf returns the part of the manifest that only label models have.
func detailOf(m *kind.Manifest) *detail { return m.Own.(*detail) }

// paramsOf returns the parameters of a label model.
func paramsOf(m *kind.Manifest) *lcif.Params { return optionsOf(m).Params }

// optionsOf returns the resolved options in the manifest of a label model.
func optionsOf(m *kind.Manifest) *index.LCIF { return m.Options.(*index.LCIF) }

func (l *detail) SegmentCount() int { return len(l.Segments) }
func (l *detail) FeatureCount() int { return l.Features }
func (l *detail) Uses() string      { return l.Neighbors }

func (l *detail) Objects() []uint64 {
	out := segmentObjects(l.Segments)
	if l.Base != 0 {
		out = append(out, l.Base)
	}
	return out
}

// Check refuses values that no build writes.
func (l *detail) Check(m *kind.Manifest, _ *kind.Segment) error {
	sparse := len(l.Segments) > 0 && l.Segments[0].Index != nil
	p := paramsOf(m)
	switch {
	case p == nil || l.Labels < 1 || int64(l.Labels) > math.MaxUint32 ||
		l.Learned < 0 || l.LearnedDead < 0:
		return errors.New("label model")
	case l.Features < 0 || l.Features > kind.MaxFeature+1 ||
		!sparse && (l.Features != m.Dim || m.Dim < 1 || m.Dim > kind.MaxDim):
		return errors.New("features")
	case segmentFeatures(l.Segments) > l.Features:
		return errors.New("features of segments")
	}
	// The errors are not mistakes of the caller.
	if err := p.Validate(l.Labels); err != nil {
		return fmt.Errorf("parameters: %v", fail.Inner{Err: err})
	}
	if c := m.Info.LabelCurve; c != nil {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("curve: %v", err)
		}
	}
	return checkSegments(l.Segments, m.Info.Rows, sparse)
}

// Kind implements label models over sparse and dense collections.
type Kind struct{}

func (Kind) Suits(bool) bool        { return true }
func (Kind) Predicts() bool         { return true }
func (Kind) Composes() bool         { return true }
func (Kind) Detail() kind.Detail    { return &detail{} }
func (Kind) Options() index.Options { return &index.LCIF{} }

// Build learns a label model.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	var data *labelled.Rows
	l, o := &learned{}, options{}
	err := job.Latest(func(st kind.Source) (err error) {
		c := st.Collection()
		l.dim = c.Dim
		if o, err = resolve(job, int(c.Live)); err != nil {
			return err
		}
		if err := resolveNeighbors(st, job, &o); err != nil {
			return err
		}
		err = job.Timer.Run("read", func(report func(int, int)) error {
			data, l.names, err = labelled.Read(ctx, st, job.End, report)
			return err
		})
		if err != nil || c.Sparse {
			return err
		}
		// Neighbors are searched for in the map, so the snapshot must stay open.
		return l.learnDense(ctx, st, data, o, job.Timer)
	})
	if err == nil && l.sets == nil {
		err = l.learnSparse(ctx, job.Coll, data, o, job.Timer)
	}
	return l, err
}

// learnSparse learns the model of a sparse collection.
func (l *learned) learnSparse(
	ctx context.Context, coll string, data *labelled.Rows, o options, timer *kind.Timer,
) error {
	l.rows, l.opts, l.deletedRows = data.Rows.Rows(), o, data.DeletedSet()
	l.Dead = l.rows - len(data.Live)
	if err := labelled.CheckSpread(coll, data.Rows.Cols, len(data.Rows.Index)); err != nil {
		return err
	}
	var candidates []weighted
	for _, w := range o.candidates(labelled.WeightTFIDF) {
		own := *data
		if w != labelled.WeightNone {
			own.Rows = &vector.CSR{
				Ptr: data.Rows.Ptr, Index: data.Rows.Index, Value: slices.Clone(data.Rows.Value),
				Cols: data.Rows.Cols,
			}
		}
		candidates = append(candidates, weighted{weight: w, idf: own.Weigh(w), data: &own})
	}
	best, err := l.choose(ctx, candidates, o, timer)
	if err != nil {
		return err
	}
	data, l.idf = best.data, best.idf
	return timer.Run("model", func(report func(int, int)) error { return l.learn(ctx, data, report) })
}

// learn learns the model from all rows with the chosen parameters.
func (l *learned) learn(
	ctx context.Context, data *labelled.Rows, report func(done, total int),
) error {
	view, counts, err := lcif.Build(ctx, data.Rows, data.Sets, l.params.Features, kind.WorkersOf(ctx))
	if err != nil {
		return fail.Wrapf(err, "label model")
	}
	beta := l.params.Beta
	if beta == 0 {
		beta = 1
	}
	if err := view.SetPower(counts, beta); err != nil {
		return fail.Wrapf(err, "label model")
	}
	source, ok := view.Neighbors.(*lcif.PostingsNeighbors)
	if !ok {
		return fmt.Errorf("db: label model: neighbors by %T", view.Neighbors)
	}
	l.Lengths = postings.Lengths(data.Rows, view.Keep)
	l.Index, l.sets, l.counts, l.power, l.keep = source.Index, data.Sets, counts, view.Powers, view.Keep
	return nil
}

func (l *learned) Describe(m *kind.Manifest) {
	m.Info.Rows, m.Info.TrainingPoints = l.rows, l.rows-l.Dead
	o := l.opts.LCIF
	o.Params, o.Cut = &l.params, nil
	m.Options, m.Info.LabelCurve = &o, l.curve
}

// The numbers of a label model's arrays in the sections label-matrix and feature-labels
// (codec/FORMAT.md). They are part of the format.
const (
	arrayLabelPtr uint32 = iota
	arrayLabelIndex
	arrayLabelNames
	arrayLabelDeleted
	arrayRelabelledRow
	arrayRelabelledPtr
	arrayRelabelledIndex
)

const (
	arraySumPtr uint32 = iota
	arraySumLabel
	arraySum
	arraySquare
	arrayLabelRows
	arrayPower
	arrayKeep
	arrayIDF
	arrayPatchPtr
	arrayPatchLabel
	arrayPatchSum
	arrayPatchPower
	arrayFeatureFactor
	arrayLabelFactor
	arrayPowerStart
	arrayPatchStart
)

// Emit writes a label model of one segment.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	d := &detail{
		Features: l.dim, Labels: len(l.names), Neighbors: l.opts.Neighbors, Scale: l.scale,
	}
	one := segment{Object: w.Object, Rows: l.rows, Dead: l.Dead, Bytes: w.Sizes}
	if l.Index != nil {
		one.Index = l.Put(w)
		d.Features = l.Index.Features()
	}
	g.Dead, g.Own, d.Segments = l.Dead, d, []segment{one}
	sets := l.sets.CSR()
	labelSetArrays(w.Section(codec.KindLabelMatrix), &sets)
	h := &modelHead{
		names: l.names, deletedRows: l.deletedRows, square: l.counts.Square, rows: l.counts.Rows, powers: l.power,
		keep: l.keep, idf: l.idf,
	}
	h.put(w)
	basePairs.put(w, l.counts, l.power)
}

// labelSetArrays reads or writes the arrays of the label sets of rows.
func labelSetArrays(a *arrays.Section, sets *vector.CSR) {
	arrays.Field(a, arrayLabelPtr, &sets.Ptr)
	arrays.Field(a, arrayLabelIndex, &sets.Index)
}

// relabelledSets are label sets of rows, which replace those in the segments. A step of
// maintenance writes them, because segments are large.
type relabelledSets struct {
	rows []uint32 // ascending
	sets vector.CSR
}

// arrays reads or writes the arrays of the sets.
func (s *relabelledSets) arrays(a *arrays.Section) {
	arrays.Field(a, arrayRelabelledRow, &s.rows)
	arrays.Field(a, arrayRelabelledPtr, &s.sets.Ptr)
	arrays.Field(a, arrayRelabelledIndex, &s.sets.Index)
}

// add appends the set of a row after all others.
func (s *relabelledSets) add(row uint32, set []uint32) {
	if s.sets.Ptr == nil {
		s.sets.Ptr = []uint64{0}
	}
	s.rows, s.sets.Index = append(s.rows, row), append(s.sets.Index, set...)
	s.sets.Ptr = append(s.sets.Ptr, uint64(len(s.sets.Index)))
}

// row returns the set of a row, if there is one.
func (s *relabelledSets) row(i int) (set []uint32, ok bool) {
	if len(s.rows) == 0 {
		return nil, false
	}
	at, ok := slices.BinarySearch(s.rows, uint32(i))
	if !ok {
		return nil, false
	}
	return s.sets.Index[s.sets.Ptr[at]:s.sets.Ptr[at+1]], true
}

// validate checks sets of rows below n that were read from a file.
func (s *relabelledSets) validate(n int) error {
	for i, row := range s.rows {
		if int(row) >= n || i > 0 && row <= s.rows[i-1] {
			return fmt.Errorf("row %d of %d is relabelled out of order", row, n)
		}
	}
	return checked("labels of relabelled rows", &s.sets)()
}

// modelHead is the data that a label model stores once, not per segment, except for its pairs.
type modelHead struct {
	names       []string
	deletedRows *roaring.Bitmap
	// relabelled has the rows whose labels were changed since their segment was written.
	relabelled relabelledSets
	square     []labels.Uint128
	rows       []uint32
	powers     *labels.Powers
	keep       []uint64
	idf        []float32
}

// put writes the arrays of the head.
func (h *modelHead) put(w *arrays.Writer) {
	a := w.Section(codec.KindLabelMatrix)
	a.WriteNames(arrayLabelNames, h.names)
	a.WriteSet(arrayLabelDeleted, h.deletedRows)
	h.relabelled.arrays(a)
	once := Arrays{
		Rows: h.rows, Keep: h.keep, IDF: h.idf, Feature: h.powers.Feature, Label: h.powers.Label,
	}
	for _, s := range h.square {
		once.Square = append(once.Square, s.Hi, s.Lo)
	}
	once.onceArrays(w.Section(codec.KindSimilarity))
}

// onceArrays reads or writes the arrays of a modelHead, except for names and deleted rows.
func (x *Arrays) onceArrays(a *arrays.Section) {
	arrays.Field(a, arraySquare, &x.Square)
	arrays.Field(a, arrayLabelRows, &x.Rows)
	arrays.Field(a, arrayKeep, &x.Keep)
	arrays.Field(a, arrayIDF, &x.IDF)
	arrays.Field(a, arrayFeatureFactor, &x.Feature)
	arrays.Field(a, arrayLabelFactor, &x.Label)
}

// pairNumbers are the numbers of the arrays that store pairs of a feature and a label.
type pairNumbers struct{ ptr, label, sum, start, power uint32 }

var (
	basePairs  = pairNumbers{arraySumPtr, arraySumLabel, arraySum, arrayPowerStart, arrayPower}
	patchPairs = pairNumbers{arrayPatchPtr, arrayPatchLabel, arrayPatchSum, arrayPatchStart, arrayPatchPower}
)

// arrays reads or writes the arrays of pairs: the powers, and the sums that they are computed
// from.
func (n pairNumbers) arrays(a *arrays.Section, powers *labels.Pairs, sums *[]int64) {
	arrays.Field(a, n.ptr, &powers.Ptr)
	arrays.Field(a, n.label, &powers.Label)
	arrays.Field(a, n.start, &powers.Start)
	arrays.Field(a, n.power, &powers.Value)
	arrays.Field(a, n.sum, sums)
}

// put writes pairs with their sums and powers.
func (n pairNumbers) put(w *arrays.Writer, counts *labels.FeatureLabels, powers *labels.Powers) {
	sums := counts.Sum
	n.arrays(w.Section(codec.KindSimilarity), &powers.Parts[0], &sums)
}
