package lcif

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Predictor holds the memory of one label prediction at a time. When reused, it allocates
// nothing in steady state. It is not safe for concurrent use. The zero value is ready.
type Predictor struct {
	params   Params
	stats    Stats
	scratch  NeighborScratch
	tally    tally
	unit     vector.Sparse
	hits     []postings.Hit
	near     []near
	instance vector.Sparse
	feature  vector.Sparse
	scores   vector.Sparse
	set      []uint32
	settled  bool // set belongs to scores
	order    labels.Order

	units vector.CSR // unit vectors of a block of queries
	lists nearLists
	group featureGroup
}

// NewPredictor returns an empty Predictor; its memory grows as queries need it.
func NewPredictor() *Predictor { return new(Predictor) }

// Predict appends the labels predicted for q to dst, best first, by score or, with a threshold for
// each label, by score in relation to its threshold (labels.Order), ties by the smaller label or by
// the view's Before: the Top best ones, or the set that the thresholds select (Algorithm 6). Scores are those of definition 9, in 0…1. A label without evidence is not
// predicted, so there may be fewer than Top, and none for a query without known features
// (Stats.NoEvidence).
//
// q need not have unit length. Features that no training row has contribute only to its length,
// whatever their numbers, unless the view keeps a selection of features: then they and the features
// that are not kept are ignored. All sums have a fixed order, so equal inputs give equal bits.
//
// A value below zero counts as zero in feature scores; a source of neighbours may reject it.
//
// Cost: the search for K neighbours, then O(labels of the neighbours + labels of the query's
// features + L/64). Errors: ErrParams for bad parameters or queries, ErrMethod for missing
// parts of the view, those of the source, the context's; dst is then returned unchanged.
func (p *Predictor) Predict(ctx context.Context, v *View, q vector.Sparse, params *Params,
	dst []labels.Ranked) ([]labels.Ranked, Stats, error) {
	if err := p.run(ctx, v, q, params); err != nil {
		return dst, Stats{}, err
	}
	return p.choose(dst), p.stats, nil
}

// Set returns the labels, ascending, that the thresholds select from the scores of the last
// prediction, whether or not the Top best were requested. It is valid until the next use of the
// predictor.
func (p *Predictor) Set() []uint32 {
	if p.settled {
		return p.set
	}
	p.set, p.settled = p.set[:0], true
	if t := p.params.Thresholds; t != nil {
		p.set = t.AppendBy(p.set, p.scores, &p.order)
		return p.set
	}
	var best [1]labels.Ranked
	for _, r := range p.order.Rank(best[:0], p.scores, 1) {
		p.set = append(p.set, r.Label)
	}
	return p.set
}

// NoEvidence reports whether no label has a score in the last prediction.
func (p *Predictor) NoEvidence() bool { return p.scores.Len() == 0 }

// AppendSet appends the labels of Set that dst, a ranking of the same prediction, does not
// contain, best first.
func (p *Predictor) AppendSet(dst []labels.Ranked) []labels.Ranked {
	at, i := len(dst), 0
	for _, l := range p.Set() {
		for p.scores.Index[i] != l {
			i++
		}
		r := labels.Ranked{Label: l, Score: p.scores.Value[i]}
		if !slices.Contains(dst[:at], r) {
			dst = append(dst, r)
		}
	}
	slices.SortFunc(dst[at:], p.order.Compare)
	return dst
}

// run computes scores.
func (p *Predictor) run(ctx context.Context, v *View, q vector.Sparse, params *Params) error {
	if err := p.prepare(ctx, v, q, params); err != nil {
		return err
	}
	if p.params.Lambda > 0 && p.unit.Len() > 0 {
		var err error
		if p.hits, err = v.Neighbors.Neighbors(ctx, &p.scratch, NeighborQuery{q, p.unit},
			p.params.K, p.hits[:0]); err != nil {
			return err
		}
		p.take(p.hits)
	}
	p.score(v)
	return nil
}

// prepare checks everything and normalises the query to unit length.
func (p *Predictor) prepare(ctx context.Context, v *View, q vector.Sparse,
	params *Params) error {
	if err := p.begin(ctx, v, params); err != nil {
		return err
	}
	if err := p.check(q); err != nil {
		return err
	}
	normalise(&p.unit, q, v.Features, v.Keep)
	p.stats.Features = p.unit.Len()
	return nil
}

// begin checks the parameters and prepares for queries.
func (p *Predictor) begin(ctx context.Context, v *View, params *Params) error {
	p.stats = Stats{}
	p.params = params.filled()
	if err := p.params.check(v); err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	p.order = p.params.Thresholds.Order(v.Before)
	p.tally.reset(v.Labels.Labels())
	p.near = p.near[:0]
	p.renew()
	return nil
}

// check returns an error for an invalid query.
func (p *Predictor) check(q vector.Sparse) error {
	if err := q.Validate(); err != nil {
		return fmt.Errorf("%w: %w", query.ErrParams, err)
	}
	return nil
}

// take loads the neighbours that were found.
func (p *Predictor) take(hits []postings.Hit) {
	p.near = p.near[:0]
	for _, h := range hits {
		p.near = append(p.near, near{h.Row, float32(h.Score)})
	}
	p.stats.Neighbors, p.stats.Search = len(p.near), p.scratch.Stats
}

