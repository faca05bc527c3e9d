package db

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

func init() {
	grouped.Search = func(
		ctx context.Context, of, query, options any, ask *grouped.Ask, result any,
	) (found []grouped.Found, err error) {
		o, res := options.(*SearchOptions), result.(*Result)
		err = of.(Collection).read(ctx, func(st *state.Collection) error {
			passing, err := passingRows(ctx, st, o.Where)
			if err != nil {
				return err
			}
			a := &rowAsk{q: query.(Query), k: o.K, passing: passing, group: ask, sampled: ask.Stored}
			return a.inGroup(ctx, st, o, func(s *kind.Search) (err error) {
				found, err = a.searchGrouped(ctx, st, o, s, res)
				return err
			})
		})
		return found, err
	}
	grouped.CountTerms = func(
		ctx context.Context, of, query any, ask *grouped.Ask,
	) (out grouped.Terms, err error) {
		err = of.(Collection).read(ctx, func(st *state.Collection) error {
			a := &rowAsk{q: query.(Query), group: ask}
			return a.inGroup(ctx, st, &defaultSearch, func(s *kind.Search) (err error) {
				out, err = a.countTerms(ctx, st, s)
				return err
			})
		})
		return out, err
	}
	grouped.OpenModel = func(ctx context.Context, of any, name string) (out grouped.Model, err error) {
		err = of.(Collection).read(ctx, func(st *state.Collection) error {
			x, err := labelModel(ctx, st, name)
			if err == nil {
				out, err = groupModel(x)
			}
			return err
		})
		return out, err
	}
	grouped.Predict = func(ctx context.Context, of, query, options any, ask *grouped.Ask, out any) error {
		o := options.(*PredictOptions)
		return of.(Collection).read(ctx, func(st *state.Collection) error {
			rows, err := decidedRows(ctx, st, o.Where)
			if err == nil {
				*out.(*Predictions), err = predictLabels(ctx, st, rowAsk{q: query.(Query), group: ask}, o, rows)
			}
			return err
		})
	}
	grouped.FindEvidence = func(
		ctx context.Context, of, query, options any, ask *grouped.Ask,
	) (out grouped.Evidence, err error) {
		o := options.(*PredictOptions)
		err = of.(Collection).read(ctx, func(st *state.Collection) (err error) {
			a := rowAsk{q: query.(Query), group: ask}
			out, err = a.findEvidence(ctx, st, o)
			return err
		})
		return out, err
	}
	grouped.FindSums = func(
		ctx context.Context, of any, name string, version uint64, features []grouped.Feature,
	) (out []grouped.Sums, err error) {
		err = of.(Collection).read(ctx, func(st *state.Collection) (err error) {
			out, err = findSums(ctx, st, name, version, features)
			return err
		})
		return out, err
	}
}

// groupModel describes a label model to a group.
func groupModel(x *state.Index) (out grouped.Model, err error) {
	if m, ok := x.Opened.(kind.GroupPredictor); ok {
		if out, ok = m.InGroup(); ok {
			return out, nil
		}
	}
	c := x.Manifest.Info.Calibration
	if c == nil || c.OwnSets {
		return out, fmt.Errorf("%w: label model %q predicts in several collections by probabilities, "+
			"which it does "+
			"not have or does not choose labels by: a build makes them from %d rows or more with labels, without "+
			"given thresholds (models of kind lcif with weight none and all features need none)",
			fail.Option, x.Manifest.Info.Name, labels.LeastCalibrationRows)
	}
	out = grouped.Model{Alone: true, Learned: x.Manifest.Info.Rows}
	out.Params.Thresholds = c.Thresholds()
	out.Labels = x.Opened.(kind.LabelPredictor).Names()[:len(c.LabelCuts)]
	h := fnv.New64a()
	if err := json.NewEncoder(h).Encode(out); err != nil {
		return out, err
	}
	out.Version = max(1, h.Sum64())
	return out, nil
}

