// Package forestindex is the kind of index that finds rows of a dense collection: a forest with
// sketches, neighbor lists and an 8-bit copy, which packages trees/forest and query learn and
// search.
package forestindex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
)

// Kind implements forests over a dense collection, with the other structures that queries
// need: sketches, neighbor lists, an 8-bit copy.
type Kind struct{}

func (Kind) Suits(sparse bool) bool { return !sparse }
func (Kind) Predicts() bool         { return false }
func (Kind) Composes() bool         { return true }
func (Kind) Detail() kind.Detail    { return &detail{} }

func (Kind) Options() index.Options { return &index.Forest{} }

// detail is the detail of a forest.
type detail struct {
	kind.PlainDetail
	Lift float32 // inner product: the bound M of the lift sqrt(M²-|x|²)
	// Runs lists the blocks of the sections of a forest that maintenance has changed; a section
	// without an entry is in the manifest's object.
	Runs map[codec.Kind][]arrays.Run `json:",omitempty"`
	// FromRows is set if the forest was learned from the rows, not from training queries, which are
	// not stored.
	FromRows bool `json:",omitempty"`
	Trees    treesManifest
	Rotation int // stored rotated coordinates, 0 for none

	SketchWidth int
	SketchShift uint
	SketchSigns bool      `json:",omitempty"`
	SketchSteps []float32 `json:",omitempty"`

	// Centers is the number of centers of sketches of signs.
	Centers                  int     `json:",omitempty"`
	CenterShift              uint    `json:",omitempty"`
	CenterOffset, CenterStep float32 `json:",omitempty"`

	NeighborK int

	// Probes is the number of probes, Watched the number of rows that were covered and WatchedDead
	// the number of these that were deleted when they last measured the recall; Watched is 0 if they
	// have not since the trees were grown.
	Probes               int `json:",omitempty"`
	Watched, WatchedDead int `json:",omitempty"`

	QuantShift  uint
	QuantOffset float32
	QuantStep   float32
	Quantized   bool
}

// treesManifest holds the scalar fields of a forest.Forest.
type treesManifest struct {
	Params  forest.Params
	Dim     int
	CorpusN int // rows that the index covered when the trees were grown
	Coord   string
	DirW    int
	Points  int // training points of the trees
}

// optionsOf returns the resolved options in a forest's manifest.
func optionsOf(m *kind.Manifest) *options { return (*options)(m.Options.(*index.Forest)) }

// detailOf returns the detail of a forest's manifest.
func detailOf(m *kind.Manifest) *detail { return m.Own.(*detail) }

// Rebuilds reports whether the forest was learned from the rows.
func (f *detail) Rebuilds() bool { return f.FromRows }

// Objects returns the objects that hold its runs.
func (f *detail) Objects() (out []uint64) {
	for _, runs := range f.Runs {
		for _, r := range runs {
			out = append(out, r.Object)
		}
	}
	return out
}

