package lcifindex

import (
	"context"
	"sync"

	"github.com/anndb/anndb/db/internal/grouped"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// InGroup implements kind.GroupPredictor. Only models that leave values as they are have sums that add
// up with those of others: weights of features depend on all rows.
func (m *labelModel) InGroup() (out grouped.Model, adds bool) {
	if m.idf != nil || m.scale != nil || m.view.Keep != nil {
		return out, false
	}
	out = grouped.Model{Version: m.version, Params: m.params, Labels: m.Names()[:len(m.rowsOf)], Rows: m.rowsOf}
	return out, true
}

var scratches = sync.Pool{New: func() any { return new(lcif.NeighborScratch) }}

// Evidence implements kind.GroupPredictor.
func (m *labelModel) Evidence(
	ctx context.Context, x vector.Sparse, o *kind.LabelAsk,
) (out grouped.Evidence, err error) {
	out.Features = make([]grouped.Feature, x.Len())
	for i, f := range x.Index {
		out.Features[i] = grouped.Feature{Number: f, Value: x.Value[i], Known: int(f) < m.view.Features}
	}
	if o.Params.Lambda == 0 {
		return out, nil
	}
	view := m.among(o.Rows)
	q := lcif.NeighborQuery{Raw: x, Unit: view.Unit(x)}
	if m.view.Vector != nil {
		q.Vector = o.Vector
	}
	if q.Unit.Len() == 0 && q.Vector == nil {
		return out, nil
	}
	s := scratches.Get().(*lcif.NeighborScratch) // not returned to the pool if there is an error
	add := func(row uint32, order, similarity float64) {
		n := grouped.Neighbor{Row: row, Order: order, Similarity: similarity}
		for _, l := range view.Labels.Row(int(row)) {
			n.Labels = append(n.Labels, m.name(l))
		}
		out.Neighbors = append(out.Neighbors, n)
	}
	if by, dense := view.Neighbors.(*nearest); dense {
		err = by.each(ctx, s, q, o.Params.K, func(f vector.Neighbor, similarity float64) {
			add(f.ID, float64(f.Distance), similarity)
		})
	} else {
		var hits []postings.Hit
		hits, err = view.Neighbors.Neighbors(ctx, s, q, o.Params.K, nil)
		for _, h := range hits {
			add(h.Row, -h.Score, h.Score)
		}
	}
	if err != nil {
		return out, predictError(m.st.Collection().Name, err)
	}
	out.Search = s.Stats
	scratches.Put(s)
	return out, nil
}

// Version implements kind.GroupPredictor.
func (m *labelModel) Version() uint64 { return m.version }

// Sums implements kind.GroupPredictor.
func (m *labelModel) Sums(feature uint32) (out grouped.Sums) {
	for _, p := range m.view.Labels.(*labelSets).parts {
		if int(feature) >= p.Features {
			continue
		}
		i := 2 * feature
		out.Square = out.Square.Add(labels.Uint128{Hi: p.square[i], Lo: p.square[i+1]})
		for at := p.pairs.Ptr[feature]; at < p.pairs.Ptr[feature+1]; at++ {
			out.Add(p.pairs.Label[at], p.sums[at])
		}
	}
	return out
}