// groupPredictor returns a label model as one that predicts together with others.
func groupPredictor(x *state.Index, err error) (kind.GroupPredictor, error) {
	if err != nil {
		return nil, err
	}
	m, ok := x.Opened.(kind.GroupPredictor)
	if !ok { // it was another one when the group began
		err = fmt.Errorf("%w: label model %q has no sums", fail.Kind, x.Manifest.Info.Name)
	}
	return m, err
}

// findEvidence finds what the label model of one of several collections says of the query.
func (a *rowAsk) findEvidence(
	ctx context.Context, st *state.Collection, o *PredictOptions,
) (out grouped.Evidence, err error) {
	m, err := groupPredictor(a.withModel(ctx, st, o.Index))
	if err != nil {
		return out, err
	}
	if err := o.Params.Validate(0); err != nil {
		return out, fmt.Errorf("%w: predict in %q: %w", fail.Option, st.Entry.Name, fail.Inner{Err: err})
	}
	rows, err := decidedRows(ctx, st, o.Where)
	if err != nil {
		return out, err
	}
	features := a.features.features
	out, err = m.Evidence(ctx, features, &kind.LabelAsk{Vector: a.q.Vector, Params: o.Params, Rows: rows})
	out.Unknown = a.features.unknown
	if err != nil || !st.Entry.Named {
		return out, err
	}
	for i := range out.Features {
		f := &out.Features[i]
		if from := features.Len() - len(out.Unknown); i >= from {
			f.Name = out.Unknown[i-from]
		} else if f.Name, err = st.FeatureName(f.Number); err != nil {
			return out, err
		}
	}
	return out, nil
}

// findSums finds what a version of the label model of one of several collections knows of features.
func findSums(
	ctx context.Context, st *state.Collection, name string, version uint64, features []grouped.Feature,
) (out []grouped.Sums, err error) {
	m, err := groupPredictor(labelModel(ctx, st, name))
	if err != nil {
		return nil, err
	}
	if m.Version() != version {
		return nil, fmt.Errorf("%w: label model %q of %q has changed", fail.NoIndex, name, st.Entry.Name)
	}
	out = make([]grouped.Sums, len(features))
	for i, f := range features {
		known := true
		if st.Entry.Named {
			if f.Number, known, err = st.FeatureNumber(f.Name); err != nil {
				return nil, err
			}
		}
		if known {
			out[i] = m.Sums(f.Number)
		}
	}
	return out, nil
}

// inGroup prepares a search of several collections in one of them, and calls f with memory for it.
func (a *rowAsk) inGroup(
	ctx context.Context, st *state.Collection, o *SearchOptions, f func(s *kind.Search) error,
) error {
	if err := a.prepare(ctx, st, o); err != nil {
		return err
	}
	s := st.Gen.File.Searches.Take()
	err := f(s)
	st.Gen.File.Searches.Give(s) // not after a panic, as in search
	return err
}

