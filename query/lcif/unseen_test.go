package lcif

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// A feature that no training row has is not among those that definition 8 sums over, whatever its
// number: below or above the largest one in use.
func TestUnseenFeaturesDoNotCountInFeatureScores(t *testing.T) {
	const unseen, beyond = 2, 9
	ctx := context.Background()
	raw := [][]float32{{1, 0, 0, 1}, {1, 2, 0, 0}, {0, 1, 0, 3}, {2, 0, 0, 0}}
	f := newLCIFFixture(t, raw, 4, [][]uint32{{0}, {0, 1}, {1}, {2}}, 3)
	known := vector.Sparse{Index: []uint32{0, 3}, Value: []float32{1, 2}}
	queries := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for _, q := range []vector.Sparse{
		known,
		{Index: []uint32{0, unseen, 3}, Value: []float32{1, 4, 2}},
		{Index: []uint32{0, 3, beyond}, Value: []float32{1, 2, 4}},
	} {
		queries.Append(q)
	}
	for _, beta := range []float64{1, 1.5} {
		p := Params{Lambda: 0, Beta: beta, Top: 3}
		for i := range queries.Rows() {
			one := NewPredictor()
			got, _, err := one.Predict(ctx, f.view, queries.Row(i), &p, nil)
			must(t, err)
			explained, err := one.ExplainLabels(ctx, f.view, queries.Row(i), &p, nil)
			must(t, err)
			if len(got) != 3 {
				t.Errorf("query %d: %v", i, got)
			}
			for j, r := range got {
				want := f.ref.feature([]float64{1, 0, 0, 2}, int(r.Label), beta)
				if math.Abs(float64(r.Score)-want) > 1e-6 || math.Abs(explained[j].Feature-want) > 1e-6 {
					t.Errorf("query %d, beta %g, label %d: score %g, explained by %g, want %g",
						i, beta, r.Label, r.Score, explained[j].Feature, want)
				}
			}
		}
	}
}

// A feature that only held-out rows have is unseen in their fold: the tuner measures the scores of a
// model of the other rows, which does not know the number of that feature.
func TestFoldsDoNotKnowFeaturesOfHeldOutRows(t *testing.T) {
	const shared, n = 4, 12
	ctx := context.Background()
	x, sets := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, make([][]uint32, n)
	for i := range n {
		own := uint32(shared + i)
		x.Append(vector.Sparse{Index: []uint32{uint32(i % shared), own}, Value: []float32{1, 2}})
		sets[i] = []uint32{uint32(i % 3)}
	}
	x.Cols = shared + n
	y, err := labels.FromSets(sets, 3)
	must(t, err)
	held, err := CrossValidation(x, y, nil, CVOptions{Folds: 3})(ctx, 0)
	must(t, err)
	tr, err := newTrials(held, 1)
	must(t, err)
	measured, err := tr.featureRows(ctx, 1)
	must(t, err)
	folds, err := labels.KFold(n, 3, 0)
	must(t, err)
	at := 0
	for _, fold := range folds {
		train := labels.SelectRows(x, fold.Train)
		view, counts, err := Build(ctx, train, y.Select(fold.Train), 0, 1)
		must(t, err)
		must(t, view.SetPower(counts, 1))
		for _, row := range fold.Test {
			q := x.Row(row)
			q.Index = []uint32{q.Index[0], 1000} // its own feature has another number that is unseen
			one := NewPredictor()
			if _, _, err := one.Predict(ctx, view, q, &Params{Top: 3}, nil); err != nil {
				t.Fatal(err)
			}
			want := dense(one.scores, 3)
			got := make([]float64, 3)
			for e, v := range measured[at].Value {
				l := e
				if measured[at].Index != nil {
					l = int(measured[at].Index[e])
				}
				got[l] = float64(v)
			}
			if !slices.Equal(got, want) {
				t.Errorf("row %d: trial %v, prediction %v", row, got, want)
			}
			at++
		}
	}
}

// With a selection of features the length of a query is that of the selected ones: neither unseen
// features nor those that are not kept count.
func TestSelectedFeaturesGiveTheLength(t *testing.T) {
	v := View{Features: 4}
	v.SelectFeatures([]uint32{0, 2})
	q := vector.Sparse{Index: []uint32{0, 1, 2, 9}, Value: []float32{3, 5, 4, 7}}
	var unit vector.Sparse
	normalise(&unit, q, v.Features, v.Keep)
	if !slices.Equal(unit.Index, []uint32{0, 2}) || !slices.Equal(unit.Value, []float32{0.6, 0.8}) {
		t.Errorf("unit query %v", unit)
	}
}
