package query

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
)

// LCIFTuneOptions say what is tuned and over which values. Zero values stand
// for the defaults named.
type LCIFTuneOptions struct {
	// Objectives are the measures to choose settings by, each on its own:
	// MicroF1 by default.
	Objectives []LCIFObjective
	// Variants are the parts of LCIF to tune: Combined by default.
	Variants []LCIFVariant
	// The values of the space, ascending. Defaults: k 1, 3, 5, 10, 20, 30, 50,
	// 100, 150, …, 350; α and β 0.5, 1, 1.5, 2; λ 0, 0.1, …, 1; no second
	// order; all features (FeatureShare has the shares s that are kept).
	Ks                         []int
	Alphas, Betas, Lambdas     []float64
	SecondOrders, FeatureShare []float64
	// Cuts are the ways to make thresholds, the paper's first: the single
	// threshold that meets the label cardinality, then others that aim at more
	// or fewer labels, thresholds by label, and such without the rule for the
	// best label. The first is the one that all other parameters are tuned
	// with, and the only one for precision@k.
	Cuts []LCIFCut
	// Search says whether the whole grid is tried.
	Search LCIFSearch
	// Passes is how often the coordinate search goes round at most: 3. The
	// paper goes once.
	Passes int
	// Workers is the number of goroutines; fewer than 1: all processors. The
	// answer does not depend on it.
	Workers int
	// Progress, which may be nil, is told the stage, "neighbours" or
	// "settings", and how far it is; total grows while a coordinate search
	// finds more to try.
	Progress func(stage string, done, total int)
}

// LCIFSearch is how the space of settings is searched.
type LCIFSearch uint8

const (
	// AutoSearch tries the whole grid on small data only.
	AutoSearch LCIFSearch = iota
	// FullGrid tries all settings.
	FullGrid
	// Coordinates goes from parameter to parameter, s, k, α, β, λ, t, and
	// round again as long as that helps.
	Coordinates
)

// DefaultLCIFCuts are the ways to make thresholds that a tuner tries.
func DefaultLCIFCuts() []LCIFCut {
	cuts := []LCIFCut{{Share: 1}, {PerLabel: true, Share: 1}}
	for _, share := range []float64{0.4, 0.6, 0.8, 1.25, 1.5, 2} {
		cuts = append(cuts, LCIFCut{Share: share})
	}
	for _, share := range []float64{0.2, 0.4, 0.6, 0.8, 1} {
		cuts = append(cuts, LCIFCut{Share: share, NoTop: true})
	}
	return cuts
}

const (
	startK = 100 // where a coordinate search starts, as in the paper
	// gridScores is how many scores a grid may look at under AutoSearch.
	gridScores = 5e8
	// gridFinalists are the best settings of a grid that all cuts are tried on.
	gridFinalists = 3
)

