package lcif

import (
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// scoreFilter describes which scores of a row can affect the chosen labels: those of at least the
// lowest threshold, and the best ones. The others may be omitted.
type scoreFilter struct {
	floor float64 // the lowest threshold
	top   int     // the best ones; negative: all scores matter
	order labels.Order
	best  []float64 // by order
}

// maxBest is the maximum number of best scores that are tracked one by one.
const maxBest = 16

// allScores marks all scores as needed.
var allScores = scoreFilter{top: -1}

// scoreFilterFor returns the scores that choose and Set read.
func scoreFilterFor(p *Params) scoreFilter {
	w := scoreFilter{floor: math.Inf(1), top: p.Top, order: p.Thresholds.Order(nil)}
	if t := p.Thresholds; t == nil {
		w.top = max(w.top, 1)
	} else {
		w.floor = t.Single
		if t.PerLabel != nil {
			w.floor = slices.Min(append(t.PerLabel[:len(t.PerLabel):len(t.PerLabel)], math.Inf(1)))
		}
		if t.KeepTop {
			w.top = max(w.top, 1)
		}
	}
	if w.top > maxBest {
		return allScores
	}
	return w
}

// least returns a score below which no score is needed.
func (w *scoreFilter) least() float64 {
	if w.top < 0 || len(w.best) < w.top {
		return 0
	}
	if w.top == 0 {
		return w.floor
	}
	worst := w.best[w.top-1]
	if w.order.PerLabel != nil {
		// Of the labels with a strength of at least that, the one with the lowest threshold.
		return max(0, min(1, worst)*w.floor)
	}
	return min(w.floor, worst)
}

// note records the score of a label.
func (w *scoreFilter) note(r labels.Ranked) {
	if w.top <= 0 {
		return
	}
	x := w.order.Strength(r)
	if len(w.best) == w.top && x <= w.best[w.top-1] {
		return
	}
	at := len(w.best)
	if at < w.top {
		w.best = append(w.best, x)
	} else {
		at--
	}
	for ; at > 0 && w.best[at-1] < x; at-- {
		w.best[at] = w.best[at-1]
	}
	w.best[at] = x
}

// firstAbove returns the index of the first sum, starting at from, whose product with its factor
// is at least cut, or the number of sums if there is none; at most end. factor may be nil.
func firstAbove(sum, factor []float64, from, end int, cut float64) int {
	sum = sum[:end]
	if factor == nil {
		for ; from < len(sum); from++ {
			if sum[from] >= cut {
				break
			}
		}
		return from
	}
	factor = factor[:len(sum)]
	for ; from < len(sum); from++ {
		if sum[from]*factor[from] >= cut {
			break
		}
	}
	return from
}

// combineSums is combine for feature scores given as sums by label, to be multiplied by factor,
// if it is not nil, and divided by total. Instance scores may cover more labels. It omits
// scores that are not needed.
func combineSums(lambda float64, instance vector.Sparse, sum, factor []float64, total float64,
	w *scoreFilter, dst *vector.Sparse) {
	w.best = w.best[:0]
	cut := 0.0
	if total == 0 {
		sum = nil // the query has no feature
	}
	feature := func(l int) float32 {
		x := sum[l]
		if factor != nil {
			x *= factor[l]
		}
		return min(1, float32(x/total))
	}
	add := func(l int, a, b float32) {
		if score := blend(lambda, a, b); score > 0 {
			dst.Index, dst.Value = append(dst.Index, uint32(l)), append(dst.Value, score)
			w.note(labels.Ranked{Label: uint32(l), Score: score})
			// With a margin for rounding.
			cut = w.least() * (1 - 1e-5) * total / (1 - lambda)
		}
	}
	done := 0
	for i, l := range instance.Index {
		end := min(int(l), len(sum))
		for done = firstAbove(sum, factor, done, end, cut); done < end; done = firstAbove(sum, factor,
			done+1, end, cut) {
			add(done, 0, feature(done))
		}
		var b float32
		if int(l) < len(sum) {
			b = feature(done)
			done++
		}
		add(int(l), instance.Value[i], b)
	}
	for done = firstAbove(sum, factor, done, len(sum), cut); done < len(sum); done = firstAbove(sum,
		factor, done+1, len(sum), cut) {
		add(done, 0, feature(done))
	}
}
