package labels

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Ranked is a label with its confidence score.
type Ranked struct {
	Label uint32
	Score float32
}

// Before breaks ties of scores: it reports whether label a precedes another label b. nil orders
// labels by their numbers.
type Before func(a, b uint32) bool

// Order is the order of labels in a ranking, best first: by falling score or, if each label has its own
// threshold, by falling score in relation to its threshold; ties by score, then by Before. A label that
// reaches its threshold precedes all that do not.
type Order struct {
	// PerLabel holds the threshold of each label; nil orders by score alone.
	PerLabel []float64
	Before   Before
}

// Strength returns the number that a label is ordered by: its score, or its score divided by its
// threshold, +Inf for a threshold that every score reaches.
func (o *Order) Strength(r Ranked) float64 {
	switch {
	case o.PerLabel == nil:
		return float64(r.Score)
	case o.PerLabel[r.Label] <= 0:
		return math.Inf(1)
	}
	return float64(r.Score) / o.PerLabel[r.Label]
}

// Compare orders the better label first.
func (o *Order) Compare(a, b Ranked) int {
	c := cmp.Or(cmp.Compare(o.Strength(b), o.Strength(a)), cmp.Compare(b.Score, a.Score))
	switch {
	case c != 0:
		return c
	case o.Before == nil || a.Label == b.Label:
		return cmp.Compare(a.Label, b.Label)
	case o.Before(a.Label, b.Label):
		return -1
	}
	return 1
}

// Rank appends the k labels of highest score, best first, ties by the smaller label. It appends
// fewer if fewer have a score above zero, since a label without evidence is not predicted. O(c
// log k) for c scores.
func Rank(dst []Ranked, scores vector.Sparse, k int) []Ranked {
	return new(Order).Rank(dst, scores, k)
}

// Rank is the function Rank with another order.
func (o *Order) Rank(dst []Ranked, scores vector.Sparse, k int) []Ranked {
	at := len(dst)
	for i, l := range scores.Index {
		r := Ranked{l, scores.Value[i]}
		if r.Score <= 0 || k < 1 {
			continue
		}
		// Insert into the sorted list the scores that beat its last.
		if len(dst)-at == k {
			if o.Compare(dst[len(dst)-1], r) < 0 {
				continue
			}
			dst = dst[:len(dst)-1]
		}
		if len(dst) == at || o.Compare(dst[len(dst)-1], r) < 0 {
			dst = append(dst, r)
			continue
		}
		place, _ := slices.BinarySearchFunc(dst[at:], r, o.Compare)
		dst = slices.Insert(dst, at+place, r)
	}
	return dst
}

// Places returns scores that rank the k best labels of each row as the order does: a label's place from the
// end.
func (o *Order) Places(scores *vector.CSR, k int) *vector.CSR {
	out := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: scores.Cols}
	var best []Ranked
	for i := range scores.Rows() {
		best = o.Rank(best[:0], scores.Row(i), k)
		for place := range best {
			best[place].Score = float32(k - place)
		}
		slices.SortFunc(best, func(a, b Ranked) int { return cmp.Compare(a.Label, b.Label) })
		for _, r := range best {
			out.Index, out.Value = append(out.Index, r.Label), append(out.Value, r.Score)
		}
		out.Ptr = append(out.Ptr, uint64(len(out.Index)))
	}
	return out
}

// checkScores checks the assumptions of thresholds and rankings about a score matrix: one row
// for each row of labels, finite scores, and no negative ones, since a label that is not listed
// has the score zero.
func checkScores(scores *vector.CSR, rows, labels int) error {
	if err := scores.Validate(); err != nil {
		return fmt.Errorf("%w: scores: %w", ErrInput, err)
	}
	if scores.Value == nil && len(scores.Index) > 0 {
		return fmt.Errorf("%w: scores without values", ErrInput)
	}
	if scores.Rows() != rows || scores.Cols > labels {
		return fmt.Errorf("%w: %d×%d scores for %d×%d labels", ErrShape, scores.Rows(), scores.Cols,
			rows, labels)
	}
	for e, v := range scores.Value {
		if v < 0 {
			return fmt.Errorf("%w: the score %g of label %d is negative", ErrInput, v, scores.Index[e])
		}
	}
	return nil
}

