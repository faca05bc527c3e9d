package db

import (
	"cmp"
	"math"
	"slices"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/internal/state"
)

// frequentLabels returns the most frequent labels of a collection, which a query without evidence is
// predicted by on request. The set are as many as a row has on average, at least one.
func frequentLabels(st *state.Collection, o *PredictOptions) ([]Prediction, error) {
	var out []Prediction
	total := 0.0
	err := st.EachLabel(func(label string, n int) {
		share := float64(n) / float64(max(1, st.Entry.Live))
		total += share
		if share < o.MinProbability {
			return
		}
		p := Prediction{Label: label, Score: float32(share), Probability: float32(share)}
		if o.Explain {
			p.Why = &explain.Reason{Text: "share of the rows with the label", Score: share}
		}
		out = append(out, p)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Prediction) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Label, b.Label))
	})
	set := min(len(out), max(1, int(math.Round(total))))
	for i := range out[:set] {
		out[i].Predicted = true
	}
	n := set
	if o.Top > 0 {
		n = min(o.Top, len(out))
		if o.Set {
			n = max(n, set)
		}
	}
	return out[:n:n], nil
}
