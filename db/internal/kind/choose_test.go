package kind

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
)

// TestChoose compares Choose with sorting all labels.
func TestChoose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenths := func(name string) float32 { return float32(rapid.IntRange(0, 10).Draw(t, name)) / 10 }
		c := &labels.Calibration{
			KeepTop: rapid.Bool().Draw(t, "top"), OwnSets: rapid.Bool().Draw(t, "own"),
			Cut: tenths("cut"), LabelCuts: []float32{tenths("cut 0"), tenths("cut 1"), tenths("cut 2")}[:rapid.IntRange(0, 3).Draw(t, "cuts")],
			Best:       labels.Isotonic{X: []float32{0, 1}, Y: []float32{0.2, 0.9}},
			Propensity: rapid.SampledFrom([]int{0, 1000}).Draw(t, "propensity"),
		}
		ask := LabelAsk{
			Calibration: c, Top: rapid.IntRange(0, 4).Draw(t, "k"), Set: rapid.Bool().Draw(t, "set"),
			Limit: tenths("limit"), Least: tenths("least"),
		}
		var list []Ranked
		for l := range rapid.IntRange(0, 9).Draw(t, "labels") {
			r := Ranked{Probability: tenths("probability"), Predicted: rapid.Bool().Draw(t, "predicted")}
			r.Label, r.Score = uint32(l), tenths("score")
			list = append(list, r)
		}
		rows := func(label uint32) int { return []int{0, 10, 50, 200}[label%4] }
		before := func(a, b uint32) bool { return a > b }
		order := func(a, b Ranked) int {
			return cmp.Or(cmp.Compare(b.Probability, a.Probability), cmp.Compare(b.Score, a.Score), cmp.Compare(b.Label, a.Label))
		}
		all := slices.Clone(list)
		slices.SortFunc(all, order)
		if len(all) > 0 {
			all[0].Probability = c.Best.At(all[0].Probability)
			if len(all) > 1 {
				all[0].Probability = max(all[0].Probability, all[1].Probability)
			}
		}
		for i := range all {
			r := &all[i]
			if ask.Limit > 0 {
				r.Predicted = r.Probability >= ask.Limit
			} else if !c.OwnSets {
				r.Predicted = r.Probability >= c.CutOf(r.Label) || c.KeepTop && i == 0
			}
		}
		if c.Propensity > 0 { // rare labels count more in the order
			weigh := func(r Ranked) float32 {
				weights := labels.InversePropensities([]int{rows(r.Label)}, c.Propensity)
				return r.Probability * float32(weights[0])
			}
			slices.SortStableFunc(all, func(a, b Ranked) int {
				return cmp.Or(cmp.Compare(weigh(b), weigh(a)), cmp.Compare(b.Score, a.Score), cmp.Compare(b.Label, a.Label))
			})
		}
		var want []Ranked
		for _, r := range all {
			if r.Probability >= ask.Least && (len(want) < ask.Top || r.Predicted && (ask.Top == 0 || ask.Set)) {
				want = append(want, r)
			}
		}
		got := ask.Choose(nil, list, rows, before)
		for i := range got {
			got[i].order = 0
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v\nwant %+v", got, want)
		}
	})
}