// score computes scores from the neighbours and the unit query.
func (p *Predictor) score(v *View) {
	clearSparse(&p.instance)
	clearSparse(&p.feature)
	p.renew()
	if p.params.Lambda > 0 {
		instanceScores(&p.tally, v, p.near, p.params.Alpha, p.params.SecondOrder, &p.instance)
	}
	if p.params.Lambda < 1 {
		featureScores(&p.tally, v.power(p.params.Beta), p.params.Beta, p.unit, &p.feature)
	}
	combine(p.params.Lambda, p.instance, p.feature, &p.scores)
	p.stats.Instance, p.stats.Feature, p.stats.Candidates = p.instance.Len(), p.feature.Len(),
		p.scores.Len()
	p.stats.NoEvidence = p.NoEvidence()
}

// block computes scores for rows lo to hi of queries, one after the other, and calls each after
// each row; irrelevant scores may be missing. The number it returns is the row of the error.
func (p *Predictor) block(ctx context.Context, v *View, queries *vector.CSR, lo, hi int,
	params *Params, want scoreFilter, each func(i int)) (int, error) {
	if err := p.begin(ctx, v, params); err != nil {
		return lo, err
	}
	units := &p.units
	units.Ptr, units.Index, units.Value, units.Cols = append(units.Ptr[:0], 0), units.Index[:0],
		units.Value[:0], v.Features
	entries := int(queries.Ptr[hi] - queries.Ptr[lo])
	units.Ptr, units.Index, units.Value = slices.Grow(units.Ptr, hi-lo),
		slices.Grow(units.Index, entries), slices.Grow(units.Value, entries)
	for i := lo; i < hi; i++ {
		q := row(queries, i)
		if err := p.check(q); err != nil {
			return i, err
		}
		at := len(units.Index)
		unit := vector.Sparse{Index: units.Index[at:at], Value: units.Value[at:at]}
		normalise(&unit, q, v.Features, v.Keep)
		at += unit.Len()
		units.Index, units.Value = units.Index[:at], units.Value[:at]
		units.Ptr = append(units.Ptr, uint64(at))
	}
	if at, err := p.neighborsOf(ctx, v, queries, units, lo, hi); err != nil {
		return at, err
	}
	var m *labels.Powers // for shared feature scores
	size := groupQueries
	if p.params.Lambda < 1 {
		if power := v.power(p.params.Beta); power != nil && power.Beta == p.params.Beta {
			m, size = power, groupSize(power.Labels())
		}
	}
	own := p.unit
	defer func() { p.unit = own }()
	for from := 0; from < hi-lo; from += size {
		to := min(from+size, hi-lo)
		if err := ended(ctx); err != nil {
			return lo + from, err
		}
		shared := m != nil && shares(m, units, from, to)
		if shared {
			p.group.load(m, units, from, to)
		}
		for i := from; i < to; i++ {
			p.unit, p.near = units.Row(i), p.lists.row(i)
			if shared {
				p.scoreShared(v, i-from, &want)
			} else {
				p.score(v)
			}
			each(lo + i)
		}
	}
	return hi, nil
}

// neighborsOf finds the neighbours of rows lo to hi of queries, whose unit vectors are given,
// if instance scores have a weight.
func (p *Predictor) neighborsOf(ctx context.Context, v *View, queries, units *vector.CSR,
	lo, hi int) (int, error) {
	p.lists.ptr, p.lists.list = append(p.lists.ptr[:0], 0), p.lists.list[:0]
	for i := range hi - lo {
		p.hits = p.hits[:0]
		if unit := units.Row(i); p.params.Lambda > 0 && unit.Len() > 0 {
			var err error
			if p.hits, err = v.Neighbors.Neighbors(ctx, &p.scratch,
				NeighborQuery{row(queries, lo+i), unit}, p.params.K, p.hits); err != nil {
				return lo + i, err
			}
		}
		for _, h := range p.hits {
			p.lists.list = append(p.lists.list, near{h.Row, float32(h.Score)})
		}
		p.lists.ptr = append(p.lists.ptr, uint64(len(p.lists.list)))
	}
	return hi, nil
}

// scoreShared computes scores from the neighbours and the sums of query i of the group.
func (p *Predictor) scoreShared(v *View, i int, want *scoreFilter) {
	clearSparse(&p.instance)
	p.renew()
	if p.params.Lambda > 0 {
		instanceScores(&p.tally, v, p.near, p.params.Alpha, p.params.SecondOrder, &p.instance)
	}
	sum, total := p.group.of(i)
	combineSums(p.params.Lambda, p.instance, sum, p.group.powers.Label, total, want, &p.scores)
}

// renew empties scores before the next ones are computed.
func (p *Predictor) renew() {
	clearSparse(&p.scores)
	p.settled = false
}

func clearSparse(s *vector.Sparse) { s.Index, s.Value = s.Index[:0], s.Value[:0] }

// choose appends the labels that the parameters request.
func (p *Predictor) choose(dst []labels.Ranked) []labels.Ranked {
	top, t := p.params.Top, p.params.Thresholds
	if top == 0 && t == nil {
		top = 1
	}
	if top > 0 {
		return p.order.Rank(dst, p.scores, top)
	}
	return p.AppendSet(dst)
}

// haltRows is the number of rows that are scored between two checks of the context.
const haltRows = 64

// ended returns the error of a context that has ended.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lcif: %w", err)
	}
	return nil
}

// room returns x with n elements, whose values are undefined, in its memory if that suffices.
func room[T any](x []T, n int) []T { return slices.Grow(x[:0], n)[:n] }
