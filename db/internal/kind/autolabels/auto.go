// Package autolabels is the kind of index that predicts labels by models of other kinds together, whose
// probabilities are weighed by what held-out rows prefer.
package autolabels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/labeltreeindex"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Name is the kind of models of several kinds.
const Name = "auto-labels"

// Kind implements models of several kinds over sparse and dense collections.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Dense: true, Sparse: true, Predicts: true, Composes: true, Options: (*index.Auto)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &detail{} }

// optionsOf returns the resolved options in the manifest of a model.
func optionsOf(m *kind.Manifest) *index.Auto { return m.Options.(*index.Auto) }

// detail is the part of a segment that only models of several kinds have. A segment of later rows has a part
// of LCIF, if the model has one.
type detail struct {
	Parts []part
	// Deep is the number of labels that members are asked for.
	Deep int `json:",omitempty"`
	// Cut is the least score of predicted labels, if the model has no calibration.
	Cut float32 `json:",omitempty"`
	// Earlier has the trials of a build that was cut short, in the first segment.
	Earlier []earlier `json:",omitempty"`
}

// part is a member in a segment.
type part struct {
	Kind string
	// Dead is the number of rows that the member has not learned from.
	Dead   int
	Detail json.RawMessage
	// Uses is kind.Manifest.Uses of the member.
	Uses string `json:",omitempty"`
	// Curves turn scores into probabilities, whose shares are the weights, by bucket; in the first segment.
	Curves  *curves           `json:",omitempty"`
	Weights *[buckets]float64 `json:",omitempty"`
	own     kind.Detail
}

// memberKinds are the kinds of members, by name.
var memberKinds = map[string]kind.Kind{
	lcifindex.Name: lcifindex.Kind{}, labeltreeindex.Name: labeltreeindex.Kind{},
	string(budget.AT): treeindex.Kind{}, string(budget.PT): treeindex.Kind{},
}

// memberOptions returns the options of a member, nil if there is no such member.
func memberOptions(o *index.Auto, name string) index.Options {
	switch {
	case name == lcifindex.Name && o.LCIF != nil:
		return o.LCIF
	case name == labeltreeindex.Name && o.LabelTree != nil:
		return o.LabelTree
	case o.Trees != nil && o.Trees.Name() == name:
		return o.Trees
	}
	return nil
}

// partOf returns the part of a member in a segment, nil if it has none.
func (d *detail) partOf(name string) *part {
	for i := range d.Parts {
		if d.Parts[i].Kind == name {
			return &d.Parts[i]
		}
	}
	return nil
}

// Check refuses values that no build writes.
func (d *detail) Check(m *kind.Manifest, g *kind.Segment) error {
	large := g.First == 0
	if large && (len(d.Parts) == 0 || d.Deep < 1 || !(d.Cut >= 0 && d.Cut <= 1)) {
		return errors.New("members")
	}
	for i := range d.Earlier {
		if err := d.Earlier[i].check(); err != nil {
			return err
		}
	}
	for i := range d.Parts {
		p := &d.Parts[i]
		k, o := memberKinds[p.Kind], memberOptions(optionsOf(m), p.Kind)
		switch {
		case k == nil || o == nil || d.partOf(p.Kind) != p:
			return fmt.Errorf("member %q", p.Kind)
		case large && (p.Curves == nil || p.Weights == nil):
			return fmt.Errorf("member %q without weights", p.Kind)
		case p.Dead < g.Dead || p.Dead > g.Rows:
			return fmt.Errorf("member %q: %d rows left out", p.Kind, p.Dead)
		}
		if err := p.check(large); err != nil {
			return fmt.Errorf("member %q: %v", p.Kind, err)
		}
		p.own = k.Detail()
		if err := json.Unmarshal(p.Detail, p.own); err != nil {
			return fmt.Errorf("member %q: %w", p.Kind, err)
		}
		if err := p.own.Check(member(m, p.Kind), p.segment(g)); err != nil {
			return fmt.Errorf("member %q: %w", p.Kind, err)
		}
	}
	return nil
}

