package group

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// models are the label models of one name in all parts.
type models struct {
	params  lcif.Params // of the first one
	labels  []string    // of all, ascending
	rows    []uint32    // with each label, in the segments of all models
	limits  []float64   // the threshold of each label if labels have their own
	numbers [][]uint32  // of the labels of each part
}

// models returns the models of a name, which it opens once.
func (g *Group) models(ctx context.Context, index string) (*models, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.opened[index]; m != nil {
		return m, nil
	}
	found := make([]Model, len(g.parts))
	err := g.each(ctx, func(i int) (err error) {
		found[i], err = g.parts[i].Model(ctx, index)
		if g.infos[i].Live == 0 && errors.Is(err, db.ErrNotFound) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	m := &models{numbers: make([][]uint32, len(found))}
	for i := range found {
		if x := &found[i]; len(x.Rows) != len(x.Labels) {
			return nil, fmt.Errorf("group: a model of %d labels with the rows of %d", len(x.Labels), len(x.Rows))
		}
		m.labels = append(m.labels, found[i].Labels...)
	}
	slices.Sort(m.labels)
	m.labels = slices.Compact(m.labels)
	m.rows = make([]uint32, len(m.labels))
	first := slices.IndexFunc(found, func(x Model) bool { return x.Labels != nil })
	if first < 0 {
		return nil, fmt.Errorf("%w: no label model in %d collections without rows", db.ErrNotFound, len(found))
	}
	m.params = found[first].Params
	if t := m.params.Thresholds; t != nil && t.PerLabel != nil {
		m.limits = slices.Repeat([]float64{t.Single}, len(m.labels))
	}
	for i := range slices.Backward(found) { // the first part that has a label decides its threshold
		x := &found[i]
		for l, name := range x.Labels {
			at, _ := slices.BinarySearch(m.labels, name)
			m.numbers[i] = append(m.numbers[i], uint32(at))
			m.rows[at] += uint32(x.Rows[l])
			if t := x.Params.Thresholds; m.limits != nil && t != nil && (t.PerLabel == nil || l < len(t.PerLabel)) {
				m.limits[at] = t.Of(uint32(l))
			}
		}
	}
	if g.opened == nil {
		g.opened = map[string]*models{}
	}
	g.opened[index] = m
	return m, nil
}

// Predict predicts the labels of a query by label models of kind lcif that have the same name in all
// parts, as one model of all their rows with the parameters of the first part's does: neighbors are the
// nearest of all parts, and sums, which are integers, are added. Probabilities are those of one model,
// so there are none: MinProbability and Recall are refused, and labels are chosen by thresholds, as
// with db.PredictOptions.Params.
func (g *Group) Predict(
	ctx context.Context, q db.Query, o *db.PredictOptions,
) (out db.Predictions, err error) {
	if o == nil {
		o = &db.PredictOptions{}
	}
	if g.only != nil {
		return g.only.Predict(ctx, q, o)
	}
	if o.MinProbability != 0 || o.Recall != 0 || o.Explain || o.Frequent {
		return out, fmt.Errorf("%w: a prediction over %d collections has no probabilities, reasons and frequent "+
			"labels", fail.Option, len(g.parts))
	}
	m, err := g.models(ctx, o.Index)
	if err != nil {
		return out, err
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
	return p.predict(ctx, ask, o.Set)
}

// prediction is a prediction by all parts.
type prediction struct {
	*models
	params   lcif.Params
	limits   []float64 // those of the models, if their thresholds are used
	evidence []Evidence

	met   []uint32 // the labels that any part has met, ascending
	place []uint32 // of labels in met
	newer []string // labels after those of the models, which no row has that these have learned from
}

// find asks the parts.
func (p *prediction) find(ctx context.Context, g *Group, q query, o *db.PredictOptions) error {
	filters := g.filters(o.Where)
	params := p.params
	params.Thresholds = nil
	err := g.each(ctx, func(i int) (err error) {
		if p.numbers[i] == nil {
			return nil
		}
		of := db.PredictOptions{Index: o.Index, Params: &params, Where: filters[i]}
		if p.evidence[i], err = g.parts[i].Evidence(ctx, q.Query, &of, &q.ask); err == nil {
			err = p.evidence[i].Check(len(p.numbers[i]))
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range p.evidence {
		e, numbers := &p.evidence[i], p.numbers[i]
		if e.Names != nil {
			numbers = make([]uint32, len(e.Names))
			for l, name := range e.Names {
				numbers[l] = p.number(name)
			}
		}
		e.EachSet(func(set []uint32) {
			for j, l := range set {
				set[j] = numbers[l]
			}
		})
	}
	p.place = make([]uint32, len(p.labels)+len(p.newer))
	for i := range p.evidence {
		p.evidence[i].EachSet(func(set []uint32) {
			for _, l := range set {
				p.place[l] = 1
			}
		})
	}
	for l, met := range p.place {
		if met == 1 {
			p.place[l] = uint32(len(p.met))
			p.met = append(p.met, uint32(l))
		}
	}
	return nil
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

// feature is a feature of the query with its sums over all parts, which may have a label several times.
type feature struct {
	grouped.Feature
	order uint64
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
				key, order = fmt.Sprint(f.Number), uint64(f.Number)
			}
			x := known[key]
			if x == nil {
				x = &feature{f, order}
				known[key] = x
				all = append(all, x)
				continue
			}
			if f.Known && !x.Known {
				x.Known, x.order = true, order
			}
			x.Square = x.Square.Add(f.Square)
			x.Labels, x.Sums = append(x.Labels, f.Labels...), append(x.Sums, f.Sums...)
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

// sums returns the sums of the features that a model knows, for the labels that were met.
func (p *prediction) sums(features []*feature) *labels.FeatureLabels {
	out := &labels.FeatureLabels{Ptr: []uint64{0}, Rows: make([]uint32, len(p.met))}
	for i, l := range p.met {
		if int(l) < len(p.rows) {
			out.Rows[i] = p.rows[l]
		}
	}
	sums := make([]int64, len(p.met)) // zero between features, as met, which has a bit for each label
	met := make([]uint64, (len(p.met)+63)/64)
	for _, f := range features {
		for e, l := range f.Labels {
			at := p.place[l]
			sums[at] += f.Sums[e]
			met[at/64] |= 1 << (at % 64)
		}
		for w, word := range met {
			met[w] = 0
			for ; word != 0; word &= word - 1 {
				l := w*64 + bits.TrailingZeros64(word)
				out.Label, out.Sum = append(out.Label, uint32(l)), append(out.Sum, sums[l])
				sums[l] = 0
			}
		}
		out.Ptr, out.Square = append(out.Ptr, uint64(len(out.Label))), append(out.Square, f.Square)
	}
	return out
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
	out := &neighbors{count: len(p.met)}
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
		for j, l := range n.Labels {
			set[j] = p.place[l]
		}
		slices.Sort(set)
		out.hits = append(out.hits, postings.Hit{Row: uint32(i), Score: n.Similarity})
		out.sets = append(out.sets, set)
	}
	return out
}

// predict predicts from what the parts have answered.
func (p *prediction) predict(ctx context.Context, q query, set bool) (out db.Predictions, err error) {
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
	if p.params.Lambda < 1 {
		// The power of the stored numbers, which are float32, is that of the model.
		if err := view.SetPower(p.sums(features[:known]), cmp.Or(p.models.params.Beta, 1)); err != nil {
			return out, err
		}
	}
	if t := p.params.Thresholds; t != nil {
		own := labels.Thresholds{Single: t.Single, KeepTop: t.KeepTop}
		if p.limits != nil {
			for _, l := range p.met {
				limit := t.Single
				if int(l) < len(p.limits) {
					limit = p.limits[l]
				}
				own.PerLabel = append(own.PerLabel, limit)
			}
		}
		p.params.Thresholds = &own
	}
	var by lcif.Predictor
	by.Vector = q.beside
	found, stats, err := by.Predict(ctx, view, x, &p.params, nil)
	if err != nil {
		return out, fmt.Errorf("%w: predict: %w", fail.Option, fail.Inner{Err: err})
	}
	if p.params.Top > 0 && set {
		found = by.AppendSet(found)
	}
	chosen := by.Set()
	for _, r := range found {
		_, predicted := slices.BinarySearch(chosen, r.Label)
		out.Labels = append(out.Labels, db.Prediction{
			Label: p.name(p.met[r.Label]), Score: r.Score, Predicted: predicted,
		})
	}
	out.Stats.Stats = stats
	out.Stats.Unknown = unknown(len(p.evidence), func(i int) ([]string, bool) {
		return p.evidence[i].Unknown, p.numbers[i] != nil
	})
	return out, nil
}
