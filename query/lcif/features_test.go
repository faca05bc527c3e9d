package lcif

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// wordsSet has rows of few words that are in many of them, with most labels among them, and of words
// with few labels.
func wordsSet(n, m, l int) (rows *vector.CSR, sets [][]uint32) {
	rng := rand.New(rand.NewPCG(5, 6))
	rows = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	for range n {
		x := make([]float32, m)
		topic := rng.IntN(l)
		for range 8 {
			x[rng.IntN(10)] += rng.Float32()
			x[10+(topic*5+rng.IntN(5))%(m-10)] += rng.Float32()
		}
		rows.Append(sparse(x))
		sets = append(sets, slices.Compact(slices.Sorted(slices.Values([]uint32{uint32(topic), uint32(topic * 7 % l)}))))
	}
	rows.Cols = m
	return rows, sets
}

// Feature scores are sums over the features in their order, whether a feature has values for all
// labels or for its own, and have the same bits if later parts replace entries.
func TestFeatureScoresAreSums(t *testing.T) {
	const n, m, l = 500, 400, 75
	rows, sets := wordsSet(n, m, l)
	rows = UnitRows(rows, &View{Features: m})
	count := func(n int) *labels.FeatureLabels {
		y, err := labels.FromSets(sets[:n], l)
		must(t, err)
		counts, err := labels.CountFeatureLabels(context.Background(), span(rows, n), y, 1)
		must(t, err)
		return counts
	}
	for _, beta := range []float64{1, 2} {
		whole, err := count(n).Powers(beta)
		must(t, err)
		dense, listed := 0, 0
		for f := range m {
			if _, _, all := whole.Parts[0].Row(f); all {
				dense++
			} else {
				listed++
			}
		}
		if dense == 0 || listed == 0 {
			t.Fatalf("%d features with values for all labels, %d with others", dense, listed)
		}
		first, err := count(300).Powers(beta)
		must(t, err)
		second, err := count(400).Powers(beta)
		must(t, err)
		parts := *whole
		parts.Parts = []labels.Pairs{first.Parts[0], second.Parts[0], whole.Parts[0]}
		var tally tally
		tally.reset(l)
		for i := range n {
			q := rows.Row(i)
			for _, raise := range []float64{1, 1.5} {
				var got, split, want vector.Sparse
				tally.featureScores(whole, raise*beta, q, &got)
				tally.featureScores(&parts, raise*beta, q, &split)
				for j := range l {
					sum, total := 0.0, 0.0
					for e, f := range q.Index {
						x := float64(q.Value[e])
						total += x
						weight := x * labels.Power(whole.Feature[f], raise)
						set, value, all := whole.Parts[0].Row(int(f))
						if at, ok := slices.BinarySearch(set, uint32(j)); ok {
							if all {
								at = j
							}
							sum += float64(weight * labels.Power(float64(value[at]), raise))
						}
					}
					if score := min(1, float32(sum*labels.Power(whole.Label[j], raise)/total)); score > 0 {
						want.Index, want.Value = append(want.Index, uint32(j)), append(want.Value, score)
					}
				}
				for what, x := range map[string]vector.Sparse{"one part": got, "three parts": split} {
					if !slices.Equal(x.Index, want.Index) || !slices.Equal(x.Value, want.Value) {
						t.Fatalf("beta %g, raised to %g, row %d: %v of %s, want %v", beta, raise, i, x, what, want)
					}
				}
			}
		}
	}
}

// Sums that further rows change give the scores of a count of all rows, also where the labels of these rows
// are the first ones, as those of values for all labels are.
func TestFeatureScoresOfExtended(t *testing.T) {
	const l = 75
	for _, c := range []struct{ first, more [2]int }{
		{[2]int{40, 50}, [2]int{0, 32}}, {[2]int{0, 50}, [2]int{10, 20}}, {[2]int{0, 60}, [2]int{55, 75}},
		{[2]int{5, 10}, [2]int{0, 64}}, {[2]int{70, 75}, [2]int{0, 10}},
	} {
		count := func(spans ...[2]int) *labels.FeatureLabels {
			x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
			var sets [][]uint32
			for _, s := range spans {
				x.Append(vector.Sparse{Index: []uint32{0}, Value: []float32{1}})
				sets = append(sets, numbersOf(s[0], s[1]))
			}
			x.Cols = 1
			y, err := labels.FromSets(sets, l)
			must(t, err)
			counts, err := labels.CountFeatureLabels(t.Context(), x, y, 1)
			must(t, err)
			return counts
		}
		first := count(c.first)
		changed, err := first.Extended([]*labels.FeatureLabels{count(c.more)})
		must(t, err)
		parts, err := changed.Powers(1)
		must(t, err)
		parts.Parts = []labels.Pairs{first.Pairs(1), parts.Parts[0]}
		whole, err := count(c.first, c.more).Powers(1)
		must(t, err)
		var tally tally
		tally.reset(l)
		var got, want vector.Sparse
		q := vector.Sparse{Index: []uint32{0}, Value: []float32{1}}
		tally.featureScores(parts, 1, q, &got)
		tally.featureScores(whole, 1, q, &want)
		if !slices.Equal(got.Index, want.Index) || !slices.Equal(got.Value, want.Value) {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
}

// span returns the first n rows of a matrix.
func span(x *vector.CSR, n int) *vector.CSR {
	return &vector.CSR{Ptr: x.Ptr[:n+1], Index: x.Index[:x.Ptr[n]], Value: x.Value[:x.Ptr[n]], Cols: x.Cols}
}
