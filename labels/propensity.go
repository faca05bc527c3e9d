package labels

import (
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// InversePropensities returns how much labels of so many of n training rows each count in propensity-scored
// measures: 1 + C·(rows + B)^-A with A = 0.55, B = 1.5 and C = (ln n - 1)·(B + 1)^A (Jain, Prabhu, Varma
// 2016, section 4). A rare label is missing in the truth more often than a frequent one, and harder to
// predict.
func InversePropensities(rows []int, n int) []float64 {
	out := make([]float64, len(rows))
	for l, k := range rows {
		out[l] = inversePropensity(k, n)
	}
	return out
}

func inversePropensity(rows, n int) float64 {
	const a, b = 0.55, 1.5
	c := (math.Log(max(float64(n), math.E)) - 1) * math.Pow(b+1, a)
	return 1 + c*math.Pow(float64(rows)+b, -a)
}

// PropensityReport is the result of [EvaluatePropensity]; its lists are by the given ks.
type PropensityReport struct {
	K []int
	// Precision is the sum, over the true labels among the first k of all rows, of their weights, over that of
	// the best possible rankings; NDCG the same with each weight divided by log₂(1 + rank).
	Precision, NDCG []float64
}

// EvaluatePropensity compares rankings with the true labels as [EvaluateRanking] does, where each label has a
// weight (InversePropensities). O(entries · log max k).
//
// Errors: those of EvaluateRanking; ErrShape for fewer weights than labels.
func EvaluatePropensity(
	truth *Matrix, scores *vector.CSR, ks []int, weights []float64,
) (*PropensityReport, error) {
	if err := checkScores(scores, truth.Rows(), truth.Labels()); err != nil {
		return nil, err
	}
	if len(weights) < truth.Labels() {
		return nil, fmt.Errorf("%w: %d weights of %d labels", ErrShape, len(weights), truth.Labels())
	}
	r := &PropensityReport{K: slices.Clone(ks)}
	for _, k := range ks {
		if k < 1 {
			return nil, fmt.Errorf("%w: k is %d", ErrInput, k)
		}
		var found, best [2]float64
		var ranked []Ranked
		var all []float64
		add := func(to *[2]float64, place int, weight float64) {
			to[0] += weight
			to[1] += weight * gain(place)
		}
		for i := range truth.Rows() {
			set := truth.Row(i)
			ranked = Rank(ranked[:0], scores.Row(i), min(k, truth.Labels()))
			for place, x := range ranked {
				if _, ok := slices.BinarySearch(set, x.Label); ok {
					add(&found, place, weights[x.Label])
				}
			}
			all = all[:0]
			for _, l := range set {
				all = append(all, -weights[l])
			}
			slices.Sort(all)
			for place, w := range all[:min(k, len(all))] {
				add(&best, place, -w)
			}
		}
		r.Precision = append(r.Precision, found[0]/max(best[0], math.SmallestNonzeroFloat64))
		r.NDCG = append(r.NDCG, found[1]/max(best[1], math.SmallestNonzeroFloat64))
	}
	return r, nil
}

// OccurringReport has the means over labels that occur in the truth.
type OccurringReport struct {
	Labels int
	PRF
}

// EvaluateOccurring returns the means of the labels' own precision, recall and F1 over those labels that
// occur in the truth: of all of them, and by how many training rows labels have (Bucket). O(entries +
// labels).
//
// Errors: ErrShape.
func EvaluateOccurring(
	truth, predicted *Matrix, rows []int,
) (all OccurringReport, by [Buckets]OccurringReport, err error) {
	if predicted.Rows() != truth.Rows() || predicted.Labels() != truth.Labels() || len(rows) < truth.Labels() {
		return all, by, fmt.Errorf("%w: %d×%d labels, %d×%d predicted, rows of %d", ErrShape, truth.Rows(),
			truth.Labels(), predicted.Rows(), predicted.Labels(), len(rows))
	}
	for l := range truth.Labels() {
		if len(truth.Column(l)) == 0 {
			continue
		}
		p := count(truth.Column(l), predicted.Column(l)).prf()
		for _, to := range []*OccurringReport{&all, &by[Bucket(rows[l])]} {
			to.add(p)
		}
	}
	for b := range by {
		by[b].divide()
	}
	all.divide()
	return all, by, nil
}

func (r *OccurringReport) add(p PRF) {
	r.Labels++
	r.Precision, r.Recall, r.F1 = r.Precision+p.Precision, r.Recall+p.Recall, r.F1+p.F1
}

func (r *OccurringReport) divide() {
	n := float64(max(r.Labels, 1))
	r.PRF = PRF{r.Precision / n, r.Recall / n, r.F1 / n}
}