// Check refuses values that no build can have written.
func (f *detail) Check(m *kind.Manifest, _ *kind.Segment) error {
	p, o := f.Trees.Params, optionsOf(m)
	step := func(x float32) bool { return x > 0 && !math.IsInf(float64(x), 1) }
	scale := func(offset, step float32) bool { last := offset + 255*step; return last-last == 0 }
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{arrays.ValidRuns(f.Runs), "runs of blocks"},
		{m.Dim >= 1 && m.Dim <= kind.MaxDim, "dimension"},
		{p.Trees >= 1 && p.Trees <= maxTrees && p.Depth >= 1 && p.Depth <= maxDepth, "forest shape"},
		// These options determine the work of the next build.
		{o.Trees == p.Trees && o.Depth == p.Depth, "options of another forest"},
		{p.LabelsK >= 0 && p.LabelsK <= maxLeafNeighbors, "labels of a leaf"},
		{f.Trees.Dim >= 1 && f.Trees.Dim <= kind.MaxDim+1, "forest dimension"},
		{f.Trees.DirW >= 0 && f.Trees.DirW <= kind.MaxDim+1, "direction width"},
		{f.Lift >= 0, "length of lifted rows"},
		{f.Rotation >= 0 && f.Rotation <= kind.MaxDim+1, "rotation"},
		{f.SketchWidth == 0 || query.SketchWidth(f.SketchWidth, f.SketchSigns), "sketch width"},
		{f.SketchShift <= 24, "sketch blocks"},
		{!slices.ContainsFunc(f.SketchSteps, func(x float32) bool { return !step(x) }), "sketch steps"},
		{f.Centers >= 0 && f.Centers <= query.CenterGroups(m.Info.Rows) && f.CenterShift <= 24 &&
			(f.Centers == 0 || step(f.CenterStep) && scale(f.CenterOffset, f.CenterStep) && f.SketchSigns),
			"centers of sketches"},
		{f.NeighborK >= 0 && f.NeighborK <= maxListNeighbors, "neighbors a row"},
		{f.QuantShift <= 24 && (!f.Quantized || step(f.QuantStep) && scale(f.QuantOffset, f.QuantStep)),
			"8-bit copy"},
		{f.Probes >= 0 && f.Probes <= min(maxProbes, m.Info.Rows), "probes"},
		{f.Watched >= 0 && f.Watched <= m.Info.Rows && f.WatchedDead >= 0 && f.WatchedDead <= f.Watched,
			"rows measured"},
		{f.Trees.CorpusN >= 0 && f.Trees.CorpusN <= m.Info.Rows, "rows of the trees"},
	} {
		if !c.ok {
			return errors.New(c.what)
		}
	}
	if c := m.Info.Curve; c != nil {
		return c.Validate(p.Natural, p.Members)
	}
	return nil
}

// opened is a forest in one generation.
type opened struct {
	view *query.View
	st   kind.Source
	m    *kind.Manifest
}

// Open assembles the view of a stored forest.
func (Kind) Open(ctx context.Context, st kind.Source, m *kind.Manifest) (kind.Opened, error) {
	base, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	v, err := loadView(ctx, st, m, *base)
	return &opened{v, st, m}, err
}

func (x *opened) RowView() *query.View { return x.view }

// LeafSizes returns the number of training points, or of rows where only these are stored, in each
// leaf of all trees.
func (x *opened) LeafSizes() []int {
	var sizes []int
	f := x.view.Forest
	if f == nil {
		return nil
	}
	natural := len(f.LeafDir) > 0
	for t := range f.Trees {
		for leaf := range 1 << f.Depth {
			var b forest.LeafBlock
			if natural {
				b = f.Leaf(t, leaf)
			} else {
				b = f.MemberLeaf(t, leaf)
			}
			sizes = append(sizes, int(b.Points()))
		}
	}
	return sizes
}

// mostRows is the number of rows within a radius beyond which an exact scan costs less than a search.
const mostRows = 4096

// Search searches the view with the setting for the recall.
func (x *opened) Search(ctx context.Context, s *kind.Search) error {
	return s.Widen(func(k int) (more bool, err error) {
		p, err := x.setting(s, k)
		if err != nil {
			return false, err
		}
		return s.InView(ctx, x.view, p, k)
	})
}

// setting returns the parameters of a search for k rows. They are those of the exact scan if no measured
// setting reaches the recall, or if there were too few rows to measure any.
func (x *opened) setting(s *kind.Search, k int) (p query.Params, err error) {
	if s.Params != nil {
		return *s.Params, nil
	}
	if x.m.Info.Curve == nil && optionsOf(x.m).NoTune {
		return p, fmt.Errorf("%w: index %q was built without the tuner: a search by it needs its parameters",
			fail.Option, x.m.Info.Name)
	}
	p, ok := x.m.Info.Curve.Setting(s.Recall, k)
	if !ok || k >= x.view.LiveCount || s.Within() && k > mostRows {
		return query.Params{Method: query.Flat}, nil
	}
	return p, nil
}

