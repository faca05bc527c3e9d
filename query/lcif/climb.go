package lcif

import (
	"context"
	"math"
	"slices"
)

// choose finds the best setting of a variant by an objective, and its thresholds.
func (t *lcifTuner) choose(ctx context.Context, v Variant, objective Objective) error {
	starts := t.finalists(v, objective)
	if !t.curve.Grid {
		at, err := t.coordinateSearches(ctx, v, objective)
		if err != nil {
			return err
		}
		starts = []Setting{at}
	}
	var best Point
	for i, s := range starts {
		p, err := t.bestCut(ctx, s, objective)
		if err != nil {
			return err
		}
		if i == 0 || p.Better(&best.Measures, objective) {
			best = p
		}
	}
	best, err := t.refine(ctx, v, objective, best)
	if err != nil {
		return err
	}
	s := best.Setting
	_, thresholds, err := t.trials.measure(ctx, s, []Cut{s.Cut}, t.progress)
	if err != nil {
		return err
	}
	t.curve.Choices = append(t.curve.Choices, Choice{
		Objective: objective, Variant: v, Point: best, Params: Params{
			K: s.K, Alpha: s.Alpha, Beta: s.Beta, Lambda: s.Lambda, SecondOrder: s.SecondOrder,
			Features: s.Features, Thresholds: thresholds[0],
		},
	})
	return nil
}

// bestCut measures a setting with all cuts and returns the best.
func (t *lcifTuner) bestCut(ctx context.Context, s Setting,
	objective Objective) (Point, error) {
	cuts := t.o.Cuts
	if objective >= PrecisionAt1 {
		// Only thresholds by label change the order of labels.
		cuts = slices.DeleteFunc(slices.Clone(cuts), func(c Cut) bool { return c != t.o.Cuts[0] && !c.PerLabel })
	}
	settings := make([]Setting, len(cuts))
	for i, c := range cuts {
		settings[i] = s
		settings[i].Cut = c
	}
	if err := t.ahead(ctx, settings); err != nil {
		return Point{}, err
	}
	var best Point
	for i, s := range settings {
		p, err := t.try(ctx, s)
		if err != nil {
			return p, err
		}
		if i == 0 || p.Better(&best.Measures, objective) {
			best = p
		}
	}
	return best, nil
}

// refine improves a setting with its own cut: beyond the ends of the default values, then by
// coordinate descent, then with all cuts again.
func (t *lcifTuner) refine(ctx context.Context, v Variant, objective Objective,
	best Point) (Point, error) {
	if t.o.Search == PaperProtocol {
		return best, nil
	}
	for range t.o.Passes {
		at, err := t.follow(ctx, objective, t.freed(best.Setting))
		if err != nil {
			return best, err
		}
		if at, _, err = t.coordinateSearch(ctx, v, objective, at); err != nil {
			return best, err
		}
		p, err := t.bestCut(ctx, at, objective)
		if err != nil {
			return best, err
		}
		if !p.Better(&best.Measures, objective) {
			break
		}
		best = p
	}
	return best, nil
}

// freed returns a setting with the start values in place of its irrelevant numbers, which
// become relevant with another λ or k.
func (t *lcifTuner) freed(s Setting) Setting {
	start := t.start(Combined)
	if s.K == 0 {
		s.K = start.K
	}
	if s.Alpha == 0 {
		s.Alpha = start.Alpha
	}
	if s.Beta == 0 {
		s.Beta = start.Beta
	}
	return s
}

// follow moves k, then α, beyond the ends of the default values as long as that improves the
// measure.
func (t *lcifTuner) follow(ctx context.Context, objective Objective,
	at Setting) (Setting, error) {
	best, err := t.try(ctx, at)
	if err != nil {
		return at, err
	}
	for _, next := range []func(Setting) Setting{t.moreK, t.moreAlpha, t.lessAlpha} {
		for {
			s := next(at)
			if s == at {
				break
			}
			p, err := t.try(ctx, s)
			if err != nil {
				return at, err
			}
			if !p.Better(&best.Measures, objective) {
				break
			}
			at, best = s, p
		}
	}
	return at, nil
}

// moreK returns the setting with 1.5 times as many neighbors, if its k is at the end of the
// default values; otherwise, and beyond the number of rows, it returns the setting itself.
func (t *lcifTuner) moreK(s Setting) Setting {
	if !t.o.followK || s.Lambda == 0 || s.K < slices.Max(t.o.Ks) {
		return s
	}
	rows := 0
	for _, p := range t.trials.data.Parts {
		rows = max(rows, p.View.Labels.Rows())
	}
	if k := s.K + s.K/2; k <= rows {
		s.K = k
	}
	return s
}

