package labels

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// has is y or ŷ of the definitions: one bit.
func has(sets [][]uint32, i, j int) bool { return slices.Contains(sets[i], uint32(j)) }

// ratio is a quotient with 0/0 as given.
func ratio(a, b int, zero float64) float64 {
	if b == 0 {
		return zero
	}
	return float64(a) / float64(b)
}

// referenceSets is definitions 14 to 16, bit by bit; perfect is what a label
// or row counts of which there is nothing.
func referenceSets(truth, predicted [][]uint32, l int, perfect float64) (m SetMeasures, hamming float64, absent, empty int) {
	n := len(truth)
	prf := func(tp, fp, fn int) PRF {
		if tp+fp+fn == 0 {
			return PRF{perfect, perfect, perfect}
		}
		p, r := ratio(tp, tp+fp, 0), ratio(tp, tp+fn, 0)
		f := 0.0
		if p+r > 0 {
			f = 2 * p * r / (p + r)
		}
		return PRF{p, r, f}
	}
	var tps, fps, fns, wrong int
	for j := range l {
		var tp, fp, fn int
		for i := range n {
			switch y, z := has(truth, i, j), has(predicted, i, j); {
			case y && z:
				tp++
			case z:
				fp++
			case y:
				fn++
			}
		}
		if tp+fp+fn == 0 {
			absent++
		}
		one := prf(tp, fp, fn)
		m.Macro.Precision += one.Precision / float64(l)
		m.Macro.Recall += one.Recall / float64(l)
		m.Macro.F1 += one.F1 / float64(l)
		tps, fps, fns, wrong = tps+tp, fps+fp, fns+fn, wrong+fp+fn
	}
	m.Micro = prf(tps, fps, fns)
	for i := range n {
		both, either := 0, 0
		for j := range l {
			if has(truth, i, j) && has(predicted, i, j) {
				both++
			}
			if has(truth, i, j) || has(predicted, i, j) {
				either++
			}
		}
		if either == 0 {
			empty++
		}
		m.Accuracy += ratio(both, either, perfect) / float64(n)
		m.F1 += ratio(2*both, len(truth[i])+len(predicted[i]), perfect) / float64(n)
	}
	return m, ratio(wrong, n*l, 0), absent, empty
}

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func sameMeasures(a, b SetMeasures) bool {
	x := []float64{a.Accuracy, a.F1, a.Micro.Precision, a.Micro.Recall, a.Micro.F1, a.Macro.Precision, a.Macro.Recall, a.Macro.F1}
	y := []float64{b.Accuracy, b.F1, b.Micro.Precision, b.Micro.Recall, b.Micro.F1, b.Macro.Precision, b.Macro.Recall, b.Macro.F1}
	return slices.EqualFunc(x, y, close9)
}

func TestEvaluateEqualsDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(0, 8).Draw(t, "n"), rapid.IntRange(0, 6).Draw(t, "l")
		truth, predicted := drawSets(t, "truth", n, l), drawSets(t, "predicted", n, l)
		r, err := Evaluate(mustSets(t, truth, l), mustSets(t, predicted, l))
		must(t, err)
		mulan, hamming, absent, empty := referenceSets(truth, predicted, l, 1)
		zero, _, _, _ := referenceSets(truth, predicted, l, 0)
		if !sameMeasures(r.Mulan, mulan) || !sameMeasures(r.Zero, zero) {
			t.Fatalf("measures\n%+v\n%+v, want\n%+v\n%+v", r.Mulan, r.Zero, mulan, zero)
		}
		if !close9(r.HammingLoss, hamming) || r.AbsentLabels != absent || r.EmptyRows != empty {
			t.Fatalf("Hamming %v, absent %d, empty %d; want %v, %d, %d", r.HammingLoss, r.AbsentLabels, r.EmptyRows, hamming, absent, empty)
		}
	})
}

