package lcif

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// lcifReference is definitions 5 to 9, read off as they stand, over full
// matrices.
type lcifReference struct {
	x [][]float64 // unit rows
	y [][]bool
}

// similar is the training rows by falling similarity to q, ties by row, as
// far as they share a feature with it; row without is left out.
func (r lcifReference) similar(q []float64, k, without int) (rows []int, sim map[int]float64) {
	sim = map[int]float64{}
	for i, x := range r.x {
		s := 0.0
		for j := range x {
			s += x[j] * q[j]
		}
		if s > 0 && i != without {
			rows = append(rows, i)
			sim[i] = s
		}
	}
	slices.SortFunc(rows, func(a, b int) int { return cmp.Or(cmp.Compare(sim[b], sim[a]), cmp.Compare(a, b)) })
	return rows[:min(k, len(rows))], sim
}

// instance is definition 6 for label j.
func (r lcifReference) instance(q []float64, j, k, without int, alpha float64) float64 {
	rows, sim := r.similar(q, k, without)
	var above, below float64
	for _, i := range rows {
		if r.y[i][j] {
			above += math.Pow(sim[i], alpha)
		}
		below += math.Pow(sim[i], alpha)
	}
	if below == 0 {
		return 0
	}
	return above / below
}

// second is the second-order score: definition 6 with the scores of the
// neighbours' own neighbours in place of their labels.
func (r lcifReference) second(q []float64, j, k, degree int, alpha float64) float64 {
	rows, sim := r.similar(q, k, -1)
	var above, below float64
	for _, i := range rows {
		above += r.instance(r.x[i], j, degree, i, alpha) * math.Pow(sim[i], alpha)
		below += math.Pow(sim[i], alpha)
	}
	if below == 0 {
		return 0
	}
	return above / below
}

// feature is definition 8 for label j over the cosines of definition 7. A feature that no row has is
// not one of the M features that it sums over.
func (r lcifReference) feature(q []float64, j int, beta float64) float64 {
	var above, below float64
	for f := range q {
		var dot, ff, ll float64
		for i := range r.x {
			ff += r.x[i][f] * r.x[i][f]
			if r.y[i][j] {
				dot += r.x[i][f]
				ll++
			}
		}
		if dot > 0 {
			above += q[f] * math.Pow(dot/math.Sqrt(ff*ll), beta)
		}
		if ff > 0 { // one of the features of the data set
			below += q[f]
		}
	}
	if below == 0 {
		return 0
	}
	return above / below
}

// lcifFixture is a small labelled set as a view and as a reference.
type lcifFixture struct {
	rows   *vector.CSR
	truth  *labels.Matrix
	counts *labels.FeatureLabels
	view   *View
	ref    lcifReference
}

// newLCIFFixture makes a view of raw rows over m features and their labels.
func newLCIFFixture(t testing.TB, raw [][]float32, m int, sets [][]uint32, l int) *lcifFixture {
	t.Helper()
	ctx := context.Background()
	x := vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	for _, r := range raw {
		x.Append(sparse(r))
	}
	x.Cols = m
	f := &lcifFixture{rows: UnitRows(&x, &View{Features: m})}
	var err error
	f.truth, err = labels.FromSets(sets, l)
	must(t, err)
	f.counts, err = labels.CountFeatureLabels(ctx, f.rows, f.truth, 1)
	must(t, err)
	ix, err := postings.Build(ctx, f.rows, nil)
	must(t, err)
	f.view = &View{Features: m, Labels: f.truth, Neighbors: &PostingsNeighbors{Segments: []postings.Segment{{Index: ix}}}}
	f.view.Row = func(row uint32) vector.Sparse { return f.rows.Row(int(row)) }
	must(t, f.view.SetPower(f.counts, 1))
	for i := range raw {
		f.ref.x = append(f.ref.x, dense(f.rows.Row(i), m))
		y := make([]bool, l)
		for _, j := range f.truth.Row(i) {
			y[j] = true
		}
		f.ref.y = append(f.ref.y, y)
	}
	return f
}

func sparse(x []float32) vector.Sparse {
	var s vector.Sparse
	for j, v := range x {
		if v != 0 {
			s.Index = append(s.Index, uint32(j))
			s.Value = append(s.Value, v)
		}
	}
	return s
}

func dense(s vector.Sparse, m int) []float64 {
	x := make([]float64, m)
	for i, j := range s.Index {
		x[j] = float64(s.Value[i])
	}
	return x
}

