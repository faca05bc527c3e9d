package lcifindex

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// forestRecall is the recall with which a label model searches its forest.
const forestRecall = 0.95

// forestKs are the values of k that are tuned with a forest, whose searches for many rows take long.
var forestKs = []int{1, 3, 5, 10, 20, 30, 50, 100}

// resolveNeighbors fills in the index that finds neighbors for the label model that a job builds.
func resolveNeighbors(st kind.Source, job *kind.Job, o *options) error {
	name, c := job.Name, st.Collection()
	switch {
	case c.Sparse && (o.Neighbors == "" || o.Neighbors == byText):
		return nil
	case c.Sparse && c.Vectors == 0:
		return fmt.Errorf("%w: neighbors by %s, and collection %q has no vectors", fail.Option, o.Neighbors, c.Name)
	case job.Before != nil:
		return storedNeighbors(st, name, o)
	case o.Weight == labelled.WeightStandard || o.Neighbors == kind.ScanName:
		o.uses = kind.ScanName
		return nil
	case c.Sparse || o.Neighbors == "":
		return firstForest(st, name, o)
	case o.Neighbors == name:
		return errOwnNeighbors(name, c.Name)
	}
	tuned, err := tunedForest(st, o.Neighbors)
	if err == nil && !tuned {
		err = fmt.Errorf("%w: index %q of %q is no tuned forest", fail.Option, o.Neighbors, c.Name)
	}
	o.uses = o.Neighbors
	return err
}

// errOwnNeighbors returns the error for a label model that would replace the forest that finds
// its neighbors.
func errOwnNeighbors(name, coll string) error {
	return fmt.Errorf("%w: label model %q of %q would replace the forest %q that finds its neighbours: "+
		"give the model another name, or set its neighbours to another forest or %q",
		fail.Option, name, coll, name, kind.ScanName)
}

// tunedForest reports whether an index is a forest that the tuner has measured.
func tunedForest(st kind.Source, name string) (bool, error) {
	m, err := st.ManifestNamed(name)
	switch {
	case err != nil:
		return false, err
	case m == nil:
		return false, fail.Wrapf(fail.NoIndexNamed(name, st.Collection().Name, st.Collection().Indexes),
			"neighbors")
	}
	return !m.Of.Traits().Predicts && m.Info.Curve != nil, nil
}

// firstForest fills in the first tuned forest by name, or ScanName if there is no tuned forest. If
// the only tuned forest has the model's own name, it returns an error.
func firstForest(st kind.Source, name string, o *options) error {
	replaced := false
	for _, x := range st.Collection().Indexes {
		tuned, err := tunedForest(st, x)
		switch {
		case err != nil:
			return err
		case !tuned:
		case x == name:
			replaced = true
		default:
			o.uses = x
			return nil
		}
	}
	if replaced {
		return errOwnNeighbors(name, st.Collection().Name)
	}
	o.uses = kind.ScanName
	return nil
}

// storedNeighbors resolves the neighbors of a stored model that is rebuilt. The name of a
// dropped forest is kept, since a forest may be built under that name again; the name of an
// index of another kind becomes ScanName.
func storedNeighbors(st kind.Source, name string, o *options) error {
	m, err := st.ManifestNamed(o.uses)
	if m != nil && (o.uses == name || m.Of.Traits().Predicts) {
		o.uses = kind.ScanName
	}
	return err
}

// nearest finds neighbors by the vectors of rows, nearest first by the collection's metric. Their
// similarity is always the cosine.
type nearest struct {
	forest kind.Finder // nil for the exact scan
	view   *query.View // of all rows
	// withFeatures is set if rows have features next to the vectors: queries are compared by their Vector,
	// and one without has no neighbors.
	withFeatures bool
	only         *roaring.Bitmap // the rows that are found, nil for all
}

// vectorSearch is the memory of a search of nearest.
type vectorSearch struct {
	*kind.Search
	coords, row []float32
}

var vectorSearches = sync.Pool{New: func() any { return &vectorSearch{Search: kind.NewSearch()} }}

// denseNeighbors returns what finds neighbors with the named forest, or with a scan if there is no such
// forest.
func denseNeighbors(ctx context.Context, st kind.Source, name string) (*nearest, error) {
	base, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	out := &nearest{view: base}
	if name == kind.ScanName {
		return out, nil
	}
	// Only forests are loaded, which depend on no other index: a name that leads to a label model, such as
	// one that has replaced the forest, is a scan.
	m, err := st.ManifestNamed(name)
	if err != nil || m == nil || m.Of.Traits().Predicts || m.Info.Curve == nil {
		return out, err
	}
	x, err := st.OpenNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	out.forest, _ = x.(kind.Finder)
	return out, nil
}

// Neighbors implements lcif.NeighborSource.
func (n *nearest) Neighbors(
	ctx context.Context, s *lcif.NeighborScratch, q lcif.NeighborQuery, k int, dst []postings.Hit,
) ([]postings.Hit, error) {
	err := n.each(ctx, s, q, k, func(f vector.Neighbor, similarity float64) {
		dst = append(dst, postings.Hit{Row: f.ID, Score: similarity})
	})
	return dst, err
}

