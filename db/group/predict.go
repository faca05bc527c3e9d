package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// Predict predicts the labels of a query by label models that have the same name in all parts. Those of
// kind lcif with weight none predict as one model of all their rows with the parameters of the first
// part's does: neighbors are the nearest of all parts, and sums, which are integers, are added.
// Probabilities are those of one model, so there are none: MinProbability is refused, and labels are
// chosen by thresholds, as with db.PredictOptions.Params. Other models predict each by itself, and the
// probability of a label, which is its score as well, is the mean of theirs, weighed by the rows of the
// parts; labels are chosen by the thresholds of the first part that has the label.
func (g *Group) Predict(
	ctx context.Context, q db.Query, o *db.PredictOptions,
) (out db.Predictions, err error) {
	if o == nil {
		o = &db.PredictOptions{}
	}
	if g.only != nil {
		return g.only.Predict(ctx, q, o)
	}
	m, err := g.open(ctx, o.Index, false)
	if err != nil {
		return out, err
	}
	if m.alone {
		ask, err := g.resolve(ctx, q)
		if err != nil {
			return out, err
		}
		return g.mean(ctx, m, ask, o)
	}
	if o.MinProbability != 0 || o.Recall != 0 || o.Explain || o.Frequent {
		return out, fmt.Errorf("%w: a prediction by models of kind lcif with weight none over %d "+
			"collections has no probabilities, reasons and frequent labels", fail.Option, len(g.parts))
	}
	p := prediction{models: m, params: m.params, limits: m.limits, evidence: make([]Evidence, len(g.parts))}
	if o.Params != nil {
		p.params, p.limits = *o.Params, nil
	}
	if t := p.params.Thresholds; p.params.SecondOrder > 0 || o.Params != nil && t != nil && t.PerLabel != nil {
		return out, fmt.Errorf("%w: second-order scores or given thresholds for each label, and the prediction is "+
			"over %d collections", fail.Option, len(g.parts))
	}
	p.params.Top = cmp.Or(o.Top, p.params.Top)
	ask, err := g.resolve(ctx, q)
	if err != nil {
		return out, err
	}
	if err := p.find(ctx, g, ask, o); err != nil {
		return out, err
	}
	return p.predict(ctx, g, ask, o)
}

// prediction is a prediction by all parts.
type prediction struct {
	*models
	params   lcif.Params
	limits   []float64 // those of the models, if their thresholds are used
	evidence []Evidence
	newer    []string // labels after those of the models, which no row has that these have learned from
}

// find asks the parts.
func (p *prediction) find(ctx context.Context, g *Group, q query, o *db.PredictOptions) error {
	filters := g.filters(o.Where)
	params := p.params
	params.Thresholds = nil
	return g.each(ctx, func(i int) (err error) {
		if p.versions[i] > 0 {
			of := db.PredictOptions{Index: o.Index, Params: &params, Where: filters[i]}
			p.evidence[i], err = g.parts[i].Evidence(ctx, q.Query, &of, &q.ask)
		}
		return err
	})
}

// number returns the number of a label, which may be newer than the models.
func (p *prediction) number(name string) uint32 {
	at, known := slices.BinarySearch(p.labels, name)
	if known {
		return uint32(at)
	}
	if at = slices.Index(p.newer, name); at < 0 {
		at = len(p.newer)
		p.newer = append(p.newer, name)
	}
	return uint32(len(p.labels) + at)
}

// name returns the name of a label.
func (p *prediction) name(label uint32) string {
	if n := len(p.labels); int(label) >= n {
		return p.newer[int(label)-n]
	}
	return p.labels[label]
}

// feature is a feature of the query: with the order among others, and its name or number.
type feature struct {
	Feature
	order uint64
	key   string
}

// features returns the features of the query, those that a model knows first, in the order in which one
// collection would number them: those of the first part, then others of the next. Numbered features
// have the same number in all.
func (p *prediction) features() (all []*feature) {
	known := map[string]*feature{}
	for i := range p.evidence {
		for _, f := range p.evidence[i].Features {
			key, order := f.Name, uint64(i)<<32|uint64(f.Number)
			if key == "" {
				key, order = strconv.Itoa(int(f.Number)), uint64(f.Number)
			}
			x := known[key]
			if x == nil {
				x = &feature{f, order, key}
				known[key] = x
				all = append(all, x)
			} else if f.Known && !x.Known {
				x.Known, x.order = true, order
			}
		}
	}
	slices.SortFunc(all, func(x, y *feature) int {
		switch {
		case x.Known != y.Known && x.Known:
			return -1
		case x.Known != y.Known:
			return 1
		case !x.Known:
			return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.order, y.order))
		}
		return cmp.Compare(x.order, y.order)
	})
	return all
}

