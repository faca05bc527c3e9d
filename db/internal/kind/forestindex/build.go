package forestindex

import (
	"cmp"
	"context"
	"fmt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// learned holds everything a build makes before it is written: the forest, the rotation, the
// sketches and the lists, over the row numbers [0, n).
type learned struct {
	n         int
	opts      options
	metric    vector.Metric
	dim       int
	lift      float32
	forest    *forest.Forest
	rotation  *forest.Rotation
	rotated   *flatRows // all rows in principal coordinates; not stored
	mean      []float32 // of the rows, in the coordinates of the training set
	reduced   *flatRows // coordinates for approximate labels, until these are found
	outside   []float32 // of the live rows: the squared length outside reduced
	encoder   query.SketchEncoder
	sketch    []byte // n * encoder.Width
	hops      []query.NeighborBlock
	curve     *query.Curve
	points    int // training points
	neighbors *index.NeighborReport
	reached   float64 // share of rows to which paths along hops lead
	foreign   bool    // the training points are queries
	small     bool    // the segment shares the rotation of the large one
	dead      int     // rows that were deleted
}

func (l *learned) Describe(m *kind.Manifest) {
	i, opts := &m.Info, index.Forest(l.opts)
	opts.TrainingQueries = nil
	m.Options, m.Foreign, m.Untuned = &opts, l.foreign, !opts.NoTune && l.curve == nil
	i.Rows, i.Curve, i.TrainingPoints, i.Neighbors, i.Reached = l.n, l.curve, l.points, l.neighbors, l.reached
}

// Build learns a forest, tuned unless there are too few rows.
func (Kind) Build(ctx context.Context, job *kind.Job) (kind.Built, error) {
	timer := job.Timer
	t, o, err := trainingSet(ctx, job)
	if err != nil {
		return nil, err
	}
	l, err := learnRest(ctx, t, o, timer)
	if err != nil {
		return nil, err
	}
	if o.tunes() {
		if err := job.Latest(func(st kind.Source) error { return l.tune(ctx, st, t, job, o) }); err != nil {
			return nil, err
		}
	}
	if l.forest, err = l.growForest(ctx, t, o, nil, timer, "trees"); err != nil {
		return nil, err
	}
	l.points = t.points.Len()
	return l, nil
}

// trainingSet reads the live rows of the segment from the latest generation into memory and resolves
// the options for them.
func trainingSet(ctx context.Context, job *kind.Job) (t *training, o options, err error) {
	o = options(*job.Given.(*index.Forest))
	if b := cmp.Or(job.Base, job.Before); b != nil && !b.Untuned {
		o.Learner, o.Coordinates = optionsOf(b).Learner, optionsOf(b).Coordinates
	}
	err = job.Latest(func(st kind.Source) error {
		c := st.Collection()
		view, err := st.Rows(ctx)
		if err != nil {
			return err
		}
		live := job.End - job.First - kind.DeletedWithin(view.Deleted, job.First, job.End-job.First)
		if live == 0 {
			return fmt.Errorf("%w: %q", fail.Empty, c.Name)
		}
		o = o.resolve(live, c.Dim)
		for i, q := range o.TrainingQueries {
			if err := kind.CheckQuery(q, c.Dim); err != nil {
				return fail.Wrapf(err, "training query %d", i)
			}
		}
		return job.Timer.Run("read", func(report func(int, int)) (err error) {
			t, err = readTraining(ctx, st, job, o.TrainingQueries, report)
			return err
		})
	})
	return t, o, err
}

// part returns a view of rows [first, end) of a collection, numbered from 0, without an index.
func part(v *query.View, first, end int) query.View {
	out := query.View{Metric: v.Metric, Dim: v.Dim, Rows: v.Rows}
	if out.Rows.N = end; first > 0 {
		out.Rows = v.Rows.Part(first, end)
	}
	n := end - first
	out.N = n
	out.Deleted = kind.Within(v.Deleted, first, n)
	out.DeletedBits = kind.BitsOf(out.Deleted, n)
	out.LiveCount = n
	if out.Deleted != nil {
		out.LiveCount -= int(out.Deleted.GetCardinality())
	}
	return out
}

// learnRest makes everything except the forest. It does not access storage, so it can run for
// minutes concurrently with readers and writers.
func learnRest(ctx context.Context, t *training, o options,
	timer *kind.Timer) (*learned, error) {
	l := &learned{
		n: t.total(), dead: t.total() - t.corpus.Len(), opts: o, lift: t.lift, metric: t.metric, dim: t.dim,
		foreign: !t.own, small: t.base != nil,
	}
	if err := l.project(ctx, t, o, timer); err != nil {
		return nil, err
	}
	if err := t.findLabels(ctx, l, o, timer); err != nil {
		return nil, err
	}
	l.neighbors = t.report
	err := timer.Run("sketch", func(func(int, int)) error {
		if !o.NoSketches {
			if err := l.makeSketches(ctx, t, o); err != nil {
				return err
			}
		}
		if o.ListNeighbors > 0 {
			lists, reached, err := t.graph(ctx, o.ListNeighbors)
			if err != nil {
				return err
			}
			l.hops, l.reached = packed(lists, o.ListNeighbors), reached
		}
		return ctx.Err()
	})
	return l, err
}

// rotate returns all rows in principal coordinates.
func rotate(ctx context.Context, r *forest.Rotation, rows *flatRows) *flatRows {
	out := &flatRows{make([]float32, rows.n*r.R), rows.n, r.R}
	// The caller checks for cancellation.
	_ = par.Each(ctx, par.Work{N: rows.n, Grain: 256, Workers: kind.WorkersOf(ctx)}, func(i int) error {
		r.Apply(rows.Row(i, nil), out.Row(i, nil))
		return nil
	})
	return out
}

// space returns points in the coordinates that the trees of o split on.
func (l *learned) space(ctx context.Context, s subset, rows *flatRows, o options) subset {
	if o.Coordinates == 0 {
		return s
	}
	rotated := l.rotated
	if s.rows != rows {
		rotated = rotate(ctx, l.rotation, s.rows)
	}
	return subset{rows: rotated.leading(min(o.Coordinates, rotated.d)), ids: s.ids}
}

// growForest learns the trees of o from the training points at the given positions, or from all
// points if at is nil.
func (l *learned) growForest(ctx context.Context, t *training, o options, at []int,
	timer *kind.Timer, stage string) (f *forest.Forest, err error) {
	points, lab := t.points, t.labels
	if at != nil {
		points, lab = t.only(at)
	}
	params := forest.Params{
		Kind: forest.Kind(o.Learner), Trees: o.Trees, Depth: o.Depth, LabelsK: min(o.LeafNeighbors, lab.K),
		Seed: o.Seed, Members: o.Members, Natural: !o.NoTables,
	}
	err = timer.Run(stage, func(report func(int, int)) error {
		if o.Members {
			// Leaves list row numbers including deleted rows, so all rows are routed,
			// independently of the training points.
			params.Corpus = l.space(ctx, subset{rows: t.corpus.rows}, t.corpus.rows, o)
		}
		f, err = forest.Learn(ctx, l.space(ctx, points, t.corpus.rows, o), l.n, lab, params,
			kind.WorkersOf(ctx), report)
		return err
	})
	if err != nil {
		return nil, fail.Wrapf(kind.AsParameter(err), "%s", stage)
	}
	return f, nil
}