// searchGrouped finds the rows of one of several collections, and sets the result to them.
func (a *rowAsk) searchGrouped(
	ctx context.Context, st *state.Collection, o *SearchOptions, s *kind.Search, res *Result,
) (found []grouped.Found, err error) {
	res.Stats.Unknown = a.features.unknown
	depth := a.k
	if depth == 0 {
		depth = math.MaxInt
	}
	if !a.both() {
		p := part{features: a.byFeatures, index: o.Index, k: depth, explain: o.Explain && !a.byFeatures}
		if res.Index, err = searchPart(ctx, st, a, o, s, p); err != nil {
			return nil, err
		}
		res.Stats.Stats, res.Stats.Postings = s.Stats, s.Postings
		scores := scoresOf(s)
		for i := range s.Found {
			f := &s.Found[i]
			var x grouped.Found
			if near := f.Distance; a.byFeatures {
				x.Match = scores[f.ID]
			} else {
				x.Near, f.Distance = &near, externalDistance(st.Entry.Metric, near)
			}
			found = append(found, x)
		}
	} else if found, err = a.foundByBoth(ctx, st, o, s, res, depth); err != nil {
		return nil, err
	}
	if res.Hits, err = hitsOf(ctx, st, o, s); err != nil || !o.Explain || !a.byFeatures {
		return found, err
	}
	byTerms := s
	if a.both() {
		byTerms = s.Second()
	}
	for i := range res.Hits {
		x := candidate{row: res.Hits[i].Row}
		x.Score = found[i].Score
		if res.Hits[i].Why, err = reasonOfFeatures(st, byTerms, &x); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// scoresOf returns the scores of the rows that a search by features has found.
func scoresOf(s *kind.Search) map[uint32]*float64 {
	scores := map[uint32]*float64{}
	for _, h := range s.Hits {
		scores[h.Row] = &h.Score
	}
	return scores
}

// foundByBoth finds rows by both parts of the query, and leaves them in s.Found.
func (a *rowAsk) foundByBoth(
	ctx context.Context, st *state.Collection, o *SearchOptions, s *kind.Search, res *Result, depth int,
) (found []grouped.Found, err error) {
	all, index, err := byParts(ctx, st, a, o, s, depth)
	if err != nil {
		return nil, err
	}
	byTerms := s.Second()
	res.Index, res.Stats.Stats, res.Stats.Postings = index, s.Stats, byTerms.Postings
	res.Stats.Exact += byTerms.Stats.Exact
	scores := scoresOf(byTerms)
	near := slices.Clone(s.Found)
	s.Found = s.Found[:0]
	for i := range all {
		x := &all[i]
		f := grouped.Found{HasVector: x.HasVector, Distance: x.Distance, Score: x.Score}
		if at := x.VectorRank; at > 0 {
			f.Near = &near[at-1].Distance
		}
		if x.TextRank > 0 {
			f.Match = scores[x.row]
		}
		found = append(found, f)
		s.Found = append(s.Found, vector.Neighbor{ID: x.row})
	}
	return found, nil
}

// countTerms counts the rows that have the terms of a query.
func (a *rowAsk) countTerms(
	ctx context.Context, st *state.Collection, s *kind.Search,
) (out grouped.Terms, err error) {
	out.Have = map[string]int{}
	if st.Entry.Text == nil || !a.byFeatures {
		return out, nil
	}
	s.Begin(kind.Ask{K: 1, Features: a.features.features, CountOnly: true})
	x, _, err := st.Finder(ctx, "", true)
	if err == nil {
		err = x.Search(ctx, s)
	}
	if err != nil {
		return out, fail.Wrapf(err, "terms of %q", st.Entry.Name)
	}
	out.Rows, out.Length = s.Counted.Rows, s.Counted.Length
	for _, t := range a.terms {
		at, ok, err := a.placeOf(st, t.Name)
		if err != nil {
			return out, err
		}
		if ok {
			out.Have[t.Name] = s.RowsWith[at]
		}
	}
	return out, nil
}

// placeOf returns the place of a term in the features of the query.
func (a *rowAsk) placeOf(st *state.Collection, term string) (at int, ok bool, err error) {
	f, known, err := st.FeatureNumber(term)
	if err != nil {
		return 0, false, err
	}
	index := a.features.features.Index
	if !known {
		at = slices.Index(a.features.unknown, term)
		return len(index) - len(a.features.unknown) + at, at >= 0, nil
	}
	at, ok = slices.BinarySearch(index, f)
	return at, ok, nil
}

// countOver makes a search by terms count them over all collections.
func (a *rowAsk) countOver(st *state.Collection, s *kind.Search) error {
	if a.group == nil || a.group.Terms == nil {
		return nil
	}
	t := a.group.Terms
	if t.Rows < 0 || !(t.Length >= float64(t.Rows)) || math.IsInf(t.Length, 1) {
		return fmt.Errorf("%w: %d rows with %g terms", fail.Option, t.Rows, t.Length)
	}
	s.Over = &kind.Corpus{Rows: t.Rows, Length: t.Length}
	s.RowsOver = make([]int, s.Features.Len())
	for name, n := range t.Have {
		at, ok, err := a.placeOf(st, name)
		switch {
		case err != nil:
			return err
		case n < 0 || n > t.Rows:
			return fmt.Errorf("%w: %d of %d rows have term %.40q", fail.Option, n, t.Rows, name)
		case ok:
			s.RowsOver[at] = n
		}
	}
	return nil
}