// neighbors are the nearest rows of all parts, and their labels.
type neighbors struct {
	hits  []postings.Hit // whose rows are places in sets
	sets  [][]uint32
	count int // of labels
	stats postings.Stats
}

// Neighbors implements lcif.NeighborSource.
func (n *neighbors) Neighbors(_ context.Context, s *lcif.NeighborScratch, _ lcif.NeighborQuery, k int,
	dst []postings.Hit) ([]postings.Hit, error) {
	s.Stats = n.stats
	return append(dst, n.hits[:min(k, len(n.hits))]...), nil
}

// Among implements lcif.NeighborSource: the parts have asked for rows that pass.
func (n *neighbors) Among(*roaring.Bitmap) lcif.NeighborSource { return n }

// Rows, Labels and Row implement lcif.LabelSets.
func (n *neighbors) Rows() int { return len(n.sets) }

func (n *neighbors) Labels() int { return n.count }

func (n *neighbors) Row(i int) []uint32 { return n.sets[i] }

// nearest returns the nearest rows of all parts.
func (p *prediction) nearest() *neighbors {
	out := &neighbors{}
	var all []place
	for i := range p.evidence {
		e := &p.evidence[i]
		for at, n := range e.Neighbors {
			all = append(all, place{part: i, at: at, row: n.Row, order: n.Order})
		}
		out.stats.Add(&e.Search)
	}
	slices.SortFunc(all, place.compare)
	for i, x := range all[:min(p.params.K, len(all))] {
		n := &p.evidence[x.part].Neighbors[x.at]
		set := make([]uint32, len(n.Labels))
		for j, name := range n.Labels {
			set[j] = p.number(name)
		}
		slices.Sort(set)
		out.hits = append(out.hits, postings.Hit{Row: uint32(i), Score: n.Similarity})
		out.sets = append(out.sets, set)
	}
	out.count = len(p.labels) + len(p.newer)
	return out
}

// predict predicts from what the parts have answered.
func (p *prediction) predict(
	ctx context.Context, g *Group, q query, o *db.PredictOptions,
) (out db.Predictions, err error) {
	features := p.features()
	var x vector.Sparse
	known := len(features)
	for i, f := range features {
		if x.Index, x.Value = append(x.Index, uint32(i)), append(x.Value, f.Value); !f.Known {
			known = min(known, i)
		}
	}
	near := p.nearest()
	view := &lcif.View{Features: known, Labels: near, Neighbors: near}
	if len(p.newer) > 0 {
		view.Before = func(a, b uint32) bool { return p.name(a) < p.name(b) }
	}
	if p.params.Lambda < 1 {
		columns, err := p.columnsOf(ctx, g, o.Index, features[:known])
		if err != nil {
			if m, openErr := g.open(ctx, o.Index, true); openErr == nil && m != p.models {
				return g.Predict(ctx, q.asked, o) // the models have changed in between
			}
			return out, err
		}
		view.Powers = p.powersOf(columns)
	}
	if t := p.params.Thresholds; t != nil && p.limits != nil {
		p.params.Thresholds = &labels.Thresholds{Single: t.Single, KeepTop: t.KeepTop,
			PerLabel: append(slices.Clone(p.limits), slices.Repeat([]float64{t.Single}, len(p.newer))...)}
	}
	var by lcif.Predictor
	by.Vector = q.beside
	found, stats, err := by.Predict(ctx, view, x, &p.params, nil)
	if err != nil {
		return out, fmt.Errorf("%w: predict: %w", fail.Option, fail.Inner{Err: err})
	}
	if p.params.Top > 0 && o.Set {
		found = by.AppendSet(found)
	}
	chosen := by.Set()
	for _, r := range found {
		_, predicted := slices.BinarySearch(chosen, r.Label)
		out.Labels = append(out.Labels, db.Prediction{Label: p.name(r.Label), Score: r.Score, Predicted: predicted})
	}
	out.Stats.Stats = stats
	out.Stats.Unknown = unknown(len(p.evidence), func(i int) ([]string, bool) {
		return p.evidence[i].Unknown, p.versions[i] > 0
	})
	return out, nil
}