func (o *LCIFTuneOptions) fill() error {
	if len(o.Objectives) == 0 {
		o.Objectives = []LCIFObjective{MicroF1}
	}
	if len(o.Variants) == 0 {
		o.Variants = []LCIFVariant{Combined}
	}
	if len(o.Ks) == 0 {
		o.Ks = []int{1, 3, 5, 10, 20, 30, 50, 100, 150, 200, 250, 300, 350}
	}
	defaults := func(p *[]float64, values ...float64) {
		if len(*p) == 0 {
			*p = values
		}
	}
	defaults(&o.Alphas, 0.5, 1, 1.5, 2)
	defaults(&o.Betas, 0.5, 1, 1.5, 2)
	defaults(&o.Lambdas, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
	defaults(&o.SecondOrders, 0)
	defaults(&o.FeatureShare, 1)
	if len(o.Cuts) == 0 {
		o.Cuts = DefaultLCIFCuts()
	}
	if o.Passes < 1 {
		o.Passes = 3
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	for _, x := range o.Objectives {
		if int(x) >= len(objectiveNames) {
			return fmt.Errorf("%w: %v", ErrParams, x)
		}
	}
	for _, x := range o.Variants {
		if int(x) >= len(variantNames) {
			return fmt.Errorf("%w: %v", ErrParams, x)
		}
	}
	if o.Search > Coordinates {
		return fmt.Errorf("%w: search %d", ErrParams, o.Search)
	}
	inside := func(what string, values []float64, lo, hi float64, open bool) error {
		for _, x := range values {
			if !(x >= lo && x <= hi) || open && x == lo {
				return fmt.Errorf("%w: %s %g", ErrParams, what, x)
			}
		}
		return nil
	}
	for _, k := range o.Ks {
		if k < 1 {
			return fmt.Errorf("%w: k is %d, want at least 1", ErrParams, k)
		}
	}
	for _, c := range o.Cuts {
		if err := inside("share of labels", []float64{c.Share}, 0, math.MaxFloat64, true); err != nil {
			return err
		}
	}
	return cmp.Or(
		inside("alpha", o.Alphas, 0, math.MaxFloat64, true),
		inside("beta", o.Betas, 0, math.MaxFloat64, true),
		inside("lambda", o.Lambdas, 0, 1, false),
		inside("second order", o.SecondOrders, 0, 1, false),
		inside("share of features", o.FeatureShare, 0, 1, true),
	)
}

// lcifTuner is one run of TuneLCIF.
type lcifTuner struct {
	o        LCIFTuneOptions
	trials   *trials
	features int
	curve    *LCIFCurve
	memo     map[LCIFSetting]int          // place in curve.Points
	measured map[LCIFSetting]LCIFMeasures // ahead of being tried
	final    map[LCIFSetting]cutResults
	planned  int
}

// cutResults is what all cuts come to with one setting.
type cutResults struct {
	measures   []LCIFMeasures
	thresholds []*labels.Thresholds
}

// TuneLCIF chooses the parameters of LCIF on held-out rows (Feremans et al.
// 2020, section 5.1) and returns all that it measured: for each variant and
// objective the best setting with its thresholds.
//
// First, if more than one share s of features is given, s, by the first
// objective and variant with k = 100, λ = 0.5, α = β = 1. Then either the whole
// grid, or k, α, β, λ and the weight of the second order, one after the other,
// and round again while that improves; each with the first of the cuts. Last
// the thresholds. k costs no search of its own: neighbours are found once, for
// the largest k. The combination is searched twice, from the middle and from
// the better of its two parts. Of equally good settings the first one tried is chosen. The
// result depends on the data and the options alone, not on Workers.
//
// Memory: the neighbours of all held-out rows, and two matrices of scores, rows
// by labels as far as they are above zero; more where those are small.
//
// Errors: ErrParams for options or data that mean nothing, ErrMethod for a
// variant that the data has nothing for, those of the data and of Predict, the
// context's.
func TuneLCIF(ctx context.Context, data LCIFData, o LCIFTuneOptions) (*LCIFCurve, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	t := &lcifTuner{o: o, memo: map[LCIFSetting]int{}, measured: map[LCIFSetting]LCIFMeasures{}, final: map[LCIFSetting]cutResults{}, curve: &LCIFCurve{}}
	if err := t.chooseFeatures(ctx, data); err != nil {
		return nil, err
	}
	n, l := t.trials.truth.Rows(), t.trials.truth.Labels()
	t.curve.Rows, t.curve.Labels = n, l
	grid := t.grid()
	t.curve.Grid = o.Search == FullGrid || o.Search == AutoSearch && float64(n)*float64(l)*float64(len(grid)) <= gridScores
	if t.curve.Grid {
		t.planned = len(t.curve.Points) + len(grid)
		for some := range slices.Chunk(grid, sweepJobs) {
			if err := t.tryAll(ctx, some); err != nil {
				return nil, err
			}
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

// start is where a coordinate search begins.
func (t *lcifTuner) start(v LCIFVariant) LCIFSetting {
	s := LCIFSetting{Features: t.features, K: min(startK, slices.Max(t.o.Ks)), Alpha: 1, Beta: 1, Lambda: 0.5, Cut: t.o.Cuts[0]}
	switch v {
	case InstanceOnly:
		s.Lambda = 1
	case FeatureOnly:
		s.Lambda = 0
	}
	return s
}

// chooseFeatures finds s, and leaves the trials with that many features.
func (t *lcifTuner) chooseFeatures(ctx context.Context, data LCIFData) error {
	all := 0
	var best *LCIFPoint
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
	// All features first: that tells how many there are.
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
		if best == nil || p.better(&best.LCIFMeasures, t.o.Objectives[0]) {
			best = &p
		}
	}
	if best.Features != t.features {
		return load(best.Features)
	}
	return nil
}

// lambdas are the values of λ of a variant.
func (t *lcifTuner) lambdas(v LCIFVariant) []float64 {
	switch v {
	case InstanceOnly:
		return []float64{1}
	case FeatureOnly:
		return []float64{0}
	}
	return t.o.Lambdas
}

// grid is all settings of all variants, in the order that reuses most scores.
func (t *lcifTuner) grid() []LCIFSetting {
	var out []LCIFSetting
	seen := map[LCIFSetting]bool{}
	add := func(s LCIFSetting) {
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
							add(LCIFSetting{K: k, Alpha: alpha, Beta: beta, Lambda: lambda, SecondOrder: second})
						}
					}
				}
			}
		}
	}
	return out
}