// check refuses weights and curves that no build writes.
func (p *part) check(large bool) error {
	if !large {
		return nil
	}
	for b, w := range p.Weights {
		if !(w >= 0 && w <= 1) {
			return fmt.Errorf("weight %g", w)
		}
		if err := p.Curves[b].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// segment returns the segment of a member.
func (p *part) segment(g *kind.Segment) *kind.Segment {
	own := *g
	own.Dead, own.Own, own.Detail = p.Dead, p.own, p.Detail
	return &own
}

// member returns the manifest of a member.
func member(m *kind.Manifest, name string) *kind.Manifest {
	own := *m
	own.Kind, own.Of, own.Options, own.Segments = name, memberKinds[name], memberOptions(optionsOf(m), name), nil
	own.Given, own.Uses = own.Options, ""
	for i := range m.Segments {
		g := &m.Segments[i]
		d, ok := g.Own.(*detail)
		if !ok { // it is not yet decoded
			continue
		}
		if p := d.partOf(name); p != nil {
			own.Segments = append(own.Segments, *p.segment(g))
			if i == 0 {
				own.Uses = p.Uses
			}
		}
	}
	own.Total()
	return &own
}

// arrayLabelRows is the number, in the section label-matrix, of the array with the training rows of each
// label (codec/FORMAT.md). Those before are LCIF's.
const arrayLabelRows = 3

// learned is a segment that has been learned but not yet stored.
type learned struct {
	opts        index.Auto
	dead        int
	chosen      []*trial
	models      []*learnedModel
	parts       []part // of the models
	deep        int
	rows        []uint32 // of each label
	calibration *labels.Calibration
	cut         float32
	trials      []index.AutoTrial
	uses        string
	unfinished  bool
	earlier     []earlier   // of an unfinished build
	scores      *vector.CSR // of these
}

// Describe sets the options and what was measured.
func (l *learned) Describe(m *kind.Manifest) {
	o := l.opts
	m.Options, m.Uses, m.Info.AutoTrials, m.Info.Calibration = &o, l.uses, l.trials, l.calibration
	m.Info.Unfinished = l.unfinished
}

// Emit writes the arrays of the members.
func (l *learned) Emit(w *arrays.Writer, g *kind.Segment) {
	d := &detail{Deep: l.deep, Cut: l.cut, Earlier: l.earlier}
	for i, m := range l.models {
		own := *g
		m.built.Emit(w, &own)
		p := l.parts[i]
		p.Dead, p.own = own.Dead, own.Own
		if m.manifest != nil {
			p.Uses = m.manifest.Uses
		}
		var err error
		if p.Detail, err = json.Marshal(own.Own); err != nil && w.Err == nil {
			w.Err = err
		}
		d.Parts = append(d.Parts, p)
	}
	if l.rows != nil {
		arrays.Field(w.Section(codec.KindLabelMatrix), arrayLabelRows, &l.rows)
	}
	if l.unfinished {
		scoreArrays(w.Section(codec.KindLabelMatrix), l.scores)
	}
	g.Dead, g.Own = l.dead, d
}

// Build learns a model, or a segment of later rows.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	if job.Base != nil {
		return buildSmall(ctx, job)
	}
	t := &tuner{job: job, opts: *job.Given.(*index.Auto)}
	err := job.Latest(func(st kind.Source) error {
		t.sparse, t.vectors = st.Collection().Sparse, st.Collection().Vectors > 0
		return job.Timer.Run("read", func(report func(int, int)) error {
			data, _, err := labelled.Read(ctx, st, job, nil, report)
			if err == nil {
				t.data = &data.LabelledRows
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	if job.Before != nil {
		return t.again(ctx)
	}
	return t.build(ctx)
}

// buildSmall learns a segment of later rows: LCIF's part of it, if the model has one.
func buildSmall(ctx context.Context, job *kind.Job) (kind.Built, error) {
	l := &learned{}
	err := job.Latest(func(st kind.Source) error {
		rows, err := kind.ReadRows(ctx, st)
		if err != nil {
			return err
		}
		n := job.End - job.First
		if l.dead = kind.DeletedWithin(rows.Deleted, job.First, n); l.dead == n {
			return fmt.Errorf("%w: %q", fail.Empty, job.Coll)
		}
		return nil
	})
	base := member(job.Base, lcifindex.Name)
	if err != nil || base.Options == nil {
		return l, err
	}
	own := *job
	own.Base, own.Given = base, base.Options
	built, err := base.Of.Build(ctx, &own)
	if err != nil {
		return nil, err
	}
	l.models, l.parts = []*learnedModel{{kind: base.Of, built: built}}, []part{{Kind: lcifindex.Name}}
	return l, nil
}
