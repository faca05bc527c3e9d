package group

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/fail"
)

// meanLabels is how many of its best labels each part answers with at least. The probabilities of others
// count as zero.
const meanLabels = 64

// mean predicts by models of which each predicts by itself. The probability of a label is the mean of
// those of the parts that know something of the query, weighed by the rows that their models have
// learned from. Labels are in the order of their probabilities, also if a model is for psp@5.
func (g *Group) mean(
	ctx context.Context, m *models, q query, o *db.PredictOptions,
) (out db.Predictions, err error) {
	if o.Recall != 0 || o.Params != nil || o.Explain || o.Frequent {
		return out, fmt.Errorf("%w: a prediction over %d collections is a mean of their predictions, "+
			"without recall, parameters, reasons and frequent labels", fail.Option, len(g.parts))
	}
	if !(o.MinProbability >= 0 && o.MinProbability <= 1) {
		return out, fmt.Errorf("%w: a probability of %g: want 0 to 1", fail.Option, o.MinProbability)
	}
	filters := g.filters(o.Where)
	answers, err := all(ctx, g, func(i int) (a db.Predictions, err error) {
		if m.versions[i] == 0 {
			return a, nil
		}
		of := db.PredictOptions{Index: o.Index, Top: max(o.Top, meanLabels), Set: true, Where: filters[i]}
		return g.parts[i].Predict(ctx, q.Query, &of, &q.ask)
	})
	if err != nil {
		return out, err
	}
	sums, rows, noVector := map[string]float64{}, 0., false
	for i := range answers {
		a := &answers[i]
		out.Stats.Decisions += a.Stats.Decisions
		noVector = noVector || a.Stats.NoVector
		if m.versions[i] == 0 || a.Stats.NoEvidence {
			continue
		}
		weight := float64(m.learned[i])
		rows += weight
		for _, l := range a.Labels {
			sums[l.Label] += weight * float64(l.Probability)
		}
	}
	out.Stats.NoEvidence, out.Stats.NoVector = rows == 0, rows == 0 && noVector
	out.Stats.Unknown = unknown(len(answers), func(i int) ([]string, bool) {
		return answers[i].Stats.Unknown, m.versions[i] > 0
	})
	for label, sum := range sums {
		p := float32(sum / rows)
		if p > 0 && float64(p) >= o.MinProbability {
			out.Labels = append(out.Labels, db.Prediction{Label: label, Score: p, Probability: p})
		}
	}
	slices.SortFunc(out.Labels, func(a, b db.Prediction) int {
		return cmp.Or(cmp.Compare(b.Probability, a.Probability), cmp.Compare(a.Label, b.Label))
	})
	m.choose(out.Labels, o.MinProbability > 0)
	place := 0
	out.Labels = slices.DeleteFunc(out.Labels, func(l db.Prediction) bool {
		place++
		return !(place <= o.Top || l.Predicted && (o.Top <= 0 || o.Set))
	})
	return out, nil
}

// choose marks the labels that are predicted: by the thresholds of the models, or all.
func (m *models) choose(list []db.Prediction, all bool) {
	t := m.params.Thresholds
	for i := range list {
		l := &list[i]
		least := t.Single
		if at, known := slices.BinarySearch(m.labels, l.Label); known && m.limits != nil {
			least = m.limits[at]
		}
		l.Predicted = all || float64(l.Probability) >= least || t.KeepTop && i == 0
	}
}