// moreAlpha returns the setting with a larger α, if its own is at the upper end of the default
// values.
func (t *lcifTuner) moreAlpha(s Setting) Setting {
	if t.o.followAlpha && s.Lambda > 0 && s.Alpha >= slices.Max(t.o.Alphas) {
		s.Alpha = math.Min(s.Alpha+0.5, mostAlpha)
	}
	return s
}

// lessAlpha returns the setting with a smaller α, if its own is at the lower end.
func (t *lcifTuner) lessAlpha(s Setting) Setting {
	if t.o.followAlpha && s.Lambda > 0 && s.Alpha <= slices.Min(t.o.Alphas) {
		s.Alpha = math.Max(s.Alpha/2, leastAlpha)
	}
	return s
}

// finalists returns the few best settings of a variant on the grid, for each cut that it was
// measured with. Of settings with equal measures, which are the same model or equivalent, it
// returns only the first.
func (t *lcifTuner) finalists(v Variant, objective Objective) []Setting {
	if !t.curve.Grid {
		return nil
	}
	var out []Setting
	for _, c := range t.screens() {
		var points []Point
		for _, p := range t.curve.Points {
			if p.Features == t.features && p.Cut == c && slices.Contains(t.lambdas(v), p.Lambda) {
				points = append(points, p)
			}
		}
		slices.SortStableFunc(points, func(a, b Point) int {
			switch {
			case a.Better(&b.Measures, objective):
				return -1
			case b.Better(&a.Measures, objective):
				return 1
			}
			return 0
		})
		var taken []Measures
		for _, p := range points {
			if len(taken) == gridFinalists {
				break
			}
			if slices.Contains(taken, p.Measures) {
				continue
			}
			taken = append(taken, p.Measures)
			if p.Cut = t.o.Cuts[0]; !slices.Contains(out, p.Setting) {
				out = append(out, p.Setting)
			}
		}
	}
	return out
}

// coordinateSearches runs coordinate descent for a variant. For the combination it starts from the middle
// and from the better of its two parts, so that the combination is never worse than either.
func (t *lcifTuner) coordinateSearches(ctx context.Context, v Variant,
	objective Objective) (Setting, error) {
	at, best, err := t.coordinateSearch(ctx, v, objective, t.start(v))
	if err != nil || v != Combined || t.o.Search == PaperProtocol {
		return at, err
	}
	from, found := at, best
	for _, part := range []Variant{InstanceOnly, FeatureOnly} {
		if !slices.Contains(t.o.Lambdas, t.lambdas(part)[0]) {
			continue
		}
		s, p, err := t.coordinateSearch(ctx, part, objective, t.start(part))
		if err != nil {
			return at, err
		}
		if p.Better(&found.Measures, objective) {
			from, found = s, p
		}
	}
	if from == at {
		return at, nil
	}
	at, _, err = t.coordinateSearch(ctx, v, objective, from)
	return at, err
}

// coordinateSearch runs coordinate descent from a setting.
func (t *lcifTuner) coordinateSearch(ctx context.Context, v Variant, objective Objective,
	at Setting) (Setting, Point, error) {
	// at keeps numbers that are irrelevant now, since another λ may make them relevant.
	best, err := t.try(ctx, at)
	if err != nil {
		return at, best, err
	}
	var values []Setting
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
				if p.Better(&best.Measures, objective) {
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

// coordinates returns functions that vary a setting in one parameter each.
func (t *lcifTuner) coordinates(v Variant) []func(Setting, []Setting) []Setting {
	along := func(values []float64, field func(*Setting) *float64) func(Setting,
		[]Setting) []Setting {
		return func(s Setting, out []Setting) []Setting {
			for _, x := range values {
				*field(&s) = x
				out = append(out, s)
			}
			return out
		}
	}
	return []func(Setting, []Setting) []Setting{
		func(s Setting, out []Setting) []Setting {
			for _, k := range t.o.Ks {
				s.K = k
				out = append(out, s)
			}
			return out
		},
		along(t.o.Alphas, func(s *Setting) *float64 { return &s.Alpha }),
		along(t.o.Betas, func(s *Setting) *float64 { return &s.Beta }),
		along(t.lambdas(v), func(s *Setting) *float64 { return &s.Lambda }),
		along(t.o.SecondOrders, func(s *Setting) *float64 { return &s.SecondOrder }),
	}
}