// RankReport is the result of [EvaluateRanking]; its lists are by the given ks.
type RankReport struct {
	Rows, Labels int
	K            []int
	// Precision is precision@k (definition 17): the share of the N·k first places that hold a
	// true label. A row with fewer than k scores leaves places empty.
	Precision []float64
	// NDCG is the mean over the rows of the discounted gain Σ 1/log₂(1 + rank)
	// of the true labels among the first k, over its best possible value; a
	// row without labels counts 0.
	NDCG []float64
	// Recall is the mean over the rows with labels of the share of them among the first k, F1 the mean of
	// 2·hits/(k + labels).
	Recall, F1 []float64
}

// EvaluateRanking compares the ranking of labels by score (descending, ties by the smaller
// label) with the true labels. scores has a row for each row of truth; a label that is not
// listed has the score zero. O(entries · log max k).
//
// Errors: ErrShape; ErrInput for a k below 1, scores that are negative or not finite.
func EvaluateRanking(truth *Matrix, scores *vector.CSR, ks []int) (*RankReport, error) {
	if err := checkScores(scores, truth.Rows(), truth.Labels()); err != nil {
		return nil, err
	}
	r := &RankReport{
		Rows: truth.Rows(), Labels: truth.Labels(), K: slices.Clone(ks),
		Precision: make([]float64, len(ks)), NDCG: make([]float64, len(ks)),
		Recall: make([]float64, len(ks)), F1: make([]float64, len(ks)),
	}
	most := 0
	for _, k := range ks {
		if k < 1 {
			return nil, fmt.Errorf("%w: k is %d", ErrInput, k)
		}
		most = max(most, min(k, truth.Labels()))
	}
	if r.Rows == 0 {
		return r, nil
	}
	labelled := 0
	e := rankEvaluator{truth: truth, most: most}
	for i := range r.Rows {
		e.row(i, scores.Row(i))
		if e.labels > 0 {
			labelled++
		}
		for a, k := range ks {
			hits := e.hits[min(k, len(e.hits)-1)]
			r.Precision[a] += float64(hits.n)
			if ideal := e.ideal(k); ideal > 0 {
				r.NDCG[a] += hits.dcg / ideal
				r.Recall[a] += float64(hits.n) / float64(e.labels)
				r.F1[a] += 2 * float64(hits.n) / float64(k+e.labels)
			}
		}
	}
	for a, k := range ks {
		r.Precision[a] /= float64(k) * float64(r.Rows)
		r.NDCG[a] /= float64(r.Rows)
		r.Recall[a] /= float64(max(labelled, 1))
		r.F1[a] /= float64(max(labelled, 1))
	}
	return r, nil
}

// rankEvaluator holds the state of one row.
type rankEvaluator struct {
	truth  *Matrix
	most   int // the largest k
	ranked []Ranked
	hits   []hit     // by number of places, from 0
	labels int       // number of true labels
	gains  []float64 // sums of 1/log₂(1 + rank) by number of places
}

// hit holds the value of the true labels among the first places.
type hit struct {
	n   int
	dcg float64
}

func (e *rankEvaluator) row(i int, scores vector.Sparse) {
	truth := e.truth.Row(i)
	e.labels = len(truth)
	e.ranked = Rank(e.ranked[:0], scores, e.most)
	e.hits = append(e.hits[:0], hit{})
	for place, r := range e.ranked {
		h := e.hits[place]
		if _, ok := slices.BinarySearch(truth, r.Label); ok {
			h.n++
			h.dcg += gain(place)
		}
		e.hits = append(e.hits, h)
	}
}

// gain returns the gain of a true label at a place, counted from 0.
func gain(place int) float64 { return 1 / math.Log2(float64(place)+2) }

// ideal returns the gain of the best ranking: true labels at as many of the first k places as
// there are.
func (e *rankEvaluator) ideal(k int) float64 {
	if e.gains == nil {
		e.gains = []float64{0}
	}
	n := min(k, e.labels)
	for len(e.gains) <= n {
		e.gains = append(e.gains, e.gains[len(e.gains)-1]+gain(len(e.gains)-1))
	}
	return e.gains[n]
}