// each calls f with the nearest rows and their similarities.
func (n *nearest) each(
	ctx context.Context, s *lcif.NeighborScratch, q lcif.NeighborQuery, k int,
	f func(f vector.Neighbor, similarity float64),
) (err error) {
	s.Stats = postings.Stats{}
	x := q.Vector
	if n.withFeatures && x == nil {
		return nil
	}
	at := vectorSearches.Get().(*vectorSearch) // not returned to the pool if there is an error
	if !n.withFeatures {
		at.coords = slices.Grow(at.coords[:0], n.view.Dim)[:n.view.Dim]
		x = at.coords
		clear(x)
		for i, j := range q.Raw.Index {
			x[j] = q.Raw.Value[i]
		}
	}
	at.Begin(kind.Ask{Vector: x, K: k, Radius: float32(math.Inf(1)), Recall: forestRecall, Rows: n.only})
	if n.forest != nil {
		err = n.forest.Search(ctx, at.Search)
	} else {
		_, err = at.InView(ctx, n.view, query.Params{Method: query.Flat}, k)
	}
	if err != nil {
		return err
	}
	s.Stats.Candidates, s.Stats.Scored = at.Stats.Candidates, at.Stats.Exact
	for _, row := range at.Found {
		d := row.Distance
		if n.view.Metric != vector.Cosine {
			at.row = slices.Grow(at.row[:0], n.view.Dim)[:n.view.Dim]
			d = vector.CosineDistance(x, n.view.Rows.Vector(int(row.ID), at.row))
		}
		f(row, lcif.Similarity(d))
	}
	vectorSearches.Put(at)
	return nil
}

// Among implements lcif.NeighborSource.
func (n *nearest) Among(rows *roaring.Bitmap) lcif.NeighborSource {
	out := *n
	if out.only = rows; n.only != nil {
		out.only = roaring.And(rows, n.only)
	}
	return &out
}

// Scanned implements lcif.Scanner.
func (n *nearest) Scanned() *lcif.ScaledNeighbors {
	if n.forest != nil || n.view.Metric == vector.InnerProduct {
		return nil
	}
	return &lcif.ScaledNeighbors{View: n.view, Only: n.only}
}

// modelNeighbors returns the neighbor source of a label model of dense rows: a scan of scaled
// rows if the model has a scale, otherwise denseNeighbors.
func modelNeighbors(
	ctx context.Context, st kind.Source, name string, scale *lcif.Scaling,
) (lcif.NeighborSource, error) {
	if scale == nil {
		return denseNeighbors(ctx, st, name)
	}
	base, err := st.Rows(ctx)
	if err != nil {
		return nil, err
	}
	return &lcif.ScaledNeighbors{View: base, Scaling: scale}, nil
}

// learnDense learns the model of a dense collection, whose rows are in the map.
func (l *learned) learnDense(
	ctx context.Context, st kind.Source, data *labelled.Rows, o options, timer *kind.Timer,
) error {
	source, err := denseNeighbors(ctx, st, o.uses)
	if err != nil {
		return err
	}
	var candidates []weighted
	for _, w := range o.denseCandidates() {
		if w == labelled.WeightStandard {
			candidates = append(candidates, scaled(st, source.view, data))
			continue
		}
		cv := lcif.CVOptions{Neighbors: source}
		candidates = append(candidates, weighted{weight: w, data: data, cv: cv})
	}
	best, err := l.choose(ctx, candidates, o, timer)
	if err != nil {
		return err
	}
	l.scale = best.scale
	return l.count(ctx, best.data, false, timer)
}

// compareVectors sets what compares the vectors that rows have next to features.
func (o *options) compareVectors(ctx context.Context, st kind.Source) error {
	source, err := denseNeighbors(ctx, st, o.uses)
	if err != nil {
		return err
	}
	source.withFeatures = true
	o.cv = lcif.CVOptions{
		Neighbors: source, Vector: vectorOf(source.view), VectorWeight: o.VectorWeight,
	}
	return nil
}

// vectorOf returns lcif.View.Vector of the rows of a view.
func vectorOf(of *query.View) func(row uint32, dst []float32) []float32 {
	return func(row uint32, dst []float32) []float32 {
		if of.IsDeleted(row) {
			return nil
		}
		x := slices.Grow(dst[:0], of.Dim)[:of.Dim]
		copy(x, of.Rows.Vector(int(row), x))
		return x
	}
}

// denseCandidates returns the weightings to try in a dense collection. Scaled rows are always
// scanned, so scaling is tried only where the other weightings are scanned, too.
func (o *options) denseCandidates() []string {
	if o.Weight == "" && o.uses != kind.ScanName {
		return []string{labelled.WeightNone}
	}
	return o.candidates(labelled.WeightStandard)
}

// scaled returns the rows of a dense collection with standardized columns. Neighbors are found
// with a scan.
func scaled(st kind.Source, base *query.View, data *labelled.Rows) weighted {
	x := make([]float32, st.Collection().Dim)
	vectorOf := func(row int) []float32 { return base.Rows.Vector(row, x) }
	scale := lcif.FitScaling(st.Collection().Dim, len(data.Live),
		func(i int) []float32 { return vectorOf(data.Live[i]) })
	own := *data
	var y []float32
	own.Rows = data.Mapped(st.Collection().Dim, func(row int) vector.Sparse {
		y = scale.Apply(y[:0], vectorOf(row))
		return kind.Listed(y)
	})
	return weighted{weight: labelled.WeightStandard, data: &own, scale: scale, cv: lcif.CVOptions{
		Neighbors: &lcif.ScaledNeighbors{View: base, Scaling: scale},
	}}
}
