package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
)

// lcifRecall is the recall that a label model asks its forest for.
const lcifRecall = 0.95

// forestKs are the values of k that are tuned over dense rows. Beyond them a
// forest, tuned for the nearest few, has too few candidates.
var forestKs = []int{1, 3, 5, 10, 20, 30, 50, 100}

// resolveNeighbors puts in what finds the neighbours of a label model, and
// refuses what its collection cannot do.
func (st *collState) resolveNeighbors(o *LCIFOptions) error {
	if st.c.Sparse {
		if o.Neighbors != "" {
			return fmt.Errorf("%w: a label model of sparse rows finds neighbours itself, not by %q", ErrOption, o.Neighbors)
		}
		return nil
	}
	switch {
	case o.Weight != WeightNone:
		return fmt.Errorf("%w: weighting %q is for counts of terms, %q is dense", ErrOption, o.Weight, st.c.Name)
	case len(o.FeatureShares) > 0 || o.Params != nil && o.Params.Features > 0:
		return fmt.Errorf("%w: features are selected in sparse collections, %q is dense", ErrOption, st.c.Name)
	case o.Params != nil && o.Params.SecondOrder > 0:
		return fmt.Errorf("%w: second-order scores need a graph of neighbours, which label models do not store", ErrOption)
	}
	if o.Neighbors == Flat {
		return nil
	}
	if o.Neighbors != "" {
		r := st.c.index(o.Neighbors)
		if r == nil {
			return fmt.Errorf("neighbours: %w", noIndex(st.c, o.Neighbors))
		}
		m, err := st.manifestOf(r)
		if err != nil {
			return err
		}
		if !m.searchable() || m.Info.Curve == nil {
			return fmt.Errorf("%w: index %q of %q is no tuned forest", ErrOption, o.Neighbors, st.c.Name)
		}
		return nil
	}
	o.Neighbors = Flat
	refs := slices.Clone(st.c.Indexes)
	slices.SortFunc(refs, func(a, b indexRef) int { return cmp.Compare(a.Name, b.Name) })
	for i := range refs {
		m, err := st.manifestOf(&refs[i])
		if err != nil {
			return err
		}
		if m.searchable() && m.Info.Curve != nil {
			o.Neighbors = refs[i].Name
			break
		}
	}
	return nil
}

// denseNeighbors finds neighbours by the named forest, or by scanning where
// there is none of that name or none of its settings has the recall.
func (st *collState) denseNeighbors(name string) (*query.ForestNeighbors, error) {
	base, err := st.rows()
	if err != nil {
		return nil, err
	}
	flat := query.NewForestNeighbors(base, query.Params{Method: query.Flat}, nil)
	r := st.c.index(name)
	if name == Flat || r == nil {
		return flat, nil
	}
	x, err := st.index(r)
	if err != nil {
		return nil, err
	}
	if x.view == nil || x.m.Info.Curve == nil {
		return flat, nil
	}
	p, ok := x.m.Info.Curve.Resolve(lcifRecall)
	if !ok || p.Method == query.Flat {
		return flat, nil
	}
	// The same candidates for every k, so that the tuner may search once, for
	// the largest; the best of them are all scored exactly. A forest that finds
	// fewer rows than k has found those that are near.
	p.NoWiden = true
	p.R = max(p.R, 2*slices.Max(forestKs))
	p.Rerank = max(p.Rerank, p.R)
	return query.NewForestNeighbors(x.view, p, nil), nil
}

// learnDense learns the model of a dense collection, whose rows are in the map.
func (l *lcifLearned) learnDense(ctx context.Context, st *collState, data *labelled, o BuildOptions, timer *stageTimer) error {
	l.n, l.live, l.opts, l.dead = data.rows.Rows(), len(data.live), o, data.dead()
	negative := slices.IndexFunc(data.rows.Value, func(x float32) bool { return x < 0 })
	if p := o.LCIF.Params; p != nil && p.Lambda < 1 && negative >= 0 {
		row := slices.IndexFunc(data.rows.Ptr, func(end uint64) bool { return end > uint64(negative) }) - 1
		key, err := st.key(uint32(row))
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: lambda %g: feature scores want no coordinate below zero, key %q has %g", ErrOption, p.Lambda, key, data.rows.Value[negative])
	}
	source, err := st.denseNeighbors(o.LCIF.Neighbors)
	if err != nil {
		return err
	}
	cv := query.CVOptions{InstanceOnly: negative >= 0, Neighbors: func(without *roaring.Bitmap) query.NeighborSource {
		return newLiveNeighbors(st, source, data.live, without)
	}}
	if err := l.choose(ctx, data, o, cv, timer); err != nil {
		return err
	}
	return timer.run("model", func(func(int, int)) error {
		view := &query.LCIFView{Features: st.c.Dim, Labels: data.sets}
		if negative < 0 {
			var err error
			if l.counts, err = labels.CountFeatureLabels(ctx, query.UnitRows(data.rows, view), data.sets, o.Workers); err != nil {
				return fmt.Errorf("db: label model: %w", err)
			}
			if l.power, err = l.counts.Powers(cmp.Or(l.params.Beta, 1)); err != nil {
				return fmt.Errorf("db: label model: %w", err)
			}
		}
		l.sets = data.sets
		return nil
	})
}

// liveNeighbors finds neighbours among the live rows, which it numbers in their
// order. It may be used in any goroutine: each search has a guard of its own.
type liveNeighbors struct {
	st     *collState
	source *query.ForestNeighbors
	live   []int
}

func newLiveNeighbors(st *collState, source *query.ForestNeighbors, live []int, without *roaring.Bitmap) *liveNeighbors {
	if without != nil {
		rows := roaring.New()
		without.Iterate(func(i uint32) bool {
			rows.Add(uint32(live[i]))
			return true
		})
		source = query.NewForestNeighbors(source.View, source.Params, rows)
	}
	return &liveNeighbors{st, source, live}
}

// Neighbors implements query.NeighborSource.
func (n *liveNeighbors) Neighbors(ctx context.Context, s *query.NeighborScratch, q query.NeighborQuery, k int, dst []postings.Hit) (hits []postings.Hit, err error) {
	defer guard(n.st.g.store, setFaults(), &err)
	from := len(dst)
	hits, err = n.source.Neighbors(ctx, s, q, k, dst)
	for i := from; i < len(hits); i++ {
		at, _ := slices.BinarySearch(n.live, int(hits[i].Row))
		hits[i].Row = uint32(at)
	}
	return hits, err
}
