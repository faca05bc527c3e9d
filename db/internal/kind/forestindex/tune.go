package forestindex

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// trial holds the queries that measure a forest learned without the held-out points. The
// held-out rows, and all rows that equal one of them, are excluded from the training points and
// also from the answers, so that a query is as new to the forest as a user's query.
type trial struct {
	*split      // of the training points
	queries     [][]float32
	truth       [][]uint32
	users       query.QuerySet // queries of users, none if there are too few
	deletedRows *roaring.Bitmap
	k           int
}

// newTrial determines the held-out points and their true neighbors.
func newTrial(ctx context.Context, st kind.Source, t *training, base *query.View,
	o options) (*trial, error) {
	parts, err := t.splitFor(ctx, o)
	if err != nil {
		return nil, err
	}
	tr := &trial{split: parts, deletedRows: roaring.New(), k: o.TuneK}
	if base.Deleted != nil {
		tr.deletedRows.Or(base.Deleted)
	}
	if t.own {
		for _, i := range tr.hidden {
			tr.deletedRows.Add(t.points.id(i))
		}
	}
	live := base.Rows.N - int(tr.deletedRows.GetCardinality())
	tr.k = min(tr.k, live)
	if tr.k < 1 {
		return nil, fmt.Errorf("%w: too few to tune on", fail.ErrUnsuitable)
	}
	buf := make([]float32, t.dim)
	k := min(trueK(o), live)
	for j, i := range tr.hold {
		if t.own {
			tr.queries = append(tr.queries, slices.Clone(base.Rows.Vector(int(t.points.id(i)), buf)))
		} else {
			tr.queries = append(tr.queries, o.TrainingQueries[t.points.id(i)])
		}
		// The labels are neighbors of rows. Under inner product they differ from the answers to the
		// same vectors as queries, which have no lift.
		var truth []uint32
		if t.truth != nil && t.metric != vector.InnerProduct {
			truth = slices.DeleteFunc(slices.Clone(t.truth.Row(j)), tr.deletedRows.Contains)
		}
		tr.truth = append(tr.truth, truth[:min(len(truth), k)])
	}
	masked := tr.mask(base)
	err = scanTruth(ctx, masked, query.QuerySet{Queries: tr.queries, Truth: tr.truth}, k)
	if err == nil {
		tr.users, err = usersOf(ctx, st, masked, k)
	}
	if err != nil {
		return nil, fail.Wrapf(err, "tune")
	}
	return tr, nil
}

// trueK returns the number of true neighbors of each held-out row that the tuner needs.
func trueK(o options) int { return max(query.DeepestTruth, o.TuneK) }

// mask returns the view without the held-out rows.
func (tr *trial) mask(v *query.View) *query.View {
	m := *v
	m.Deleted, m.DeletedBits = tr.deletedRows, kind.BitsOf(tr.deletedRows, v.Rows.N)
	m.LiveCount = v.Rows.N - int(tr.deletedRows.GetCardinality())
	return &m
}

// measure tunes queries on a forest.
func (tr *trial) measure(ctx context.Context, l *learned, f *forest.Forest, base *query.View,
	timer *kind.Timer) (curve *query.Curve, err error) {
	v := tr.mask(l.view(f, base))
	if err := v.Validate(); err != nil {
		return nil, fail.Wrapf(err, "tune")
	}
	set := query.QuerySet{Queries: tr.queries, Truth: tr.truth}
	err = timer.Run("tune", func(report func(int, int)) error {
		o := query.TuneOptions{K: tr.k, Workers: kind.WorkersOf(ctx), Progress: report}
		if curve, err = query.Tune(ctx, v, set, o); err == nil {
			err = curve.Observe(ctx, v, set)
		}
		if err == nil && len(tr.users.Queries) > 0 {
			curve, err = curve.Bound(ctx, v, tr.users, o.Workers)
		}
		if err == nil {
			curve.Rows, curve.Measured = v.LiveCount+len(tr.hidden), time.Now().UTC()
		}
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(kind.AsParameter(err), "tune")
	}
	return curve, nil
}

// view returns the view that queries will use, with the index still in memory.
func (l *learned) view(f *forest.Forest, base *query.View) *query.View {
	v := *base
	v.N, v.Forest, v.Rotation = l.n, f, l.rotation
	v.RawForest = l.opts.Coordinates == 0
	if l.rotation != nil && l.metric == vector.L2 {
		v.ByteRotation = l.rotation.Bytes()
	}
	if l.metric == vector.InnerProduct {
		v.Lift, v.LiftNorm = true, l.lift
	}
	if l.sketch != nil {
		v.Sketch = l.encoder.View([][]byte{l.sketch}, 31)
	}
	if k := l.opts.ListNeighbors; k > 0 {
		v.Neighbors = &query.NeighborView{Blocks: l.hops, Shift: neighborShift(k), K: k}
	}
	return &v
}

// tune measures settings on the stored rows, with a forest that is learned without the held-out points, so
// that these are as new to it as queries of users are.
func (l *learned) tune(ctx context.Context, st kind.Source, t *training, job *kind.Job, o options) error {
	view, err := st.Rows(ctx)
	if err != nil {
		return err
	}
	base := part(view, job.First, job.End)
	var tr *trial
	err = job.Timer.Run("tune", func(func(int, int)) (err error) {
		tr, err = newTrial(ctx, st, t, &base, o)
		return err
	})
	if err != nil {
		return err
	}
	f, err := l.growForest(ctx, t, o, tr.learn, job.Timer, "tuning trees")
	if err == nil {
		l.curve, err = tr.measure(ctx, l, f, &base, job.Timer)
	}
	return err
}