// Worked by hand: label 2 is nowhere, row 2 is empty on both sides.
func TestEvaluateByHand(t *testing.T) {
	truth := mustSets(t, [][]uint32{{0}, {0, 1}, {}}, 3)
	predicted := mustSets(t, [][]uint32{{0, 1}, {1}, {}}, 3)
	r, err := Evaluate(truth, predicted)
	must(t, err)
	third := 1.0 / 3
	want := Report{
		Rows: 3, Labels: 3, HammingLoss: 2.0 / 9, Cardinality: 1, Predicted: 1, AbsentLabels: 1, EmptyRows: 1,
		Mulan: SetMeasures{2 * third, (4*third + 1) / 3, PRF{2 * third, 2 * third, 2 * third}, PRF{(1 + .5 + 1) / 3, (.5 + 1 + 1) / 3, (4*third + 1) / 3}},
		Zero:  SetMeasures{third, 4 * third / 3, PRF{2 * third, 2 * third, 2 * third}, PRF{.5, .5, 4 * third / 3}},
	}
	if !sameMeasures(r.Mulan, want.Mulan) || !sameMeasures(r.Zero, want.Zero) {
		t.Errorf("%+v, want %+v", r, want)
	}
	r.Mulan, r.Zero, want.Mulan, want.Zero = SetMeasures{}, SetMeasures{}, SetMeasures{}, SetMeasures{}
	if *r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if _, err := Evaluate(truth, mustSets(t, [][]uint32{{0}}, 3)); !errors.Is(err, ErrShape) {
		t.Errorf("other rows: %v", err)
	}
	if _, err := Evaluate(truth, mustSets(t, [][]uint32{{0}, {}, {}}, 2)); !errors.Is(err, ErrShape) {
		t.Errorf("other labels: %v", err)
	}
}

// drawScores draws scores of few distinct values, so that ties are the rule.
func drawScores(t *rapid.T, n, l int) *vector.CSR {
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: l}
	for range n {
		for j := range l {
			if v := rapid.IntRange(-2, 5).Draw(t, "score"); v >= 0 {
				m.Index = append(m.Index, uint32(j))
				m.Value = append(m.Value, float32(v)/5)
			}
		}
		m.Ptr = append(m.Ptr, uint64(len(m.Index)))
	}
	return m
}

// fullRanking orders all labels of a row, those not listed with the score 0.
func fullRanking(m *vector.CSR, i int) []Ranked {
	all := make([]Ranked, m.Cols)
	for j := range all {
		all[j].Label = uint32(j)
	}
	row := m.Row(i)
	for e, l := range row.Index {
		all[l].Score = row.Value[e]
	}
	slices.SortStableFunc(all, func(a, b Ranked) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return int(a.Label) - int(b.Label)
	})
	return all
}

func positive(all []Ranked) []Ranked {
	n := 0
	for n < len(all) && all[n].Score > 0 {
		n++
	}
	return all[:n]
}

func TestEvaluateRankingEqualsDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "l")
		truth := drawSets(t, "truth", n, l)
		scores := drawScores(t, n, l)
		m := mustSets(t, truth, l)
		ks := []int{1, 3, 5, 1000}
		r, err := EvaluateRanking(m, scores, ks)
		must(t, err)
		rows := rapid.SliceOfN(rapid.IntRange(0, 300), l, l).Draw(t, "rows")
		weights := InversePropensities(rows, 1000)
		for i, x := range weights { // equation 10 of Jain, Prabhu, Varma 2016
			c := (math.Log(1000) - 1) * math.Pow(2.5, 0.55)
			if !close9(x, 1+c*math.Exp(-0.55*math.Log(float64(rows[i])+1.5))) {
				t.Fatalf("weight %g of %d rows", x, rows[i])
			}
		}
		weighed, err := EvaluatePropensity(m, scores, ks, weights)
		must(t, err)
		for a, k := range ks {
			var precision, ndcg, recall, f1, labelled float64
			var found, best, foundGain, bestGain float64
			for i := range n {
				var dcg, ideal, hits float64
				for place, c := range positive(fullRanking(scores, i)) {
					if place < k && has(truth, i, int(c.Label)) {
						precision += 1 / (float64(n) * float64(k))
						dcg += 1 / math.Log2(2+float64(place))
						hits++
						found += weights[c.Label]
						foundGain += weights[c.Label] / math.Log2(2+float64(place))
					}
				}
				if size := float64(len(truth[i])); size > 0 {
					labelled++
					recall += hits / size
					f1 += 2 * hits / (float64(k) + size)
				}
				heaviest := slices.Clone(truth[i])
				slices.SortFunc(heaviest, func(a, b uint32) int { return cmp.Compare(weights[b], weights[a]) })
				for place, l := range heaviest[:min(k, len(heaviest))] {
					best += weights[l]
					bestGain += weights[l] / math.Log2(2+float64(place))
				}
				for place := range min(k, len(truth[i])) {
					ideal += 1 / math.Log2(2+float64(place))
				}
				if ideal > 0 {
					ndcg += dcg / ideal / float64(n)
				}
			}
			if !close9(r.Precision[a], precision) || !close9(r.NDCG[a], ndcg) {
				t.Fatalf("at %d: %v %v, want %v %v", k, r.Precision[a], r.NDCG[a], precision, ndcg)
			}
			labelled, best, bestGain = max(labelled, 1), max(best, 1e-300), max(bestGain, 1e-300)
			if !close9(r.Recall[a], recall/labelled) || !close9(r.F1[a], f1/labelled) {
				t.Fatalf("at %d: recall %v, F1 %v, want %v %v", k, r.Recall[a], r.F1[a], recall/labelled, f1/labelled)
			}
			if !close9(weighed.Precision[a], found/best) || !close9(weighed.NDCG[a], foundGain/bestGain) {
				t.Fatalf("at %d: weighed %v %v, want %v %v", k, weighed.Precision[a], weighed.NDCG[a], found/best,
					foundGain/bestGain)
			}
		}
		for i := range n {
			for k := range l + 2 {
				want := positive(fullRanking(scores, i))
				if got := Rank(nil, scores.Row(i), k); !slices.Equal(got, want[:min(k, len(want))]) {
					t.Fatalf("first %d of row %d: %v, want %v", k, i, got, want)
				}
				places := Rank(nil, new(Order).Places(scores, k).Row(i), l)
				for place, r := range places {
					if len(places) != min(k, len(want)) || r.Label != want[place].Label {
						t.Fatalf("places of row %d: %v, want the first %d of %v", i, places, k, want)
					}
				}
			}
		}
	})
}

