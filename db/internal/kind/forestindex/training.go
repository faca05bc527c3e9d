package forestindex

import (
	"context"
	"math"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// flatRows holds vectors contiguously in memory, as learners read them.
type flatRows struct {
	data []float32
	n, d int
}

func (f *flatRows) Len() int { return f.n }
func (f *flatRows) Dim() int { return f.d }

// Flat returns all rows, stored consecutively, for package labels.
func (f *flatRows) Flat() []float32 { return f.data }
func (f *flatRows) Row(i int, _ []float32) []float32 {
	return f.data[i*f.d : (i+1)*f.d : (i+1)*f.d]
}

// leading returns the first r coordinates of every row.
func (f *flatRows) leading(r int) *flatRows {
	if r == f.d {
		return f
	}
	out := &flatRows{make([]float32, f.n*r), f.n, r}
	for i := range f.n {
		copy(out.data[i*r:(i+1)*r], f.data[i*f.d:])
	}
	return out
}

// subset is a selection of rows of another set, in the order of ids; nil ids select all rows.
type subset struct {
	rows *flatRows
	ids  []uint32
}

func (s subset) Dim() int { return s.rows.d }
func (s subset) Len() int {
	if s.ids == nil {
		return s.rows.n
	}
	return len(s.ids)
}
func (s subset) Row(i int, _ []float32) []float32 { return s.rows.Row(int(s.id(i)), nil) }

// Flat returns the rows stored consecutively, or nil if they are not.
func (s subset) Flat() []float32 {
	if s.ids == nil {
		return s.rows.data
	}
	return nil
}

// id returns the number of element i in the other set.
func (s subset) id(i int) uint32 {
	if s.ids == nil {
		return uint32(i)
	}
	return s.ids[i]
}

var _, _ labels.Rows = (*flatRows)(nil), subset{}

// training is the input of a build, with rows numbered from 0, in the space in which all partitions,
// labels and sketches are Euclidean (see prepare).
type training struct {
	corpus subset // the live rows among all row numbers [0, corpus.rows.n)
	points subset // the training points: the live rows, or training queries
	own    bool   // the points are the live rows
	lift   float32
	dim    int // dimension of the collection
	metric vector.Metric
	labels *labels.Neighbors     // of the points; IDs are row numbers
	hops   *labels.Neighbors     // of the live rows; IDs are row numbers
	truth  *labels.Neighbors     // exact labels of the held-out points, if labels are approximate
	report *index.NeighborReport // of approximate lists
	parts  *split                // of the points, nil until splitFor makes it
	base   *shared               // of the large segment, nil if that is built
}

// manyRows is the number of rows from which on a build keeps one copy of them.
const manyRows = 1 << 20

// exactly is the relative error of squared lengths up to which principal coordinates replace others.
const exactly = 1e-5

// turn replaces the rows by their principal coordinates where these have all of each distance, so that only
// one of both is in memory. It returns the mean of the rows in the coordinates that they then have.
func (t *training) turn(r *forest.Rotation, rotated *flatRows) (mean []float32) {
	rows := t.corpus.rows
	if !t.own || rows.n < manyRows || r.R < rows.d || math.Abs(1-keptBy(r, t.corpus)) > exactly {
		return r.Mean
	}
	t.corpus.rows, t.points.rows = rotated, rotated
	return make([]float32, rows.d)
}

// readTraining copies the rows of a build from the map, and maps them to the partition space. Without
// queries, the live rows are the training points.
func readTraining(ctx context.Context, st kind.Source, job *kind.Job, queries [][]float32,
	report func(int, int)) (*training, error) {
	view, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	n, dim := job.End-job.First, st.Collection().Dim
	data := make([]float32, n*dim)
	for i := range n {
		if i%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, fail.Wrapf(err, "build")
			}
			report(i, n)
		}
		row := job.First + i
		if i == 0 || row&(1<<view.Rows.Shift-1) == 0 {
			view.Rows.RequestChunk(row >> view.Rows.Shift)
		}
		dst := data[i*dim : (i+1)*dim]
		if src := view.Rows.Vector(row, dst); &src[0] != &dst[0] {
			copy(dst, src)
		}
	}
	t := &training{own: true, dim: dim, metric: st.Collection().Metric}
	if job.Base != nil {
		if t.base, err = sharedOf(ctx, st, job.Name); err != nil {
			return nil, err
		}
	}
	t.corpus.rows, t.lift = prepare(t.metric, data, n, dim, t.base)
	if deleted := kind.Within(view.Deleted, job.First, n); deleted != nil {
		t.corpus.ids = make([]uint32, 0, n-int(deleted.GetCardinality()))
		for row := range uint32(n) {
			if !deleted.Contains(row) {
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

// shared is what a small segment takes over from the large one, so that one projection of a query serves
// both.
type shared struct {
	rotation *forest.Rotation    // nil if there is none
	encoder  query.SketchEncoder // without centers
	lift     float32
}

// sharedOf returns a copy of what small segments of an index take over.
func sharedOf(ctx context.Context, st kind.Source, name string) (*shared, error) {
	x, err := st.OpenNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	o := x.(*opened)
	s := &shared{encoder: detailOf(&o.m.Segments[0]).encoder(), lift: o.view.LiftNorm}
	if r := o.view.Rotation; r != nil {
		s.rotation = &forest.Rotation{R: r.R, Dim: r.Dim, Mean: slices.Clone(r.Mean), Bias: slices.Clone(r.Bias),
			Matrix: slices.Clone(r.Matrix)}
	}
	return s, nil
}

// total returns the number of row numbers covered.
func (t *training) total() int { return t.corpus.rows.n }

// prepare maps vectors into that space, in place if possible: to unit length for cosine; with
// one more coordinate sqrt(M²-|x|²) for inner product, where M, the lift, is the length of the
// longest row, or that of the base, so that the nearest lifted row has the largest dot product.
func prepare(
	metric vector.Metric, data []float32, n, d int, base *shared,
) (rows *flatRows, lift float32) {
	switch metric {
	case vector.Cosine:
		for i := range n {
			unit(data[i*d : (i+1)*d])
		}
	case vector.InnerProduct:
		norms, longest := make([]float64, n), 0.0
		for i := range n {
			norms[i] = kind.SquaredNorm(data[i*d : (i+1)*d])
			longest = max(longest, norms[i])
		}
		if lift = float32(math.Sqrt(longest)); base != nil {
			lift = base.lift
		}
		longer := make([]float32, n*(d+1))
		for i := range n {
			copy(longer[i*(d+1):], data[i*d:(i+1)*d])
			longer[i*(d+1)+d] = liftOf(norms[i], lift)
		}
		return &flatRows{longer, n, d + 1}, lift
	}
	return &flatRows{data, n, d}, 0
}

// liftOf returns the last coordinate of a lifted row, given the square of the row's length. It
// is zero for a row longer than all rows that the large segment was built from. Builds and
// searches must all compute it with this function from the stored lift: thresholds of trees are
// values of rows, so a row whose coordinate differed by one bit could be routed to a leaf other
// than the one that counts it.
func liftOf(squared float64, lift float32) float32 {
	return float32(math.Sqrt(max(0, float64(lift)*float64(lift)-squared)))
}

// prepareQueries maps queries into the same space, onto the sphere of the rows.
func prepareQueries(metric vector.Metric, queries [][]float32, d int, lift float32) *flatRows {
	inner := d
	if metric == vector.InnerProduct {
		inner++
	}
	out := &flatRows{make([]float32, len(queries)*inner), len(queries), inner}
	for i, q := range queries {
		x := out.Row(i, nil)
		copy(x, q)
		if metric != vector.L2 {
			unit(x)
		}
		if metric == vector.InnerProduct {
			for j := range x {
				x[j] *= lift
			}
		}
	}
	return out
}

// unit scales x to length one; a zero vector stays zero.
func unit(x []float32) {
	if s := kind.SquaredNorm(x); s > 0 {
		inv := 1 / math.Sqrt(s) // exceeds float32 for denormal coordinates
		for i := range x {
			x[i] = float32(float64(x[i]) * inv)
		}
	}
}

// localHops returns hops with positions of live rows instead of row numbers, nil if there are
// no hops.
func (t *training) localHops() *labels.Neighbors {
	if t.hops == nil || t.corpus.ids == nil {
		return t.hops
	}
	at := make([]uint32, t.total())
	for i, row := range t.corpus.ids {
		at[row] = uint32(i)
	}
	local := &labels.Neighbors{N: t.hops.N, K: t.hops.K, KDist: t.hops.KDist,
		IDs: make([]uint32, len(t.hops.IDs))}
	for i, row := range t.hops.IDs {
		local.IDs[i] = at[row]
	}
	return local
}

// only returns the subset of the training points at the given positions, with their labels.
func (t *training) only(at []int) (subset, *labels.Neighbors) {
	k := t.labels.K
	s := subset{rows: t.points.rows, ids: make([]uint32, len(at))}
	lab := &labels.Neighbors{N: len(at), K: k, IDs: make([]uint32, 0, len(at)*k),
		KDist: make([]float32, 0, len(at))}
	for j, i := range at {
		s.ids[j] = t.points.id(i)
		lab.IDs = append(lab.IDs, t.labels.IDs[i*k:(i+1)*k]...)
		if len(t.labels.KDist) > 0 {
			lab.KDist = append(lab.KDist, t.labels.KDist[i])
		}
	}
	return s, lab
}

// nearLeaf is the number of rows below which their order does not matter.
const nearLeaf = 32

// NearFirst returns the live rows in an order in which near rows follow each other.
func NearFirst(ctx context.Context, st kind.Source) ([]uint32, error) {
	all := &kind.Job{End: int(st.Collection().Rows)}
	t, err := readTraining(ctx, st, all, nil, func(int, int) {})
	if err != nil {
		return nil, err
	}
	order, err := forest.Order(ctx, t.corpus, nearLeaf, 0)
	if err != nil {
		return nil, err
	}
	for i, at := range order {
		order[i] = t.corpus.id(int(at))
	}
	return order, nil
}