// drawLCIF draws a labelled set with many equal rows and features, and rows
// without features or labels.
func drawLCIF(t *rapid.T) (raw [][]float32, m int, sets [][]uint32, l int) {
	m, l = rapid.IntRange(1, 8).Draw(t, "features"), rapid.IntRange(1, 5).Draw(t, "labels")
	n := rapid.IntRange(0, 14).Draw(t, "rows")
	for range n {
		raw = append(raw, rapid.SliceOfN(rapid.SampledFrom([]float32{0, 0, 1, 2, 0.5}), m, m).Draw(t, "row"))
		sets = append(sets, rapid.SliceOfNDistinct(rapid.Uint32Range(0, uint32(l-1)), 0, l, rapid.ID).Draw(t, "set"))
	}
	return raw, m, sets, l
}

func drawLCIFParams(t *rapid.T) Params {
	powers := rapid.SampledFrom([]float64{0.5, 1, 1.5, 2, 0.8})
	return Params{
		K:     rapid.IntRange(1, 16).Draw(t, "k"),
		Alpha: powers.Draw(t, "alpha"), Beta: powers.Draw(t, "beta"),
		Lambda:      rapid.SampledFrom([]float64{0, 0.3, 0.5, 1}).Draw(t, "lambda"),
		SecondOrder: rapid.SampledFrom([]float64{0, 0, 0.4, 1}).Draw(t, "second order"),
	}
}

func TestScoresAreThoseOfTheDefinitions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw, m, sets, l := drawLCIF(rt)
		f := newLCIFFixture(t, raw, m, sets, l)
		p := drawLCIFParams(rt)
		q := sparse(rapid.SliceOfN(rapid.SampledFrom([]float32{0, 0, 1, 3}), m, m).Draw(rt, "query"))
		var unit vector.Sparse
		normalise(&unit, q, m, nil)
		x := dense(unit, m)
		s := NewPredictor()
		_, stats, err := s.Predict(context.Background(), f.view, q, &p, nil)
		if err != nil {
			rt.Fatal(err)
		}
		got := s.scores
		if stats.Candidates != got.Len() || got.Validate() != nil {
			rt.Fatalf("%d candidates, %d scores, %v", stats.Candidates, got.Len(), got.Validate())
		}
		have := dense(got, l)
		for j := range l {
			w := p.SecondOrder
			want := p.Lambda*((1-w)*f.ref.instance(x, j, p.K, -1, p.Alpha)+w*f.ref.second(x, j, p.K, secondNeighbors, p.Alpha)) +
				(1-p.Lambda)*f.ref.feature(x, j, p.Beta)
			if math.Abs(have[j]-want) > 2e-6 {
				rt.Fatalf("label %d: score %v, want %v", j, have[j], want)
			}
			if have[j] == 0 && want > 1e-12 {
				rt.Fatalf("label %d with the score %v is no candidate", j, want)
			}
		}
	})
}

func TestPredictionsAreMadeOfScores(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw, m, sets, l := drawLCIF(rt)
		f := newLCIFFixture(t, raw, m, sets, l)
		p := drawLCIFParams(rt)
		q := sparse(rapid.SliceOfN(rapid.SampledFrom([]float32{0, 0, 1, 3}), m, m).Draw(rt, "query"))
		ctx := context.Background()
		s := NewPredictor()
		if _, _, err := s.Predict(ctx, f.view, q, &p, nil); err != nil {
			rt.Fatal(err)
		}
		scores := vector.Sparse{Index: slices.Clone(s.scores.Index), Value: slices.Clone(s.scores.Value)}
		p.Top = rapid.IntRange(0, 4).Draw(rt, "top")
		limit := rapid.SampledFrom([]float64{0, 0.2, 0.5, 2}).Draw(rt, "threshold")
		var want []labels.Ranked
		for i, j := range scores.Index {
			want = append(want, labels.Ranked{Label: j, Score: scores.Value[i]})
		}
		if rapid.Bool().Draw(rt, "with thresholds") {
			p.Thresholds = &labels.Thresholds{Single: limit, KeepTop: rapid.Bool().Draw(rt, "keep top")}
			if rapid.Bool().Draw(rt, "per label") {
				p.Thresholds.PerLabel = make([]float64, l)
				for j := range l {
					p.Thresholds.PerLabel[j] = limit * float64(j%3)
				}
			}
		}
		line := func(r labels.Ranked) float64 {
			if p.Thresholds.PerLabel != nil {
				return p.Thresholds.PerLabel[r.Label]
			}
			return limit
		}
		slices.SortFunc(want, func(a, b labels.Ranked) int {
			c := 0
			if p.Thresholds != nil && p.Thresholds.PerLabel != nil {
				c = cmp.Compare(float64(b.Score)/line(b), float64(a.Score)/line(a))
			}
			return cmp.Or(c, cmp.Compare(b.Score, a.Score), cmp.Compare(a.Label, b.Label))
		})
		switch {
		case p.Top > 0:
			want = want[:min(p.Top, len(want))]
		case p.Thresholds != nil:
			n := 0
			for i, r := range want {
				if float64(r.Score) >= line(r) || i == 0 && p.Thresholds.KeepTop {
					want[n] = r
					n++
				}
			}
			want = want[:n]
		default:
			want = want[:min(1, len(want))]
		}
		before := []labels.Ranked{{Label: 99, Score: 9}}
		got, _, err := s.Predict(ctx, f.view, q, &p, before)
		if err != nil {
			rt.Fatal(err)
		}
		if got[0] != before[0] || !slices.Equal(got[1:], want) {
			rt.Fatalf("predicted %v, want %v", got[1:], want)
		}
	})
}

