package lcif

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/query"
)

// TuneOptions select what is tuned and over which values. Zero values select the defaults
// stated below.
type TuneOptions struct {
	// Objectives are the measures to choose settings by, each separately; MicroF1 by default.
	Objectives []Objective
	// Variants are the parts of LCIF to tune: Combined by default.
	Variants []Variant
	// The values of the space, ascending. Defaults: k 1, 3, 5, 10, 20, 30, 50, 100, 150, …,
	// 350; α and β 0.5, 1, 1.5, 2; λ 0, 0.1, …, 1; no second order; all features (FeatureShare
	// has the shares s that are kept). Where the best k or α is the first or last of the
	// default values, the search continues beyond it as long as that improves the measure. It
	// does not leave values set by the user.
	Ks                         []int
	Alphas, Betas, Lambdas     []float64
	SecondOrders, FeatureShare []float64
	// Cuts are the ways to derive thresholds, the paper's first; DefaultCuts by default.
	// Precision@k uses only the first and those by label, which change the order of labels.
	Cuts []Cut
	// Search selects how the space is searched.
	Search Search
	// Passes is the maximum number of passes of coordinate descent: 3 by default. The paper
	// runs one.
	Passes int
	// Workers is the number of goroutines; fewer than 1: all processors. The
	// result does not depend on it.
	Workers int
	// Progress, which may be nil, is called with the stage, "neighbours" or, with the best value
	// of the first objective so far, "settings, best 0.46", and its progress; total grows while
	// coordinate descent finds more settings to try.
	Progress func(stage string, done, total int)

	followK, followAlpha bool // continue beyond the ends of the default values
}

// Search selects how the space of settings is searched.
type Search uint8

const (
	// AutoSearch tries the whole grid on small data only.
	AutoSearch Search = iota
	// FullGrid tries all settings.
	FullGrid
	// Coordinates varies one parameter at a time, s, k, α, β, λ, t, and repeats
	// the pass as long as that improves the measure.
	Coordinates
	// PaperProtocol is the search of the paper (section 5.1): one pass over s,
	// k, α, β, λ, t from k = 100, λ = 0.5, α = β = 1, with its values of k (1, 5,
	// 50, 100, …, 350) and its 7 shares of the features, and a single threshold
	// from 21 values in two passes. It takes the values of the other parameters
	// from the options; Cuts and Passes are not read.
	PaperProtocol
)

// DefaultCuts returns the ways to derive thresholds that a tuner tries: the single
// threshold that meets the label cardinality, thresholds by label, and single thresholds that
// aim at fewer or more labels. All keep the best label of a row; allowEmpty adds some that do
// not.
func DefaultCuts(allowEmpty bool) []Cut {
	cuts := []Cut{{Share: 1}, {PerLabel: true, Share: 1}}
	for _, share := range []float64{0.4, 0.6, 0.8, 1.25, 1.5, 2, 2.5, 3, 4} {
		cuts = append(cuts, Cut{Share: share})
	}
	if !allowEmpty {
		return cuts
	}
	for _, share := range []float64{0.2, 0.4, 0.6, 0.8, 1} {
		cuts = append(cuts, Cut{Share: share, NoTop: true})
	}
	return cuts
}

const (
	startK = 100 // where a coordinate search starts, as in the paper
	// gridScores is the maximum number of scores that a grid reads under AutoSearch.
	gridScores = 5e7
	// gridFinalists is the number of best settings of a grid, for each cut that it was measured
	// with, that are tried with all cuts.
	gridFinalists = 3
	// The largest and the smallest α that a search beyond the default values tries.
	mostAlpha, leastAlpha = 8, 1. / 16
)

// PaperFeatureShares returns the shares of the features that the paper tries.
func PaperFeatureShares() []float64 { return []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1} }

// paperKs are the numbers of neighbours that the paper tries.
var paperKs = []int{1, 5, 50, 100, 150, 200, 250, 300, 350}