func TestRankingRejects(t *testing.T) {
	truth := mustSets(t, [][]uint32{{0}}, 2)
	ok := func() *vector.CSR {
		return &vector.CSR{Ptr: []uint64{0, 2}, Index: []uint32{0, 1}, Value: []float32{1, 0.5}, Cols: 2}
	}
	if _, err := EvaluateRanking(truth, ok(), []int{0}); !errors.Is(err, ErrInput) {
		t.Errorf("k of 0: %v", err)
	}
	for _, v := range []float32{-1, float32(math.NaN()), float32(math.Inf(1))} {
		m := ok()
		m.Value[1] = v
		if _, err := EvaluateRanking(truth, m, []int{1}); !errors.Is(err, ErrInput) {
			t.Errorf("score %v: %v", v, err)
		}
		if _, err := SingleThreshold(m, 1, true); !errors.Is(err, ErrInput) {
			t.Errorf("threshold from score %v: %v", v, err)
		}
	}
	wide := ok()
	wide.Cols = 3
	if _, err := EvaluateRanking(truth, wide, []int{1}); !errors.Is(err, ErrShape) {
		t.Errorf("too many labels: %v", err)
	}
	empty, err := EvaluateRanking(mustSets(t, nil, 2), &vector.CSR{Ptr: []uint64{0}, Cols: 2}, []int{1, 2})
	if err != nil || len(empty.Precision) != 2 || len(empty.NDCG) != 2 {
		t.Errorf("no rows: %+v, %v", empty, err)
	}
}

func TestEvaluateOccurringEqualsDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 8).Draw(t, "n"), rapid.IntRange(1, 8).Draw(t, "l")
		truth, predicted := drawSets(t, "truth", n, l), drawSets(t, "predicted", n, l)
		rows := rapid.SliceOfN(rapid.SampledFrom([]int{0, 9, 10, 49, 50, 199, 200, 5000}), l, l).Draw(t, "rows")
		all, by, err := EvaluateOccurring(mustSets(t, truth, l), mustSets(t, predicted, l), rows)
		must(t, err)
		var want [Buckets + 1]OccurringReport
		for c := range l {
			var tp, fp, fn float64
			for i := range n {
				switch y, p := has(truth, i, c), has(predicted, i, c); {
				case y && p:
					tp++
				case p:
					fp++
				case y:
					fn++
				}
			}
			if tp+fn == 0 {
				continue
			}
			bucket := 0
			for _, limit := range []int{10, 50, 200} {
				if rows[c] >= limit {
					bucket++
				}
			}
			for _, b := range []int{bucket, Buckets} {
				want[b].Labels++
				want[b].F1 += 2 * tp / (2*tp + fp + fn)
				want[b].Recall += tp / (tp + fn)
				if tp > 0 {
					want[b].Precision += tp / (tp + fp)
				}
			}
		}
		for b, got := range append(by[:], all) {
			w, k := want[b], float64(max(want[b].Labels, 1))
			if got.Labels != w.Labels || !close9(got.F1, w.F1/k) || !close9(got.Recall, w.Recall/k) ||
				!close9(got.Precision, w.Precision/k) {
				t.Fatalf("group %d: %+v, want the means of %+v", b, got, w)
			}
		}
	})
}
