// Package labeltreeindex is the kind of index that predicts labels by linear classifiers in a tree over the
// labels (package trees/labeltree), over sparse and dense collections.
package labeltreeindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/labeltree"
	"github.com/anndb/anndb/vector"
)

// Name is the kind of linear classifiers in a tree over the labels.
const Name = "labeltree"

// The values of index.LabelTree.From; empty is fromText.
const (
	fromText   = "text"
	fromVector = "vector"
	fromBoth   = "both"
)

// Kind implements linear classifiers over sparse and dense collections.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Dense: true, Sparse: true, Predicts: true, Options: (*index.LabelTree)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &detail{} }

// optionsOf returns the resolved options in the manifest of a model.
func optionsOf(m *kind.Manifest) *index.LabelTree { return m.Options.(*index.LabelTree) }

// resolve returns the options of a build with defaults filled in.
func resolve(st kind.Source, job *kind.Job) (o index.LabelTree, err error) {
	o = *job.Given.(*index.LabelTree)
	c := st.Collection()
	if c.Sparse && o.From == "" {
		o.From = fromText
	}
	if c.Sparse && o.From != fromText && c.Vectors == 0 {
		return o, fmt.Errorf("%w: labels from %s, and collection %q has no vectors", fail.Option, o.From, c.Name)
	}
	if o.Weight == "" {
		o.Weight = labelled.WeightStandard
		if c.Sparse && o.From != fromVector {
			o.Weight = labelled.WeightTFIDF
		}
	}
	o.Params.Seed = cmp.Or(o.Params.Seed, o.Seed)
	return o, nil
}

// learned is a model that has been learned but not yet stored.
type learned struct {
	opts   index.LabelTree
	dead   int
	model  *labeltree.Model
	names  []string
	rows   []uint32 // by label
	chance *labels.Calibration
	input  encoder
}

// detail is the part of a manifest that only these models have.
type detail struct {
	Cols, Labels, Inner int
	encoding
}

// Build learns a model.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	l := &learned{}
	var data *labelled.Rows
	err := job.Latest(func(st kind.Source) (err error) {
		if l.opts, err = resolve(st, job); err != nil {
			return err
		}
		if st.Collection().Sparse && l.opts.From != fromVector {
			if err := labelled.CheckSpreadOf(ctx, st); err != nil {
				return err
			}
		}
		err = job.Timer.Run("read", func(report func(int, int)) (err error) {
			data, l.names, err = labelled.Read(ctx, st, job, nil, report)
			return err
		})
		if err != nil {
			return err
		}
		l.dead = data.Rows.Rows() - len(data.Live)
		return l.encode(ctx, st, data)
	})
	if err != nil {
		return nil, err
	}
	if len(data.Rows.Index) == 0 {
		return nil, fmt.Errorf("%w: no row of %q has a text, features or vector to learn from",
			fail.Empty, job.Coll)
	}
	l.rows = labels.LabelRows[uint32](data.Sets)
	err = job.Timer.Run("trees", func(report func(int, int)) (err error) {
		l.model, err = l.train(ctx, job, data, data.Live, report)
		return err
	})
	if err != nil || job.Data != nil { // a model of several kinds calibrates its members
		return l, err
	}
	return l, l.calibrate(ctx, job, data)
}

// calibrate computes the calibration of the model.
func (l *learned) calibrate(ctx context.Context, job *kind.Job, data *labelled.Rows) (err error) {
	o := lcif.SetsBy(l.opts.Objective, len(data.Live), l.opts.AllowEmpty)
	score := func(train []int, test []vector.Sparse) (*vector.CSR, error) {
		m, err := l.train(ctx, job, data, train, func(int, int) {})
		if err != nil {
			return nil, err
		}
		p, out := labeltree.NewPredictor(m), &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		var x vector.Sparse
		for i, row := range test {
			if i%64 == 0 && ctx.Err() != nil {
				return nil, fail.Wrapf(ctx.Err(), "build")
			}
			x.Index, x.Value = x.Index[:0], x.Value[:0]
			p.Predict(row, &x)
			out.Append(x)
		}
		out.Cols = len(l.names)
		return out, nil
	}
	l.chance, err = data.Calibrate(job.Timer, l.opts.Params.Seed, o, l.input.Vectors, score)
	return err
}

