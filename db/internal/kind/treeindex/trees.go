// Package treeindex is the kind of index that predicts labels by budgeted trees (package
// trees/budget), over sparse and dense collections.
package treeindex

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Kind implements budgeted trees over sparse and dense collections.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Dense: true, Sparse: true, Predicts: true, Options: (*index.Trees)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &detail{} }

// optionsOf returns the resolved options in the manifest of budgeted trees.
func optionsOf(m *kind.Manifest) *index.Trees { return m.Options.(*index.Trees) }

// resolve returns the options of a build with defaults filled in. A rebuild takes the parameters that
// a search over a grid has chosen instead of searching again.
func resolve(job *kind.Job) index.Trees {
	o := *job.Given.(*index.Trees)
	o.Kind = o.Name()
	p := &o.Params
	if job.Before != nil && o.Grid != nil {
		*p, o.Budget, o.Grid, o.TuneRows = optionsOf(job.Before).Params, 0, nil, 0
	}
	p.BAC.Budget = cmp.Or(o.Budget, p.BAC.Budget, 100)
	p.Seed = cmp.Or(p.Seed, o.Seed)
	p.KeepTop = budget.Kind(o.Kind) == budget.AT && !o.AllowEmpty
	return o
}

// learned is a set of budgeted trees that has been learned but not yet stored.
type learned struct {
	kind         budget.Kind
	points, dead int // numbers of rows
	given        *index.Trees
	opts         index.Trees
	rows         []uint32 // the number of rows with each label
	chance       *labels.Calibration
	member       bool // of a model of several kinds, which calibrates it
	model        *budget.Model
	trials       []budget.Trial
	names        []string
	idf          []float32
	known        []uint32 // without idf: the features that rows have, nil for all
	unit         bool
}

// detail is the part of a manifest that only budgeted trees have.
type detail struct {
	Kind                 budget.Kind
	Cols, Labels, Voters int
	Threshold            float32 `json:",omitempty"`
	KeepTop              bool    `json:",omitempty"`
	// Silent is the number of rows that were left out because they have vectors only.
	Silent int `json:",omitempty"`
	// Unit is set if rows were scaled to unit length.
	Unit bool `json:",omitempty"`
}