func TestExplanationsAddUpToTheScore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		raw, m, sets, l := drawLCIF(rt)
		f := newLCIFFixture(t, raw, m, sets, l)
		p := drawLCIFParams(rt)
		p.Top = 2
		q := sparse(rapid.SliceOfN(rapid.SampledFrom([]float32{0, 1, 3}), m, m).Draw(rt, "query"))
		ctx := context.Background()
		s := NewPredictor()
		predicted, _, err := s.Predict(ctx, f.view, q, &p, nil)
		if err != nil {
			rt.Fatal(err)
		}
		all := make([]uint32, l)
		for j := range all {
			all[j] = uint32(j)
		}
		explained, err := s.ExplainLabels(ctx, f.view, q, &p, all)
		if err != nil {
			rt.Fatal(err)
		}
		for j, e := range explained {
			var instance, feature float64
			for i, n := range e.Neighbors {
				instance += n.Share
				if n.Indirect > n.Share || i > 0 && n.Share > e.Neighbors[i-1].Share {
					rt.Fatalf("label %d: neighbours %+v", j, e.Neighbors)
				}
				if n.Indirect == 0 && !slices.Contains(f.truth.Row(int(n.Row)), e.Label) {
					rt.Fatalf("label %d: row %d has not got it", j, n.Row)
				}
			}
			for i, x := range e.Features {
				feature += x.Share
				if i > 0 && x.Share > e.Features[i-1].Share {
					rt.Fatalf("label %d: features %+v", j, e.Features)
				}
			}
			if math.Abs(instance-e.Instance)+math.Abs(feature-e.Feature)+math.Abs(instance+feature-e.Score) > 1e-6 {
				rt.Fatalf("label %d: shares %v and %v of %v and %v, score %v", j, instance, feature, e.Instance, e.Feature, e.Score)
			}
			if e.Label != uint32(j) || e.Predicted != slices.ContainsFunc(predicted, func(r labels.Ranked) bool { return r.Label == e.Label }) {
				rt.Fatalf("label %d: %+v, predicted %v", j, e, predicted)
			}
		}
		own, err := s.ExplainLabels(ctx, f.view, q, &p, nil)
		if err != nil || len(own) != len(predicted) {
			rt.Fatalf("%d explanations of %d predictions, %v", len(own), len(predicted), err)
		}
	})
}

// predictAll predicts the labels of all rows of queries.
func predictAll(
	ctx context.Context, v *View, queries *vector.CSR, params *Params,
) (out [][]labels.Ranked, err error) {
	p := NewPredictor()
	for i := range queries.Rows() {
		one, _, err := p.Predict(ctx, v, row(queries, i), params, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// scoreAll returns the scores of all rows of queries.
func scoreAll(ctx context.Context, v *View, queries *vector.CSR, params *Params) (*vector.CSR, error) {
	p, out := NewPredictor(), &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range queries.Rows() {
		if _, _, err := p.Predict(ctx, v, row(queries, i), params, nil); err != nil {
			return nil, err
		}
		out.Append(p.Scores())
	}
	out.Cols = v.Labels.Labels()
	return out, nil
}
