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

// applied is definition 10 or 11 with the rule for top labels, label by label.
func applied(m *vector.CSR, i int, limit func(l uint32) float64, keepTop bool) []uint32 {
	var out []uint32
	all := positive(fullRanking(m, i))
	ratio := func(r Ranked) float64 {
		if limit(r.Label) <= 0 {
			return math.Inf(1)
		}
		return float64(r.Score) / limit(r.Label)
	}
	slices.SortStableFunc(all, func(a, b Ranked) int { return cmp.Compare(ratio(b), ratio(a)) })
	for place, c := range all {
		if float64(c.Score) >= limit(c.Label) || keepTop && place == 0 {
			out = append(out, c.Label)
		}
	}
	slices.Sort(out)
	return out
}

// No threshold whatever comes nearer to the cardinality than the one found:
// all that matter are tried, one between each two neighbouring scores.
func TestSingleThresholdIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "l")
		scores := drawScores(t, n, l)
		cardinality := rapid.Float64Range(0, float64(l)).Draw(t, "cardinality")
		keep := rapid.Bool().Draw(t, "keep")
		th, err := SingleThreshold(scores, cardinality, keep)
		if err != nil {
			if !errors.Is(err, ErrInput) || slices.ContainsFunc(scores.Value, func(v float32) bool { return v > 0 }) {
				t.Fatal(err)
			}
			return
		}
		gap := func(limit float64) (float64, int) {
			sum := 0
			for i := range n {
				sum += len(applied(scores, i, func(uint32) float64 { return limit }, keep))
			}
			return math.Abs(float64(sum)/float64(n) - cardinality), sum
		}
		m, err := th.Predict(scores)
		must(t, err)
		have, count := gap(th.Single)
		if m.Entries() != count || m.Labels() != l {
			t.Fatalf("predicted %d, by the definition %d", m.Entries(), count)
		}
		for i := range n {
			if !slices.Equal(m.Row(i), applied(scores, i, func(uint32) float64 { return th.Single }, keep)) {
				t.Fatalf("row %d: %v", i, m.Row(i))
			}
		}
		for limit := -0.1; limit < 1.3; limit += 0.05 {
			if other, sum := gap(limit); other < have-1e-9 || other < have+1e-9 && sum < count {
				t.Fatalf("threshold %v is %v off with %d labels, %v is %v off with %d", th.Single, have, count, limit, other, sum)
			}
		}
	})
}

func TestLabelThresholdsAreOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 8).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "l")
		scores := drawScores(t, n, l)
		train := mustSets(t, drawSets(t, "train", rapid.IntRange(1, 8).Draw(t, "rows"), l), l)
		keep := rapid.Bool().Draw(t, "keep")
		th, err := LabelThresholds(scores, train, keep)
		if err != nil {
			return // no score above zero, as above
		}
		for j := range l {
			column := scores.Transpose().Row(j).Value
			gap := func(limit float64) (float64, int) {
				sum := 0
				for _, v := range column {
					if v > 0 && float64(v) >= limit {
						sum++
					}
				}
				return math.Abs(float64(sum)/float64(n) - train.Density(j)), sum
			}
			if !slices.ContainsFunc(column, func(v float32) bool { return v > 0 }) {
				if th.PerLabel[j] != th.Single {
					t.Fatalf("label %d without scores has %v, want %v", j, th.PerLabel[j], th.Single)
				}
				continue
			}
			have, count := gap(th.PerLabel[j])
			for limit := -0.1; limit < 1.3; limit += 0.05 {
				if other, sum := gap(limit); other < have-1e-9 || other < have+1e-9 && sum < count {
					t.Fatalf("label %d: threshold %v is %v off, %v is %v off", j, th.PerLabel[j], have, limit, other)
				}
			}
		}
		m, err := th.Predict(scores)
		must(t, err)
		for i := range n {
			limit := func(l uint32) float64 { return th.PerLabel[l] }
			if want := applied(scores, i, limit, keep); !slices.Equal(m.Row(i), want) {
				t.Fatalf("row %d: %v, want %v", i, m.Row(i), want)
			}
		}
	})
}

func TestThresholdsAtTheEdges(t *testing.T) {
	scores := &vector.CSR{Ptr: []uint64{0, 2, 3}, Index: []uint32{0, 1, 1}, Value: []float32{0.5, 0.25, 0.125}, Cols: 2}
	for _, c := range []struct {
		cardinality float64
		keep        bool
		want        float64
	}{
		{0, false, math.Nextafter(0.5, 1)},    // none
		{0.5, false, 0.375},                   // one of three
		{1, false, 0.1875},                    // two
		{9, false, 0.0625},                    // all
		{1, true, math.Nextafter(0.25, 1)},    // the two top labels
		{1.5, true, 0.125},                    // and the last: it may sink to half its score
		{0.25, true, math.Nextafter(0.25, 1)}, // fewer than the top labels cannot be
	} {
		th, err := SingleThreshold(scores, c.cardinality, c.keep)
		if err != nil || th.Single != c.want {
			t.Errorf("%+v: %+v, %v", c, th, err)
		}
	}
	only := &vector.CSR{Ptr: []uint64{0, 1, 2}, Index: []uint32{0, 1}, Value: []float32{0.5, 0.25}, Cols: 2}
	if th, err := SingleThreshold(only, 1, true); err != nil || th.Single != 0.25 {
		t.Errorf("top labels only: %+v, %v", th, err)
	}
	for _, c := range []float64{-1, math.NaN(), math.Inf(1)} {
		if _, err := SingleThreshold(scores, c, true); !errors.Is(err, ErrInput) {
			t.Errorf("cardinality %v: %v", c, err)
		}
	}
	if _, err := LabelThresholds(scores, mustSets(t, [][]uint32{{0}}, 1), true); !errors.Is(err, ErrShape) {
		t.Errorf("too few labels in training: %v", err)
	}
	if _, err := (&Thresholds{PerLabel: []float64{1}}).Predict(scores); !errors.Is(err, ErrShape) {
		t.Errorf("too few thresholds: %v", err)
	}
}

