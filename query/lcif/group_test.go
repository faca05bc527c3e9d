package lcif

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// wordsFixture has rows of few words that are in many of them, with most labels
// among them, and of words with few labels; the last queries are odd ones.
func wordsFixture(t testing.TB, queries int) (*lcifFixture, *vector.CSR) {
	t.Helper()
	const m, l, n = 400, 75, 500
	rng := rand.New(rand.NewPCG(5, uint64(queries)))
	q := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	var raw [][]float32
	var sets [][]uint32
	for i := range n + queries {
		x := make([]float32, m)
		topic := rng.IntN(l)
		for range 8 {
			x[rng.IntN(10)] += rng.Float32()
			x[10+(topic*5+rng.IntN(5))%(m-10)] += rng.Float32()
		}
		if i >= n {
			q.Append(sparse(x))
			continue
		}
		raw = append(raw, x)
		sets = append(sets, slices.Compact(slices.Sorted(slices.Values([]uint32{uint32(topic), uint32(topic * 7 % l)}))))
	}
	q.Append(vector.Sparse{})
	q.Append(vector.Sparse{Index: []uint32{m + 7}, Value: []float32{1}}) // unknown
	q.Append(vector.Sparse{Index: []uint32{2}, Value: []float32{0}})
	return newLCIFFixture(t, raw, m, sets, l), q
}

// What is predicted in a batch has the bits of what is predicted alone, and so
// have the sets, whatever scores a batch leaves out.
func TestPredictRows(t *testing.T) {
	f, q := wordsFixture(t, groupQueries+40)
	per := make([]float64, 75)
	for i := range per {
		per[i] = 0.02 + 0.002*float64(i)
	}
	rare, common := 0, 0
	for i := range f.view.Powers[0].S.Rows() {
		if frequent(&f.view.Powers[0], uint32(i)) {
			common++
		} else {
			rare++
		}
	}
	if rare == 0 || common == 0 {
		t.Fatalf("%d rare features, %d frequent ones", rare, common)
	}
	p, alone := NewPredictor(), NewPredictor()
	for _, lambda := range []float64{0, 0.3, 1} {
		for name, params := range map[string]Params{
			"best":       {},
			"single":     {Thresholds: &labels.Thresholds{Single: 0.05}},
			"zero":       {Thresholds: &labels.Thresholds{}},
			"keep":       {Thresholds: &labels.Thresholds{Single: 0.3, KeepTop: true}},
			"per label":  {Thresholds: &labels.Thresholds{PerLabel: per}},
			"top":        {Top: 3},
			"all":        {Top: 70},
			"top, set":   {Top: 2, Thresholds: &labels.Thresholds{Single: 0.06}},
			"slow power": {Beta: 1.7, Top: 4},
		} {
			t.Run(fmt.Sprint(name, " ", lambda), func(t *testing.T) {
				params.K, params.Lambda = 12, lambda
				next := 0
				_, err := p.PredictRows(context.Background(), f.view, q, &params, func(i int, found []labels.Ranked) {
					if i != next {
						t.Fatalf("row %d instead of %d", i, next)
					}
					next++
					want, _, err := alone.Predict(context.Background(), f.view, q.Row(i), &params, nil)
					if err != nil || !slices.Equal(found, want) {
						t.Fatalf("row %d: %v, alone %v, %v", i, found, want, err)
					}
					if got := p.AppendSet(slices.Clone(found)); !slices.Equal(p.Set(), alone.Set()) || !slices.Equal(got, alone.AppendSet(want)) {
						t.Fatalf("row %d: set %v, alone %v", i, p.Set(), alone.Set())
					}
				})
				if err != nil || next != q.Rows() {
					t.Fatalf("%d of %d rows, %v", next, q.Rows(), err)
				}
			})
		}
		params := Params{K: 12, Lambda: lambda}
		scores, err := ScoreBatch(context.Background(), f.view, q, &params, 1, nil)
		must(t, err)
		for i := range q.Rows() {
			_, _, err := alone.Predict(context.Background(), f.view, q.Row(i), &params, nil)
			want := alone.scores
			if got := scores.Row(i); err != nil || !slices.Equal(got.Index, want.Index) || !slices.Equal(got.Value, want.Value) {
				t.Fatalf("lambda %g, row %d: scores %v, alone %v, %v", lambda, i, got, want, err)
			}
		}
	}
}

// The row of an error is told.
func TestPredictRowsErrors(t *testing.T) {
	f, q := wordsFixture(t, 3)
	q.Append(vector.Sparse{Index: []uint32{1}, Value: []float32{float32(math.NaN())}})
	at, err := NewPredictor().PredictRows(context.Background(), f.view, q, &Params{K: 3, Lambda: 0.5}, func(int, []labels.Ranked) {})
	if err == nil || at != q.Rows()-1 {
		t.Errorf("row %d, %v", at, err)
	}
}