// Check checks trees, probes and neighbor lists.
func (x *opened) Check(ctx context.Context) error {
	f := x.view.Forest
	if err := f.Validate(); err != nil {
		return err
	}
	if _, err := loadProbes(ctx, x.st, x.m); err != nil {
		return err
	}
	if x.view.Neighbors == nil {
		return nil
	}
	return x.view.Neighbors.Check(x.view.N)
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
	switch {
	case o.tunes():
		if o, err = tuneOn(ctx, job, l, t, o); err != nil {
			return nil, err
		}
	case o.Learner == anyLearner:
		o = choices(o)[0]
	}
	l.opts = o
	if l.forest == nil {
		if l.forest, err = l.growForest(ctx, t, o, nil, timer, "trees"); err != nil {
			return nil, err
		}
	}
	l.points = t.points.Len()
	return l, nil
}

// trainingSet reads the live rows of the latest generation into memory and resolves
// the options for them.
func trainingSet(ctx context.Context, job *kind.Job) (t *training, o options, err error) {
	o = options(*job.Given.(*index.Forest))
	if b := job.Before; b != nil && !b.Untuned {
		o.Learner = optionsOf(b).Learner
	}
	err = job.Latest(func(st kind.Source) error {
		c := st.Collection()
		if c.Live == 0 {
			return fmt.Errorf("%w: %q", fail.Empty, c.Name)
		}
		o = o.resolve(int(c.Live), c.Dim)
		for i, q := range o.TrainingQueries {
			if err := kind.CheckQuery(q, c.Dim); err != nil {
				return fail.Wrapf(err, "training query %d", i)
			}
		}
		return job.Timer.Run("read", func(report func(int, int)) (err error) {
			t, err = readTraining(ctx, st, o.TrainingQueries, report)
			return err
		})
	})
	return t, o, err
}

// readTraining copies all rows from the map, and maps them to the partition space. Without queries, the live
// rows are the training points.
func readTraining(ctx context.Context, st kind.Source, queries [][]float32,
	report func(int, int)) (*training, error) {
	view, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	n, dim := view.Rows.N, st.Collection().Dim
	data := make([]float32, n*dim)
	for i := range n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fail.Wrapf(err, "build")
			}
			report(i, n)
		}
		if i&(1<<view.Rows.Shift-1) == 0 {
			view.Rows.RequestChunk(i >> view.Rows.Shift)
		}
		dst := data[i*dim : (i+1)*dim]
		if src := view.Rows.Vector(i, dst); &src[0] != &dst[0] {
			copy(dst, src)
		}
	}
	t := &training{own: true, dim: dim, metric: st.Collection().Metric}
	t.corpus.rows, t.lift = prepare(t.metric, data, n, dim)
	if view.Deleted != nil {
		t.corpus.ids = make([]uint32, 0, st.Collection().Live)
		for row := range uint32(n) {
			if !view.Deleted.Contains(row) {
				t.corpus.ids = append(t.corpus.ids, row)
			}
		}
	}
	t.points = t.corpus
	if len(queries) > 0 {
		t.own = false
		t.points = subset{rows: prepareQueries(t.metric, queries, dim, t.lift)}
	}
	return t, nil
}

// tuneOn tunes on the stored rows.
func tuneOn(
	ctx context.Context, job *kind.Job, l *learned, t *training, o options,
) (_ options, err error) {
	err = job.Latest(func(st kind.Source) error {
		view, err := st.Rows(ctx)
		if err != nil {
			return err
		}
		base := *view
		base.Rows.N = l.n // the truth excludes rows written since the build began
		base.N = l.n
		o, err = l.tune(ctx, st, t, &base, o, job.Timer)
		return err
	})
	return o, err
}

// firstObject returns the object that holds the first block of a section.
func (f *detail) firstObject(own uint64, kind codec.Kind) uint64 {
	if runs := f.Runs[kind]; len(runs) > 0 {
		return runs[0].Object
	}
	return own
}

// located lists the locations of the n blocks of a section, one run per block.
func (f *detail) located(own uint64, kind codec.Kind, n int) []arrays.Run {
	if runs, ok := f.Runs[kind]; ok {
		return arrays.Located(runs, n)
	}
	return arrays.Located([]arrays.Run{{Object: own}}, n)
}