// progress reports the neighbours of a stage. They are searched for the largest
// k at once.
func (t *lcifTuner) progress(done, total int) { t.o.Progress("neighbours", done, total) }

// try measures a setting with its own cut, unless it has been.
func (t *lcifTuner) try(ctx context.Context, s LCIFSetting) (LCIFPoint, error) {
	s = s.canonical()
	if i, ok := t.memo[s]; ok {
		return t.curve.Points[i], nil
	}
	if err := t.ahead(ctx, []LCIFSetting{s}); err != nil {
		return LCIFPoint{}, err
	}
	return t.note(s, t.measured[s]), nil
}

// tryAll is try for each of the settings.
func (t *lcifTuner) tryAll(ctx context.Context, settings []LCIFSetting) error {
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

// ahead measures settings that will be tried, as many together as share work.
func (t *lcifTuner) ahead(ctx context.Context, settings []LCIFSetting) error {
	var fresh []LCIFSetting
	deep := 0
	for _, s := range settings {
		s = s.canonical()
		_, tried := t.memo[s]
		_, measured := t.measured[s]
		if !tried && !measured && !slices.Contains(fresh, s) {
			fresh = append(fresh, s)
			deep = max(deep, s.K)
		}
	}
	if deep > 0 {
		// Neighbours are searched for the largest k at once.
		if err := t.trials.neighbors(ctx, slices.Max(t.o.Ks), t.progress); err != nil {
			return err
		}
	}
	found, err := t.trials.measureAll(ctx, fresh, t.progress)
	for i, m := range found {
		t.measured[fresh[i]] = m
	}
	return err
}

// note puts a measured setting on the curve.
func (t *lcifTuner) note(s LCIFSetting, m LCIFMeasures) LCIFPoint {
	p := LCIFPoint{s, m}
	if _, ok := t.memo[s]; !ok {
		t.memo[s] = len(t.curve.Points)
		t.curve.Points = append(t.curve.Points, p)
	}
	delete(t.measured, s)
	t.o.Progress("settings", len(t.curve.Points), max(t.planned, len(t.curve.Points)))
	return p
}

// choose finds the best setting of a variant by an objective and its
// thresholds.
func (t *lcifTuner) choose(ctx context.Context, v LCIFVariant, objective LCIFObjective) error {
	finalists := t.best(v, objective)
	if !t.curve.Grid {
		at, err := t.climbs(ctx, v, objective)
		if err != nil {
			return err
		}
		finalists = []LCIFSetting{at.canonical()}
	}
	var choice *LCIFChoice
	for _, s := range finalists {
		cuts := t.o.Cuts
		if objective >= PrecisionAt1 {
			cuts = cuts[:1] // a ranking knows no thresholds
		}
		r := t.final[s]
		if len(r.measures) < len(cuts) {
			var err error
			if r.measures, r.thresholds, err = t.trials.measure(ctx, s, cuts, t.progress); err != nil {
				return err
			}
			t.final[s] = r
		}
		for i, c := range cuts {
			s.Cut = c
			p := t.note(s, r.measures[i])
			if choice != nil && !p.better(&choice.Point.LCIFMeasures, objective) {
				continue
			}
			choice = &LCIFChoice{Objective: objective, Variant: v, Point: p, Params: LCIFParams{
				K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder,
				Features: s.Features, Thresholds: r.thresholds[i],
			}}
		}
	}
	t.curve.Choices = append(t.curve.Choices, *choice)
	return nil
}

// best is the few best settings of a variant so far.
func (t *lcifTuner) best(v LCIFVariant, objective LCIFObjective) []LCIFSetting {
	var points []LCIFPoint
	for _, p := range t.curve.Points {
		if p.Features == t.features && p.Cut == t.o.Cuts[0] && slices.Contains(t.lambdas(v), p.Lambda) {
			points = append(points, p)
		}
	}
	slices.SortStableFunc(points, func(a, b LCIFPoint) int {
		switch {
		case a.better(&b.LCIFMeasures, objective):
			return -1
		case b.better(&a.LCIFMeasures, objective):
			return 1
		}
		return 0
	})
	var out []LCIFSetting
	for _, p := range points[:min(len(points), gridFinalists)] {
		out = append(out, p.LCIFSetting)
	}
	return out
}

// climbs is the coordinate search for a variant. The combination is searched
// from the middle and from the better of its two parts, so that it is never
// worse than either.
func (t *lcifTuner) climbs(ctx context.Context, v LCIFVariant, objective LCIFObjective) (LCIFSetting, error) {
	at, best, err := t.climb(ctx, v, objective, t.start(v))
	if err != nil || v != Combined {
		return at, err
	}
	from, found := at, best
	for _, part := range []LCIFVariant{InstanceOnly, FeatureOnly} {
		if !slices.Contains(t.o.Lambdas, t.lambdas(part)[0]) {
			continue
		}
		s, p, err := t.climb(ctx, part, objective, t.start(part))
		if err != nil {
			return at, err
		}
		if p.better(&found.LCIFMeasures, objective) {
			from, found = s, p
		}
	}
	if from == at {
		return at, nil
	}
	at, _, err = t.climb(ctx, v, objective, from)
	return at, err
}

// climb is the coordinate search from a setting.
func (t *lcifTuner) climb(ctx context.Context, v LCIFVariant, objective LCIFObjective, at LCIFSetting) (LCIFSetting, LCIFPoint, error) {
	// at keeps numbers that do not matter where it is, since they do where λ
	// may lead next.
	best, err := t.try(ctx, at)
	if err != nil {
		return at, best, err
	}
	var values []LCIFSetting
	for range t.o.Passes {
		before := at
		for _, coordinate := range t.coordinates(v) {
			values = coordinate(at, values[:0])
			t.planned = len(t.curve.Points) + len(values)
			if err := t.ahead(ctx, values); err != nil {
				return at, best, err
			}
			for _, s := range values {
				p, err := t.try(ctx, s)
				if err != nil {
					return at, best, err
				}
				if p.better(&best.LCIFMeasures, objective) {
					at, best = s, p
				}
			}
		}
		if at == before {
			break
		}
	}
	return at, best, nil
}

// coordinates vary a setting in one parameter each.
func (t *lcifTuner) coordinates(v LCIFVariant) []func(LCIFSetting, []LCIFSetting) []LCIFSetting {
	along := func(values []float64, field func(*LCIFSetting) *float64) func(LCIFSetting, []LCIFSetting) []LCIFSetting {
		return func(s LCIFSetting, out []LCIFSetting) []LCIFSetting {
			for _, x := range values {
				*field(&s) = x
				out = append(out, s)
			}
			return out
		}
	}
	return []func(LCIFSetting, []LCIFSetting) []LCIFSetting{
		func(s LCIFSetting, out []LCIFSetting) []LCIFSetting {
			for _, k := range t.o.Ks {
				s.K = k
				out = append(out, s)
			}
			return out
		},
		along(t.o.Alphas, func(s *LCIFSetting) *float64 { return &s.Alpha }),
		along(t.o.Betas, func(s *LCIFSetting) *float64 { return &s.Beta }),
		along(t.lambdas(v), func(s *LCIFSetting) *float64 { return &s.Lambda }),
		along(t.o.SecondOrders, func(s *LCIFSetting) *float64 { return &s.SecondOrder }),
	}
}