// A score that equals the threshold is enough, for all labels and for each.
func TestScoresAtTheThresholdAreIn(t *testing.T) {
	row := vector.Sparse{Index: []uint32{0, 1, 2}, Value: []float32{0.25, 0.5, 0.125}}
	for name, th := range map[string]Thresholds{
		"single":    {Single: 0.25},
		"per label": {Single: 9, PerLabel: []float64{0.25, 0.5, 0.25}},
		"keep top":  {Single: 0.25, KeepTop: true},
	} {
		if got := th.Append(nil, row); !slices.Equal(got, []uint32{0, 1}) {
			t.Errorf("%s: labels %v, want 0 and 1", name, got)
		}
	}
	just := Thresholds{Single: math.Nextafter(0.25, 1)}
	if got := just.Append(nil, row); !slices.Equal(got, []uint32{1}) {
		t.Errorf("just above a score: labels %v, want 1", got)
	}
}

// The stepped threshold is the paper's two passes: computed here from predictions.
func TestSteppedThreshold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, l := rapid.IntRange(1, 6).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "l")
		scores := drawScores(t, n, l)
		cardinality := rapid.Float64Range(0, float64(l)).Draw(t, "cardinality")
		keep := rapid.Bool().Draw(t, "keep")
		th, err := SteppedThreshold(scores, cardinality, keep)
		if err != nil {
			if !errors.Is(err, ErrInput) || slices.ContainsFunc(scores.Value, func(v float32) bool { return v > 0 }) {
				t.Fatal(err)
			}
			return
		}
		nearest := func(from, to, by int) int {
			best, least := 0, math.Inf(1)
			for s := to; s >= from; s -= by {
				m, err := (&Thresholds{Single: float64(s) / 100, KeepTop: keep}).Predict(scores)
				must(t, err)
				if gap := math.Abs(float64(m.Entries()) - cardinality*float64(n)); gap < least {
					best, least = s, gap
				}
			}
			return best
		}
		first := nearest(0, 100, 10)
		want := float64(nearest(max(0, first-5), min(100, first+5), 1)) / 100
		if th.Single != want || th.KeepTop != keep || th.PerLabel != nil {
			t.Fatalf("threshold %+v, want %v", th, want)
		}
	})
}

// With a threshold for each label, labels are ranked by their scores in relation to it, and the best
// label is the one that comes nearest to its own.
func TestOrderIsByScoreOverThreshold(t *testing.T) {
	scores := vector.Sparse{Index: []uint32{0, 1, 2, 3, 4}, Value: []float32{0.5, 0.25, 0.25, 0.1, 0.2}}
	for _, c := range []struct {
		limits       []float64
		ranked, sets []uint32
	}{
		{nil, []uint32{0, 1, 2, 4, 3}, []uint32{0}},
		{[]float64{0.8, 0.5, 0.25, 0.05, 0.4}, []uint32{3, 2, 0, 4, 1}, []uint32{2, 3}},
		{[]float64{1, 1, 1, 0.11, 1}, []uint32{3, 0, 1, 2, 4}, []uint32{3}}, // none reaches its threshold
		{[]float64{0.5, 0, 0.2, 0.1, 0}, []uint32{1, 4, 2, 3, 0}, []uint32{0, 1, 2, 3, 4}},
	} {
		th := &Thresholds{Single: 0.4, PerLabel: c.limits, KeepTop: true}
		order := th.Order(nil)
		for k := range 6 {
			var got []uint32
			for _, r := range order.Rank(nil, scores, k) {
				got = append(got, r.Label)
			}
			if !slices.Equal(got, c.ranked[:min(k, 5)]) {
				t.Errorf("limits %v: the best %d are %v, want %v", c.limits, k, got, c.ranked)
			}
		}
		if set := th.Append(nil, scores); !slices.Equal(set, c.sets) {
			t.Errorf("limits %v: set %v, want %v", c.limits, set, c.sets)
		}
	}
}

// The second pass of the paper's search begins 0.05 below the best threshold of the first.
func TestSteppedThresholdReachesFiveStepsDown(t *testing.T) {
	scores := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for i := range 10 {
		row := vector.Sparse{Index: []uint32{0}, Value: []float32{0.53}}
		if i >= 8 {
			row.Value[0] = 0.455
		}
		if i < 4 {
			row.Index, row.Value = append(row.Index, 1), append(row.Value, 0.42)
		}
		scores.Append(row)
	}
	if th, err := SteppedThreshold(scores, 1, false); err != nil || th.Single != 0.45 {
		t.Errorf("%+v, %v, want 0.45", th, err)
	}
}