// Build learns trees.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	o := resolve(job)
	l := &learned{given: job.Given.(*index.Trees), opts: o, kind: budget.Kind(o.Kind), member: job.Data != nil}
	var data *labelled.Rows
	err := job.Latest(func(st kind.Source) error {
		l.unit = st.Collection().Sparse
		if o.Weight != "" && o.Weight != labelled.WeightNone {
			if err := labelled.CheckSpreadOf(ctx, st); err != nil {
				return err
			}
		}
		err := job.Timer.Run("read", func(report func(int, int)) (err error) {
			data, l.names, err = labelled.Read(ctx, st, job, nil, report)
			return err
		})
		if err != nil {
			return err
		}
		l.dead = data.Rows.Rows() - len(data.Live)
		if st.Collection().Vectors > 0 { // rows with a vector only say nothing of features
			data.Live = slices.DeleteFunc(data.Live, func(i int) bool { return data.Rows.Row(i).Len() == 0 })
		}
		switch {
		case len(data.Live) == 0:
			return fmt.Errorf("%w: no row of %q has a text or features", fail.Empty, job.Coll)
		case l.kind == budget.SBT:
			return oneLabelEach(st, data)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, l.learnFrom(ctx, job, data)
}

// learnFrom weighs the rows, renumbers their features, and learns trees from them.
func (l *learned) learnFrom(ctx context.Context, job *kind.Job, data *labelled.Rows) error {
	o := &l.opts
	l.points = len(data.Live)
	l.rows = labels.LabelRows[uint32](data.Sets)
	features := data.Rows.Cols
	if w := o.Weight; w != "" {
		l.idf = data.Weigh(w, true)
	}
	if l.unit && l.idf == nil {
		l.known = data.Known()
	}
	used := data.Rows.FewColumns()
	if l.idf != nil {
		used = nil // weights are of all features
	}
	if used != nil {
		data.Rows = data.Rows.Renumbered(used)
	}
	if l.unit {
		var unit vector.Sparse
		data.Rows = data.Mapped(data.Rows.Cols, func(row int) vector.Sparse {
			kind.UnitSparse(&unit, data.Rows.Row(row))
			return unit
		})
	}
	if err := l.learn(ctx, treeJob(l.kind, data), data, job.Timer); err != nil {
		if errors.Is(err, budget.ErrOneClass) && oneSet(data) {
			err = fmt.Errorf("%w: all %d rows have %s", err, l.points, l.describeSet(data.Sets.Row(data.Live[0])))
		}
		return fail.Wrapf(kind.AsParameter(err), "%s over %q", o.Kind, job.Coll)
	}
	if used != nil {
		for i, at := range l.model.Features {
			l.model.Features[i] = used[at]
		}
		l.model.Cols = features
	}
	return nil
}

func (l *learned) Describe(m *kind.Manifest) {
	s, i, opts := l.model.Stats(), &m.Info, l.opts
	opts.Budget = opts.Params.BAC.Budget
	m.Options, i.Tree, i.TreeTrials, i.Calibration = &opts, &s, l.trials, l.chance
}

// The numbers of a tree's arrays in the section budget (codec/FORMAT.md). They are part of the format.
const (
	arrayRoots uint32 = iota
	arrayFeatures
	arrayLeft
	arrayRight
	arrayNodePtr
	arrayNodeFeature
	arrayWeight
	arrayOffset
	arrayNodeRows
	arrayNodeErrors
	arrayNodeLabel
	arrayOnePtr
	arrayOneLabel
	arrayNodeWorking
	arrayLeafRows
	arrayLeafPositive
	arrayLeafClass
	arraySetPtr
	arraySetLabel
	arrayTreeNames
	arrayTreeIDF
	arrayTreeLabelRows
	arrayTreeKnown
)

// Emit writes the arrays of trees.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	a := w.Section(codec.KindBudget)
	m := l.model
	treeArrays(a, m)
	a.WriteNames(arrayTreeNames, l.names)
	arrays.Field(a, arrayTreeIDF, &l.idf)
	arrays.Field(a, arrayTreeLabelRows, &l.rows)
	arrays.Field(a, arrayTreeKnown, &l.known)
	g.Dead, g.Own = l.dead, &detail{
		Kind: m.Kind, Cols: m.Cols, Labels: m.Labels, Voters: m.Voters, Threshold: m.Threshold,
		KeepTop: m.KeepTop, Unit: l.unit, Silent: g.Rows - l.dead - l.points,
	}
}

// treeArrays reads or writes the arrays of trees.
func treeArrays(a *arrays.Section, m *budget.Model) {
	arrays.Field(a, arrayRoots, &m.Roots)
	arrays.Field(a, arrayFeatures, &m.Features)
	arrays.Field(a, arrayLeft, &m.Left)
	arrays.Field(a, arrayRight, &m.Right)
	arrays.Field(a, arrayNodePtr, &m.NodePtr)
	arrays.Field(a, arrayNodeFeature, &m.NodeFeature)
	arrays.Field(a, arrayWeight, &m.Weight)
	arrays.Field(a, arrayOffset, &m.Offset)
	arrays.Field(a, arrayNodeRows, &m.NodeRows)
	arrays.Field(a, arrayNodeErrors, &m.NodeErrors)
	arrays.Field(a, arrayNodeLabel, &m.NodeLabel)
	arrays.Field(a, arrayOnePtr, &m.OnePtr)
	arrays.Field(a, arrayOneLabel, &m.OneLabel)
	arrays.Field(a, arrayNodeWorking, &m.NodeWorking)
	arrays.Field(a, arrayLeafRows, &m.LeafRows)
	arrays.Field(a, arrayLeafPositive, &m.LeafPositive)
	arrays.Field(a, arrayLeafClass, &m.LeafClass)
	arrays.Field(a, arraySetPtr, &m.SetPtr)
	arrays.Field(a, arraySetLabel, &m.SetLabel)
}

// Check refuses values that no build writes.
func (b *detail) Check(m *kind.Manifest, g *kind.Segment) error {
	o := optionsOf(m)
	switch {
	case b.Cols < 0 || b.Cols > m.Dim:
		return errors.New("features")
	case b.Labels < 1:
		return errors.New("labels")
	case b.Silent < 0 || b.Silent > g.Rows-g.Dead:
		return errors.New("rows without features")
	case b.Voters < 1 || b.Voters > budget.MaxVoters:
		return errors.New("voters")
	}
	if err := o.Params.Validate(); err != nil {
		return fmt.Errorf("options: %v", fail.Inner{Err: err}) // not a mistake of the caller
	}
	return nil
}

// Model is a stored tree in one generation.
type Model struct {
	labelled.Labels
	st    kind.Source
	m     *kind.Manifest
	index *budget.Index
	Model *budget.Model
	idf   []float32
	known []uint32 // the features of the training rows, ascending; nil for all, or with idf
	unit  bool
	pool  sync.Pool // of *budget.Predictor, which belong to this tree
}

// Open maps the arrays of trees.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	g := m.Segments[0]
	r := st.Arrays(ctx, m.Info.Name, g.Object)
	a := r.Section(codec.KindBudget)
	b := g.Own.(*detail)
	x := &budget.Model{
		Kind: b.Kind, Cols: b.Cols, Labels: b.Labels, Voters: b.Voters, Threshold: b.Threshold,
		KeepTop: b.KeepTop,
	}
	treeArrays(a, x)
	t := &Model{st: st, m: m, Model: x, unit: b.Unit}
	t.Labels = labelled.ReadLabels(a, arrayTreeNames, arrayTreeLabelRows, b.Labels)
	arrays.Field(a, arrayTreeIDF, &t.idf)
	arrays.Field(a, arrayTreeKnown, &t.known)
	r.Need(t.idf == nil || len(t.idf) == x.Cols, "weights of features")
	r.Once(kind.RoleTree, fmt.Sprintf("%+v", *b), 0, t.validate)
	if r.Err != nil {
		return nil, r.Err
	}
	t.index = budget.NewIndex(x)
	t.pool.New = func() any { return budget.NewPredictor(t.index) }
	return t, nil
}

