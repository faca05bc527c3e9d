package kind

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
)

// RefuseNeighbors refuses what only models with neighbors heed; others is the subject of the message.
func (o *LabelAsk) RefuseNeighbors(others string) error {
	switch {
	case o.Params != nil:
		return fmt.Errorf("%w: Params are for label models of kind lcif", fail.Option)
	case o.Filtered:
		return fmt.Errorf("%w: filters are for label models of kind lcif: %s have no neighbors",
			fail.Option, others)
	}
	return nil
}

// Wants reports whether a label at a place among the best, from 0, is requested.
func (o *LabelAsk) Wants(place int, predicted bool) bool {
	return place < o.Top || predicted && (o.Top <= 0 || o.Set)
}

// Choose appends the labels of a list that are requested, best first: by Calibration.Order of the
// probability, then by score, then by before. The list has all labels with a score and what
// Calibration.Probability says of them; it is changed, since the most probable label has a curve of its own,
// and stays that. rows returns the number of training rows that have a label. If the sets of the model are
// its own, Predicted is given.
func (o *LabelAsk) Choose(
	dst, list []Ranked, rows func(label uint32) int, before labels.Before,
) []Ranked {
	names := labels.Order{Before: before}
	better := func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.order, a.order), names.Compare(a.Ranked, b.Ranked))
	}
	if len(list) > 0 {
		o.predict(list, better)
	}
	list = slices.DeleteFunc(list, func(r Ranked) bool { return r.Probability < o.Least })
	if len(list) == 0 {
		return dst
	}
	if c := o.Calibration; c.Propensity > 0 {
		for i := range list {
			list[i].order = c.Order(list[i].Probability, rows(list[i].Label))
		}
		lead(list, better)
	}
	if o.Wants(0, list[0].Predicted) {
		dst = append(dst, list[0])
	}
	list = list[1:]
	first, places := len(dst), max(o.Top-1, 0)
	for _, r := range list {
		if len(dst) == first+places {
			if places == 0 || better(dst[len(dst)-1], r) < 0 {
				continue
			}
			dst = dst[:len(dst)-1]
		}
		place, _ := slices.BinarySearchFunc(dst[first:], r, better)
		dst = slices.Insert(dst, first+place, r)
	}
	if o.Top > 0 && !o.Set {
		return dst
	}
	chosen := len(dst)
	for _, r := range list {
		if r.Predicted && (chosen == first || better(dst[chosen-1], r) < 0) {
			dst = append(dst, r)
		}
	}
	slices.SortFunc(dst[chosen:], better)
	return dst
}

// Cuts fills in the cuts of the labels of an answer. own returns that of a label in a set that the model
// selects without probabilities.
func (o *LabelAsk) Cuts(a *LabelAnswer, own func(label uint32) Cut) {
	for _, r := range a.Labels {
		switch c := o.Calibration; {
		case o.Limit > 0:
			a.Cuts = append(a.Cuts, Cut{Least: o.Limit})
		case c != nil && !c.OwnSets:
			a.Cuts = append(a.Cuts, Cut{Least: c.CutOf(r.Label)})
		default:
			a.Cuts = append(a.Cuts, own(r.Label))
		}
	}
}

// predict moves the most probable label to the front, completes its probability, and selects the set.
func (o *LabelAsk) predict(list []Ranked, better func(a, b Ranked) int) {
	c := o.Calibration
	for i := range list {
		list[i].order = list[i].Probability
	}
	lead(list, better)
	second := float32(0)
	for _, r := range list[1:] {
		second = max(second, r.Probability)
	}
	list[0].Probability = c.BestProbability(list[0].Probability, second)
	for i := range list {
		r := &list[i]
		switch {
		case o.Limit > 0:
			r.Predicted = r.Probability >= o.Limit
		case !c.OwnSets:
			r.Predicted = r.Probability >= c.CutOf(r.Label) || c.KeepTop && i == 0
		}
	}
}

// lead moves the best label to the front.
func lead(list []Ranked, better func(a, b Ranked) int) {
	best := 0
	for i := range list {
		if better(list[i], list[best]) < 0 {
			best = i
		}
	}
	list[0], list[best] = list[best], list[0]
}
