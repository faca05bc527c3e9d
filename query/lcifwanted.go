package query

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// wanted says which scores of a row matter for the labels that are chosen: those
// from the lowest threshold on, and the best ones. The others need not be listed.
type wanted struct {
	floor float64 // the lowest threshold
	top   int     // the best ones; negative: all scores matter
	best  []float32
}

// mostWanted is the most best scores that are told from others one by one.
const mostWanted = 16

// everything wants all scores.
var everything = wanted{top: -1}

// wantedFor is what choose and Set look at.
func wantedFor(p *LCIFParams) wanted {
	w := wanted{floor: math.Inf(1), top: p.Top}
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
	if w.top > mostWanted {
		return everything
	}
	return w
}

// least is a score below which none matters.
func (w *wanted) least() float64 {
	if w.top < 0 || len(w.best) < w.top {
		return 0
	}
	if w.top == 0 {
		return w.floor
	}
	return min(w.floor, float64(w.best[w.top-1]))
}

// note takes a score into account.
func (w *wanted) note(score float32) {
	if w.top <= 0 || len(w.best) == w.top && score <= w.best[w.top-1] {
		return
	}
	at := len(w.best)
	if at < w.top {
		w.best = append(w.best, score)
	} else {
		at--
	}
	for ; at > 0 && w.best[at-1] < score; at-- {
		w.best[at] = w.best[at-1]
	}
	w.best[at] = score
}

// combineSums is combine for feature scores as sums by label, to be divided by
// total; instance scores may be of more labels. It leaves out scores that are
// not wanted.
func combineSums(lambda float64, instance vector.Sparse, sum []float64, total float64, w *wanted, dst *vector.Sparse) {
	w.best = w.best[:0]
	cut := 0.0
	if total == 0 {
		sum = nil // there is no feature
	}
	add := func(l int, a, b float32) {
		if score := blend(lambda, a, b); score > 0 {
			dst.Index, dst.Value = append(dst.Index, uint32(l)), append(dst.Value, score)
			w.note(score)
			// With a little room for rounding.
			cut = w.least() * (1 - 1e-5) * total / (1 - lambda)
		}
	}
	done := 0
	for i, l := range instance.Index {
		for end := min(int(l), len(sum)); done < end; done++ {
			if x := sum[done]; x >= cut {
				add(done, 0, min(1, float32(x/total)))
			}
		}
		var b float32
		if int(l) < len(sum) {
			b = min(1, float32(sum[done]/total))
			done++
		}
		add(int(l), instance.Value[i], b)
	}
	for ; done < len(sum); done++ {
		if x := sum[done]; x >= cut {
			add(done, 0, min(1, float32(x/total)))
		}
	}
}
