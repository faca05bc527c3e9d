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
	// Vector is the vector of the queries that follow, next to their features; nil for none.
	Vector []float32

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

	second secondOrder
}

// NewPredictor returns an empty Predictor; its memory grows as queries need it.
func NewPredictor() *Predictor { return new(Predictor) }

// Predict appends the labels predicted for q to dst, best first, by score or, with a threshold for
// each label, by score in relation to its threshold (labels.Order), ties by the smaller label or by
// the view's Before: the Top best ones, or the set that the thresholds select (Algorithm 6). Scores are
// those of definition 9, in 0…1. A label without evidence is not predicted, so there may be fewer than
// Top, and none for a query without known features (Stats.NoEvidence).
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

// Scores returns the scores of all candidate labels in the last prediction, ascending by label. They are
// valid until the next use of the predictor.
func (p *Predictor) Scores() vector.Sparse { return p.scores }

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
	if p.params.Lambda > 0 && (p.unit.Len() > 0 || p.Vector != nil) {
		if err := p.findNeighbors(ctx, v, q); err != nil {
			return err
		}
	}
	if p.params.Lambda > 0 {
		p.tally.instanceScores(v.Labels, p.near, &p.params, p.second.of, &p.instance)
	}
	if p.params.Lambda < 1 {
		p.tally.featureScores(v.Powers, p.params.Beta, p.unit, &p.feature)
	}
	combine(p.params.Lambda, p.instance, p.feature, &p.scores)
	p.stats.Instance, p.stats.Feature, p.stats.Candidates = p.instance.Len(), p.feature.Len(),
		p.scores.Len()
	p.stats.NoEvidence = p.NoEvidence()
	return nil
}

// prepare checks everything and normalises the query to unit length.
func (p *Predictor) prepare(ctx context.Context, v *View, q vector.Sparse,
	params *Params) error {
	p.stats = Stats{}
	p.params = params.filled()
	if err := p.params.check(v); err != nil {
		return err
	}
	if err := ended(ctx); err != nil {
		return err
	}
	if err := q.Validate(); err != nil {
		return fmt.Errorf("%w: %w", query.ErrParams, err)
	}
	p.order = p.params.Thresholds.Order(v.Before)
	p.tally.reset(v.Labels.Labels())
	p.near = p.near[:0]
	clearSparse(&p.instance)
	clearSparse(&p.feature)
	clearSparse(&p.scores)
	p.settled = false
	normalise(&p.unit, q, v.Features, v.Keep)
	p.stats.Features = p.unit.Len()
	return nil
}

// findNeighbors finds the neighbours of the query and, for second-order scores, theirs.
func (p *Predictor) findNeighbors(ctx context.Context, v *View, q vector.Sparse) (err error) {
	if p.hits, err = v.Neighbors.Neighbors(ctx, &p.scratch, NeighborQuery{q, p.unit, p.Vector},
		p.params.K, p.hits[:0]); err != nil {
		return err
	}
	for _, h := range p.hits {
		p.near = append(p.near, near{h.Row, float32(h.Score)})
	}
	p.stats.Neighbors, p.stats.Search = len(p.near), p.scratch.Stats
	if p.params.SecondOrder > 0 {
		return p.second.find(ctx, v, p.near, &p.scratch)
	}
	return nil
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
