package kind

import (
	"cmp"
	"slices"

	"github.com/anndb/anndb/labels"
)

// Choose appends the labels of a list that are requested, best first: by probability, then by score, then by
// before. The list has all labels with a score and what Calibration.Probability says of them; it is changed,
// since the best label has a curve of its own. rows returns the number of training rows that have a label. If
// the sets of the model are its own, Predicted is given.
func (o *LabelAsk) Choose(
	dst, list []Ranked, rows func(label uint32) int, before labels.Before,
) []Ranked {
	if len(list) == 0 {
		return dst
	}
	names := labels.Order{Before: before}
	better := func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Probability, a.Probability), names.Compare(a.Ranked, b.Ranked))
	}
	best := o.predict(list, rows, better)
	byProbability := better
	better = func(a, b Ranked) int { // the best label stays the first if its curve makes it equal to others
		switch {
		case a.Label == b.Label:
			return 0
		case a.Label == best:
			return -1
		case b.Label == best:
			return 1
		}
		return byProbability(a, b)
	}
	if o.Least > 0 {
		list = slices.DeleteFunc(list, func(r Ranked) bool { return r.Probability < o.Least })
	}
	at := len(dst)
	if o.Top > 0 {
		for _, r := range list {
			if len(dst) == at+o.Top {
				if better(dst[len(dst)-1], r) < 0 {
					continue
				}
				dst = dst[:len(dst)-1]
			}
			place, _ := slices.BinarySearchFunc(dst[at:], r, better)
			dst = slices.Insert(dst, at+place, r)
		}
		if !o.Set {
			return dst
		}
	}
	chosen := len(dst)
	for _, r := range list {
		if r.Predicted && (chosen == at || better(dst[chosen-1], r) < 0) {
			dst = append(dst, r)
		}
	}
	slices.SortFunc(dst[chosen:], better)
	return dst
}

// predict completes the probabilities, selects the set, and returns the best label.
func (o *LabelAsk) predict(
	list []Ranked, rows func(label uint32) int, better func(a, b Ranked) int,
) uint32 {
	c, best := o.Calibration, &list[0]
	for i := range list[1:] {
		if better(list[1+i], *best) < 0 {
			best = &list[1+i]
		}
	}
	second := float32(0)
	for i := range list {
		if r := &list[i]; r != best {
			second = max(second, r.Probability)
		}
	}
	best.Probability = max(c.Best.At(best.Probability), second)
	for i := range list {
		r := &list[i]
		switch {
		case o.Limit > 0:
			r.Predicted = r.Probability >= o.Limit
		case !c.OwnSets:
			r.Predicted = r.Probability >= c.Cuts[labels.Bucket(rows(r.Label))] || c.KeepTop && r == best
		}
	}
	return best.Label
}