// validate checks the arrays.
func (t *Model) validate() error {
	known := vector.CSR{Ptr: []uint64{0, uint64(len(t.known))}, Index: t.known, Cols: t.Model.Cols}
	if err := known.Validate(); err != nil {
		return fmt.Errorf("features of rows: %w", err)
	}
	return cmp.Or(t.Model.Validate(), labelled.CheckWeights(t.idf))
}

// Check checks that a tree's counts are consistent with each other. Its arrays were validated when it was
// opened.
func (t *Model) Check(context.Context) error {
	return t.Model.CheckCounts(t.m.Info.TrainingPoints - t.m.Segments[0].Own.(*detail).Silent)
}

// Prepare weighs and scales a query as the training rows were.
func (t *Model) Prepare(x vector.Sparse) vector.Sparse {
	if t.idf != nil {
		x = vector.Sparse{Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
		labelled.Weigh(x, t.idf)
	}
	if t.unit {
		var unit vector.Sparse
		kind.UnitSparse(&unit, x)
		x = unit
	}
	return x
}

// scored returns all labels that have a score, and those of the predicted set: that of the leaf, and for SBT
// the best class.
func (t *Model) scored(p *budget.Predictor, x vector.Sparse) (list []kind.Ranked, decisions int) {
	if t.Model.Kind == budget.SBT {
		class, _ := p.Class(x)
		decisions = p.Decisions()
		for c, score := range p.ClassScores(nil, x) {
			// Weights and values may be so large that scores exceed the range of float32.
			score = min(max(score, -math.MaxFloat32), math.MaxFloat32)
			r := labels.Ranked{Label: uint32(c), Score: float32(score)}
			list = append(list, kind.Ranked{Ranked: r, Predicted: c == class})
		}
		return list, decisions
	}
	set := slices.Clone(p.Set(x))
	decisions = p.Decisions()
	scores := p.LabelScores(x)
	for i, l := range scores.Index {
		list = append(list, kind.Ranked{Ranked: labels.Ranked{Label: l, Score: scores.Value[i]}})
	}
	for _, l := range set {
		if i, ok := slices.BinarySearch(scores.Index, l); ok {
			list[i].Predicted = true
		} else { // the path is too unlikely to be followed
			list = append(list, kind.Ranked{Ranked: labels.Ranked{Label: l}, Predicted: true})
		}
	}
	return list, decisions
}

// probable adds probabilities to scores. The set of SBT is then the most probable class.
func (t *Model) probable(list []kind.Ranked, c *labels.Calibration) {
	best := 0
	for i := range list {
		r := &list[i]
		score := r.Score
		if t.Model.Kind == budget.SBT {
			score = budget.Chance(float64(score))
		}
		r.Probability = c.Probability(score, t.RowsWith(r.Label))
		b := &list[best]
		if r.Probability > b.Probability || r.Probability == b.Probability && r.Score > b.Score {
			best = i
		}
	}
	if t.Model.Kind == budget.SBT {
		for i := range list {
			list[i].Predicted = i == best
		}
	}
}

// byScore orders by score, largest first, and predicted labels first if scores are equal.
func byScore(a, b kind.Ranked) int {
	if c := cmp.Compare(b.Score, a.Score); c != 0 || a.Predicted == b.Predicted {
		return c
	}
	if a.Predicted {
		return -1
	}
	return 1
}
