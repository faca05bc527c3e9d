// Package lcifindex is the kind of index that predicts labels from nearest rows and from features
// (package query/lcif), over sparse and dense collections.
package lcifindex

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
)

// Name is the kind of label models by LCIF.
const Name = "lcif"

// The values of index.LCIF.Neighbors in collections with features; empty is byText.
const (
	byText   = "text"
	byVector = "vector"
	byBoth   = "both"
)

// options are the resolved options of a build.
type options struct {
	index.LCIF
	labels []string // of Params.Thresholds.PerLabel if the model is rebuilt
	// uses is the index that finds neighbors by vectors, empty if none are; cv has what compares them next to
	// features.
	uses string
	cv   lcif.CVOptions
	// calibrate selects sets by probability, or keeps those that the user has given thresholds or a cut for. It
	// is nil for a model without a calibration.
	calibrate *labels.CalibrateOptions
}

// resolve fills in the defaults for so many rows. A rebuild takes what the tuner chose: the
// parameters, whose thresholds are by label, the weighting and the index that finds neighbors.
func resolve(job *kind.Job, live int) (o options, err error) {
	o.LCIF = *job.Given.(*index.LCIF)
	if job.Data == nil { // a model of several kinds is calibrated as a whole
		sets := lcif.SetsBy(o.Objective, live, o.AllowEmpty)
		sets.OwnSets = o.Paper || o.Cut != nil || o.Params != nil && o.Params.Thresholds != nil
		o.calibrate = &sets
	}
	if job.Before != nil {
		kept := optionsOf(job.Before)
		o.Params, o.Weight, o.labels, o.uses = kept.Params, kept.Weight, job.Labels, job.Before.Uses
		o.Cut = nil
	}
	o.Folds = max(2, min(cmp.Or(o.Folds, 10), live))
	o.TuneRows = cmp.Or(o.TuneRows, 10_000)
	if live < 2 && (o.Params == nil || o.Cut != nil) {
		return o, fmt.Errorf("%w: parameters are chosen by cross-validation: want 2 rows or more, not %d",
			fail.ErrUnsuitable, live)
	}
	if c := o.Cut; c != nil {
		own := *c
		own.NoTop = own.NoTop || o.AllowEmpty
		if !own.PerLabel {
			own.Share = cmp.Or(own.Share, 1)
		}
		o.Cut = &own
	}
	if o.Neighbors == byBoth {
		o.VectorWeight = cmp.Or(o.VectorWeight, defaultVectorWeight)
	}
	if o.Weight == "" && (o.Params != nil || o.Paper) {
		o.Weight = labelled.WeightNone
	}
	return o, nil
}

// defaultVectorWeight gives both parts the same say.
const defaultVectorWeight = 0.5

// detail is the part of a segment that only label models have. The parameters of a model are in the
// options.
type detail struct {
	Features int
	// Labels is the number of labels that no earlier segment has. Labels are numbered in the order of the
	// segments.
	Labels int
	// Scale standardizes the columns of a dense collection, if set.
	Scale *lcif.Scaling `json:",omitempty"`
	// Index is the inverted index of sparse rows, nil for dense ones.
	Index *postingsindex.Scalars `json:",omitempty"`
}

// largeOf returns the detail of the first segment, whose names, scale and parameters hold for all.
func largeOf(m *kind.Manifest) *detail { return m.Segments[0].Own.(*detail) }

// paramsOf returns the parameters of a label model.
func paramsOf(m *kind.Manifest) *lcif.Params { return optionsOf(m).Params }

// optionsOf returns the resolved options in the manifest of a label model.
func optionsOf(m *kind.Manifest) *index.LCIF { return m.Options.(*index.LCIF) }

// Check refuses values that no build writes.
func (l *detail) Check(m *kind.Manifest, g *kind.Segment) error {
	p, large := paramsOf(m), g.First == 0
	switch {
	case p == nil || l.Labels < 0 || large && l.Labels < 1 || int64(l.Labels) > math.MaxUint32:
		return errors.New("label model")
	case l.Features < 0 || l.Features > m.Dim ||
		l.Index == nil && (l.Features != m.Dim || m.Dim < 1 || m.Dim > kind.MaxDim):
		return errors.New("features")
	}
	if l.Index != nil {
		if err := l.Index.Check(m, g); err != nil {
			return err
		}
		if l.Index.Cols > l.Features {
			return errors.New("features of the inverted index")
		}
	}
	if !large {
		return nil
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
	return nil
}

// Kind implements label models over sparse and dense collections.
type Kind struct{}

// Traits implements kind.Kind.
func (Kind) Traits() kind.Traits {
	return kind.Traits{Dense: true, Sparse: true, Predicts: true, Composes: true, Options: (*index.LCIF)(nil)}
}

// Detail implements kind.Kind.
func (Kind) Detail() kind.Detail { return &detail{} }
