package forestindex

import (
	"context"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// findLabels computes the labels of the training points and, if hop lists need them, of the
// rows.
func (t *training) findLabels(ctx context.Context, l *learned, o options,
	timer *kind.Timer) error {
	var err error
	if t.own {
		// One more than the hop lists hold, because a row's first label is the row itself.
		k := min(max(o.LeafNeighbors, o.ListNeighbors+1), t.corpus.Len())
		t.labels, err = t.ofRows(ctx, l, k, o, timer)
		t.hops = t.labels
		return err
	}
	if t.labels, err = t.exact(ctx, t.points, o.LeafNeighbors, timer); err != nil {
		return err
	}
	if o.ListNeighbors > 0 {
		t.hops, err = t.ofRows(ctx, l, min(o.ListNeighbors+1, t.corpus.Len()), o, timer)
	}
	return err
}

// exact computes the exact labels of queries, or of the live rows if queries is nil.
func (t *training) exact(
	ctx context.Context, queries labels.Rows, k int, timer *kind.Timer,
) (lab *labels.Neighbors, err error) {
	err = timer.Run("labels", func(report func(int, int)) error {
		lab, err = labels.ExactNeighbors(ctx, t.corpus, queries, k, kind.WorkersOf(ctx), report)
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(err, "labels")
	}
	t.toRows(lab)
	return lab, nil
}

// ofRows computes the labels of the live rows, exact or approximate. The sample for approximate
// labels consists of the points that the tuner holds out, which need exact labels anyway.
func (t *training) ofRows(ctx context.Context, l *learned, k int, o options,
	timer *kind.Timer) (*labels.Neighbors, error) {
	if o.Source != neighborsApproximate {
		return t.exact(ctx, nil, k, timer)
	}
	p := labels.ApproximateOptions{Seed: o.Seed, Workers: kind.WorkersOf(ctx), Outside: l.outside}
	if t.own && o.tunes() {
		parts, err := t.splitFor(ctx, o)
		if err != nil {
			return nil, err
		}
		p.Sample, p.SampleK = parts.hold, trueK(o)*9/8 // some are held out
	}
	var a *labels.Approximation
	err := timer.Run("labels", func(report func(int, int)) (err error) {
		a, err = labels.ApproximateNeighbors(ctx, t.corpus,
			subset{rows: l.reduced, ids: t.corpus.ids}, k, p, report)
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(err, "labels")
	}
	t.toRows(a.Neighbors)
	if p.Sample != nil {
		t.toRows(a.Exact)
		t.truth = a.Exact
	}
	t.report = &index.NeighborReport{K: a.Neighbors.K, Sample: len(a.Sample), Recall: a.Recall,
		HeadRecall: a.HeadRecall, Rounds: a.Rounds}
	l.reduced, l.outside = nil, nil
	return a.Neighbors, nil
}

// toRows converts positions of live rows to row numbers.
func (t *training) toRows(lab *labels.Neighbors) {
	if t.corpus.ids == nil {
		return
	}
	for i, id := range lab.IDs {
		lab.IDs[i] = t.corpus.ids[id]
	}
}

// Approximate labels are found over codes of this many principal coordinates: narrow codes fill
// one cache line, wide ones two.
const (
	narrowCodes = 60
	wideCodes   = 124
	// kept is the share of the squared lengths that narrow codes must keep.
	kept = 0.8
	// keptRows is the number of rows on which shares of lengths are measured.
	keptRows = 1000
	// pcaSample is the number of rows from which principal coordinates are learned.
	pcaSample = 10_000
)

// project learns the rotation, unless the large segment has it, and rotates all rows: for the trees and the
// sketches of the index, and for approximate labels, which may need more coordinates.
func (l *learned) project(ctx context.Context, t *training, o options,
	timer *kind.Timer) error {
	inner := t.corpus.rows.d
	coords := o.coordinates(inner)
	requested := coords
	approximate := o.Source == neighborsApproximate && (t.own || o.ListNeighbors > 0)
	if approximate {
		requested = max(requested, min(wideCodes, inner))
	}
	if requested == 0 {
		return nil
	}
	return timer.Run("rotate", func(func(int, int)) error {
		if t.base != nil && t.base.rotation != nil {
			l.useRotation(ctx, t.base.rotation, t)
			if !approximate {
				return ctx.Err()
			}
		}
		whole, err := forest.PCA(ctx, t.corpus, requested, pcaSample, o.Seed, kind.WorkersOf(ctx))
		if err != nil {
			return fail.Wrapf(kind.AsParameter(err), "rotate")
		}
		if coords > 0 && l.rotation == nil {
			l.useRotation(ctx, whole.Leading(coords), t)
		}
		if approximate {
			l.reduce(ctx, whole, t)
		}
		if approximate && t.base == nil && o.Coordinates > 0 && o.SketchBytes <= vector.PackedWidth {
			l.mean = t.turn(l.rotation, l.rotated)
		}
		return ctx.Err()
	})
}

// useRotation rotates all rows.
func (l *learned) useRotation(ctx context.Context, r *forest.Rotation, t *training) {
	l.rotation, l.rotated, l.mean = r, rotate(ctx, r, t.corpus.rows), r.Mean
}

// reduce computes the coordinates that approximate labels use.
func (l *learned) reduce(ctx context.Context, whole *forest.Rotation, t *training) {
	rows := t.corpus
	r := whole.Leading(narrowCodes)
	if keptBy(r, rows) < kept {
		r = whole.Leading(wideCodes)
	}
	if t.base == nil && l.rotated != nil && l.rotated.d >= r.R {
		l.reduced = l.rotated.leading(r.R)
	} else {
		l.reduced = rotate(ctx, r, rows.rows)
	}
	l.outside = make([]float32, rows.Len())
	// The caller checks for cancellation.
	_ = par.Each(ctx, par.Work{N: rows.Len(), Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		x := l.reduced.Row(int(rows.id(i)), nil)
		l.outside[i] = max(0, vector.L2Squared(rows.Row(i, nil), r.Mean)-vector.Dot(x, x))
		return nil
	})
}