// train learns from those of the rows of which classifiers see anything.
func (l *learned) train(
	ctx context.Context, job *kind.Job, data *labelled.Rows, rows []int, report func(int, int),
) (*labeltree.Model, error) {
	rows = slices.DeleteFunc(slices.Clone(rows), func(i int) bool { return data.Rows.Row(i).Len() == 0 })
	m, err := labeltree.Train(ctx, labeltree.Job{
		X: data.Rows, Sets: data.Sets, Rows: rows, Params: l.opts.Params,
		Workers: kind.WorkersOf(ctx), Progress: report,
	}, func(bytes int64) { job.Timer.Report(fmt.Sprintf("classifiers, at most %d MB", bytes>>20), 0, 0) })
	if err != nil {
		return nil, fail.Wrapf(kind.AsParameter(err), "%s over %q", Name, job.Coll)
	}
	return m, nil
}

// Describe implements kind.Built.
func (l *learned) Describe(m *kind.Manifest) {
	o := l.opts
	m.Options, m.Info.Calibration = &o, l.chance
	if o.From == fromVector || o.From == fromBoth {
		m.Uses = kind.ScanName // a query need not have features
	}
}

// The numbers of the arrays in the section label-tree (codec/FORMAT.md). They are part of the format.
const (
	arrayClassPtr uint32 = iota
	arrayTarget
	arrayOffset
	arrayFeaturePtr
	arrayFeature
	arrayWeightPtr
	arrayWeight
	arrayNames
	arrayRows
	arrayIDF
)

// Emit implements kind.Built.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	a := w.Section(codec.KindLabelTree)
	modelArrays(a, l.model)
	a.WriteNames(arrayNames, l.names)
	arrays.Field(a, arrayRows, &l.rows)
	arrays.Field(a, arrayIDF, &l.input.idf)
	g.Dead, g.Own = l.dead, &detail{
		Cols: l.model.Cols, Labels: l.model.Labels, Inner: l.model.Inner,
		encoding: l.input.encoding,
	}
}

// modelArrays reads or writes the arrays of a model.
func modelArrays(a *arrays.Section, m *labeltree.Model) {
	arrays.Field(a, arrayClassPtr, &m.ClassPtr)
	arrays.Field(a, arrayTarget, &m.Target)
	arrays.Field(a, arrayOffset, &m.Offset)
	arrays.Field(a, arrayFeaturePtr, &m.FeaturePtr)
	arrays.Field(a, arrayFeature, &m.Feature)
	arrays.Field(a, arrayWeightPtr, &m.WeightPtr)
	arrays.Field(a, arrayWeight, &m.Weight)
}

// Check refuses values that no build writes.
func (d *detail) Check(m *kind.Manifest, g *kind.Segment) error {
	switch {
	case d.Labels < 1:
		return errors.New("labels")
	case !d.valid() || d.Cols < d.Vectors || d.Cols-d.Vectors > m.Dim:
		return errors.New("features")
	}
	return nil
}

// model is a stored model in one generation.
type model struct {
	labelled.Labels
	opts  *index.LabelTree
	model *labeltree.Model
	input encoder
	pool  sync.Pool // of *scratch, which belong to this model
}

// Open maps the arrays of a model.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	g := m.Segments[0]
	d := g.Own.(*detail)
	r := st.Arrays(ctx, m.Info.Name, g.Object)
	a := r.Section(codec.KindLabelTree)
	x := &labeltree.Model{Cols: d.Cols, Labels: d.Labels, Inner: d.Inner}
	modelArrays(a, x)
	out := &model{
		Labels: labelled.ReadLabels(a, arrayNames, arrayRows, d.Labels), opts: optionsOf(m), model: x,
		input: encoder{encoding: d.encoding, known: d.Cols - d.Vectors},
	}
	arrays.Field(a, arrayIDF, &out.input.idf)
	out.input.counts = d.Features && out.opts.Weight == labelled.WeightTFIDF
	r.Need(out.input.idf == nil && !out.input.counts || len(out.input.idf) == out.input.known,
		"weights of features")
	r.Once(kind.RoleLabelTree, fmt.Sprint(d.Cols, d.Labels, d.Inner), 0, func() error {
		return cmp.Or(x.Validate(), labelled.CheckWeights(out.input.idf))
	})
	if r.Err != nil {
		return nil, r.Err
	}
	out.pool.New = func() any { return &scratch{p: labeltree.NewPredictor(x)} }
	return out, nil
}

// Check implements kind.Opened. The arrays were validated when the model was opened.
func (*model) Check(context.Context) error { return nil }