func (o *TuneOptions) fill() error {
	if len(o.Objectives) == 0 {
		o.Objectives = []Objective{MicroF1}
	}
	if len(o.Variants) == 0 {
		o.Variants = []Variant{Combined}
	}
	defaults := func(p *[]float64, values ...float64) {
		if len(*p) == 0 {
			*p = values
		}
	}
	if o.Search == PaperProtocol {
		if len(o.Ks) == 0 {
			o.Ks = paperKs
		}
		defaults(&o.FeatureShare, PaperFeatureShares()...)
		o.Cuts, o.Passes = []Cut{{Share: 1, Steps: true}}, 1
	} else {
		o.followK, o.followAlpha = len(o.Ks) == 0, len(o.Alphas) == 0
	}
	if len(o.Ks) == 0 {
		o.Ks = []int{1, 3, 5, 10, 20, 30, 50, 100, 150, 200, 250, 300, 350}
	}
	defaults(&o.Alphas, 0.5, 1, 1.5, 2)
	defaults(&o.Betas, 0.5, 1, 1.5, 2)
	defaults(&o.Lambdas, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
	defaults(&o.SecondOrders, 0)
	defaults(&o.FeatureShare, 1)
	if len(o.Cuts) == 0 {
		o.Cuts = DefaultCuts(false)
	}
	if o.Passes < 1 {
		o.Passes = 3
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	return o.check()
}

// check returns an error for values outside their ranges.
func (o *TuneOptions) check() error {
	for _, x := range o.Objectives {
		if int(x) >= len(objectiveNames) {
			return fmt.Errorf("%w: %v", query.ErrParams, x)
		}
	}
	for _, x := range o.Variants {
		if int(x) >= len(variantNames) {
			return fmt.Errorf("%w: %v", query.ErrParams, x)
		}
	}
	if o.Search > PaperProtocol {
		return fmt.Errorf("%w: search %d", query.ErrParams, o.Search)
	}
	inside := func(what string, values []float64, hi float64, open bool) error {
		for _, x := range values {
			if !(x >= 0 && x <= hi) || open && x == 0 {
				return fmt.Errorf("%w: %s %g", query.ErrParams, what, x)
			}
		}
		return nil
	}
	for _, k := range o.Ks {
		if k < 1 {
			return fmt.Errorf("%w: k is %d, want at least 1", query.ErrParams, k)
		}
	}
	for _, c := range o.Cuts {
		if err := c.check(); err != nil {
			return err
		}
	}
	return cmp.Or(
		inside("alpha", o.Alphas, math.MaxFloat64, true),
		inside("beta", o.Betas, math.MaxFloat64, true),
		inside("lambda", o.Lambdas, 1, false),
		inside("second order", o.SecondOrders, 1, false),
		inside("share of features", o.FeatureShare, 1, true),
	)
}

// lcifTuner is one run of Tune.
type lcifTuner struct {
	o        TuneOptions
	trials   *trials
	features int
	curve    *Curve
	memo     map[Setting]int      // index in curve.Points
	measured map[Setting]Measures // not yet on the curve
	best     Measures             // on the curve, by the first objective
	planned  int
}

// Tune chooses the parameters of LCIF on held-out rows (Feremans et al.
// 2020, section 5.1) and returns all that it measured: for each variant and
// objective the best setting with its thresholds.
//
// If more than one share s of features is given, s is chosen first, by the first objective and
// variant with k = 100, λ = 0.5, α = β = 1. Then either the complete grid is measured, or k, α,
// β, λ and the weight of the second order are varied one after the other, repeatedly while that
// improves, from the middle and from the better of the two parts of a combination. This uses
// the first of the cuts; a grid for MacroF1, which often needs many more labels than a row has,
// also uses the cuts that aim at more labels. The best settings with distinct measures are
// measured with all cuts. The best of these is improved further with its own cut: k and α
// beyond the ends of the default values, then one parameter at a time.
//
// k needs no search of its own: neighbors are found once, for the largest k. Of equally good
// settings the first one tried is chosen. The result depends on the data and the options alone,
// not on Workers. See [PaperProtocol] for the search of the paper.
//
// All measures, including macro averages, are over all held-out rows together and over all
// labels of the training rows.
//
// Memory: the neighbors of all held-out rows, and a matrix of scores, rows by labels; several if
// those are small.
//
// Errors: ErrParams for invalid options or data, ErrMethod for a variant that needs parts
// missing from the data, those of the data and of Predict, the context's.
func Tune(ctx context.Context, data Data, o TuneOptions) (*Curve, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &lcifTuner{
		o: o, memo: map[Setting]int{}, measured: map[Setting]Measures{}, curve: &Curve{},
	}
	if err := t.chooseFeatures(ctx, data); err != nil {
		return nil, err
	}
	n, l := t.trials.truth.Rows(), t.trials.truth.Labels()
	t.curve.Rows, t.curve.Labels = n, l
	grid := t.grid()
	t.curve.Grid = o.Search == FullGrid ||
		o.Search == AutoSearch && float64(n)*float64(l)*float64(len(grid)) <= gridScores
	if t.curve.Grid {
		if err := t.tryGrid(ctx, grid); err != nil {
			return nil, err
		}
	}
	for _, v := range o.Variants {
		for _, objective := range o.Objectives {
			if err := t.choose(ctx, v, objective); err != nil {
				return nil, err
			}
		}
	}
	return t.curve, nil
}

// tryGrid measures all settings of a grid with their screening cuts.
func (t *lcifTuner) tryGrid(ctx context.Context, grid []Setting) error {
	cuts := t.screens()
	t.planned = len(t.curve.Points) + len(grid)*len(cuts)
	for some := range slices.Chunk(grid, sweepJobs) {
		var settings []Setting
		for _, s := range some {
			for _, s.Cut = range cuts {
				settings = append(settings, s)
			}
		}
		if err := t.tryAll(ctx, settings); err != nil {
			return err
		}
	}
	return nil
}

// screens returns the cuts that a grid is measured with: the first and, if macro F1 is an
// objective, the middle and the last of the single thresholds that aim at more labels.
func (t *lcifTuner) screens() []Cut {
	out := t.o.Cuts[:1:1]
	if !slices.Contains(t.o.Objectives, MacroF1) {
		return out
	}
	var more []Cut
	for _, c := range t.o.Cuts[1:] {
		if !c.PerLabel && c.NoTop == out[0].NoTop && c.Share > out[0].Share {
			more = append(more, c)
		}
	}
	slices.SortFunc(more, func(a, b Cut) int { return cmp.Compare(a.Share, b.Share) })
	if n := len(more); n > 0 {
		out = append(out, more[(n-1)/2])
		if n > 1 {
			out = append(out, more[n-1])
		}
	}
	return out
}

// start returns the first setting of coordinate descent.
func (t *lcifTuner) start(v Variant) Setting {
	s := Setting{Features: t.features, K: min(startK, slices.Max(t.o.Ks)), Alpha: 1, Beta: 1,
		Lambda: 0.5, Cut: t.o.Cuts[0]}
	switch v {
	case InstanceOnly:
		s.Lambda = 1
	case FeatureOnly:
		s.Lambda = 0
	}
	return s
}

// chooseFeatures chooses s, and leaves the trials with that number of features.
func (t *lcifTuner) chooseFeatures(ctx context.Context, data Data) error {
	all := 0
	var best *Point
	load := func(features int) error {
		held, err := data(ctx, features)
		if err != nil {
			return err
		}
		t.features = features
		if t.trials, err = newTrials(held, t.o.Workers); err != nil {
			return err
		}
		all = held.Parts[0].View.Features
		return nil
	}
	shares := slices.Clone(t.o.FeatureShare)
	if len(shares) == 1 && shares[0] == 1 {
		return load(0)
	}
	// All features first: this determines their number.
	if err := load(0); err != nil {
		return err
	}
	slices.Sort(shares)
	slices.Reverse(shares)
	for _, share := range shares {
		features := 0
		if share < 1 {
			features = max(1, int(math.Round(share*float64(all))))
		}
		if features != t.features {
			if err := load(features); err != nil {
				return err
			}
		}
		p, err := t.try(ctx, t.start(t.o.Variants[0]))
		if err != nil {
			return err
		}
		if best == nil || p.Better(&best.Measures, t.o.Objectives[0]) {
			best = &p
		}
	}
	if best.Features != t.features {
		return load(best.Features)
	}
	return nil
}

// lambdas returns the values of λ of a variant.
func (t *lcifTuner) lambdas(v Variant) []float64 {
	switch v {
	case InstanceOnly:
		return []float64{1}
	case FeatureOnly:
		return []float64{0}
	}
	return t.o.Lambdas
}

// grid returns all settings of all variants, in the order that reuses most scores.
func (t *lcifTuner) grid() []Setting {
	var out []Setting
	seen := map[Setting]bool{}
	add := func(s Setting) {
		s.Features, s.Cut = t.features, t.o.Cuts[0]
		if s = s.canonical(); !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	for _, k := range t.o.Ks {
		for _, alpha := range t.o.Alphas {
			for _, second := range t.o.SecondOrders {
				for _, beta := range t.o.Betas {
					for _, v := range t.o.Variants {
						for _, lambda := range t.lambdas(v) {
							add(Setting{K: k, Alpha: alpha, Beta: beta, Lambda: lambda,
								SecondOrder: second})
						}
					}
				}
			}
		}
	}
	return out
}

// progress reports the neighbours of a stage. They are searched once, for the largest k.
func (t *lcifTuner) progress(done, total int) { t.o.Progress("neighbours", done, total) }

// try measures a setting with its own cut, unless it was measured before.
func (t *lcifTuner) try(ctx context.Context, s Setting) (Point, error) {
	s = s.canonical()
	if i, ok := t.memo[s]; ok {
		return t.curve.Points[i], nil
	}
	if err := t.ahead(ctx, []Setting{s}); err != nil {
		return Point{}, err
	}
	return t.note(s, t.measured[s]), nil
}

// tryAll is try for each of the settings.
func (t *lcifTuner) tryAll(ctx context.Context, settings []Setting) error {
	if err := t.ahead(ctx, settings); err != nil {
		return err
	}
	for _, s := range settings {
		if _, err := t.try(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// ahead measures settings that will be tried; settings that share work are measured together.
func (t *lcifTuner) ahead(ctx context.Context, settings []Setting) error {
	var fresh []Setting
	deep := 0
	seen := map[Setting]bool{}
	for _, s := range settings {
		s = s.canonical()
		_, tried := t.memo[s]
		_, measured := t.measured[s]
		if !tried && !measured && !seen[s] {
			seen[s] = true
			fresh = append(fresh, s)
			deep = max(deep, s.K)
		}
	}
	if deep > 0 {
		// Neighbors are searched once, for the largest k.
		if err := t.trials.neighbors(ctx, max(deep, slices.Max(t.o.Ks)), t.progress); err != nil {
			return err
		}
	}
	found, err := t.trials.measureAll(ctx, fresh, t.progress)
	if err != nil {
		return err
	}
	for i, m := range found {
		t.measured[fresh[i]] = m
	}
	return nil
}

// note appends a measured setting to the curve.
func (t *lcifTuner) note(s Setting, m Measures) Point {
	p := Point{s, m}
	if _, ok := t.memo[s]; !ok {
		t.memo[s] = len(t.curve.Points)
		t.curve.Points = append(t.curve.Points, p)
	}
	delete(t.measured, s)
	if len(t.curve.Points) == 1 || m.Better(&t.best, t.o.Objectives[0]) {
		t.best = m
	}
	t.o.Progress(fmt.Sprintf("settings, best %.3g", t.best.Of(t.o.Objectives[0])),
		len(t.curve.Points), max(t.planned, len(t.curve.Points)))
	return p
}
