package index

import (
	"cmp"
	"reflect"

	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// Trees are the options of budgeted trees, which predict labels (Liu and Tsang 2017).
type Trees struct {
	// Kind is "at", also when empty: annotation trees, which decide label by label; "pt": a powerset
	// tree, which predicts sets of labels; or "sbt": supervised trees, for rows that have one label
	// each, one tree per label against the rest if there are more than two.
	Kind string `enum:"at,pt,sbt"`
	// Budget is the number of features of a round, in place of that in Params; 100 if both are zero.
	Budget int `json:",omitempty" flag:"budget" min:"0"`
	Params budget.Params
	// Grid, if not nil, has the values to choose from by cross-validation, list by list: the best budget,
	// cost and, for AT, threshold and MinPositive replace those of Params.
	Grid *budget.Grid `json:",omitempty"`
	// Objective is the measure of sets by which the cross-validation chooses, except for the kind sbt, and by
	// which the probability is chosen that labels of a set have at least; micro F1 when empty, and for measures
	// of rankings.
	Objective lcif.Objective `json:",omitzero" flag:"objective"`
	// TuneRows is the largest number of rows that the cross-validation uses, 10,000 when zero.
	TuneRows   int    `json:",omitempty" flag:"tune-rows" min:"0"`
	Weight     string `flag:"weight" enum:"none,tfidf"`      // of values, "none" when empty; see LCIF
	AllowEmpty bool   `json:",omitempty" flag:"allow-empty"` // an AT may predict no label, else the best one
	Seed       uint64 `json:",omitempty" flag:"seed"`        // if Params.Seed is 0; equal seeds, equal trees
}

// Name returns the kind.
func (o *Trees) Name() string { return cmp.Or(o.Kind, string(budget.AT)) }

// Check refuses options that no trees can be built with, of any collection.
func (o *Trees) Check(int) error {
	if err := checkTags(reflect.ValueOf(*o), ""); err != nil {
		return err
	}
	at, g := o.Name() == string(budget.AT), o.Grid
	switch {
	case o.AllowEmpty && !at:
		return refuse("{AllowEmpty} is for trees of kind at: a tree of kind %s always answers", o.Kind)
	case o.Params.Threshold != 0 && !at:
		return refuse("{Params.Threshold} is for trees of kind at, not %s", o.Kind)
	case o.Params.MinPositive > 0 && !at:
		return refuse("{Params.MinPositive} is for trees of kind at, not %s", o.Kind)
	case g == nil && o.TuneRows > 0:
		return refuse("{TuneRows} goes with values to choose from, such as {Grid.Budgets}")
	case g == nil:
		return nil
	case len(g.Positives) > 0 && !at:
		return refuse("{Grid.Positives} are for trees of kind at, not %s", o.Kind)
	case len(g.Thresholds) > 0 && !at:
		return refuse("{Grid.Thresholds} are for trees of kind at, not %s", o.Kind)
	case g.Folds == 1:
		return refuse("{Grid.Folds} 1 (want 0 or at least 2)")
	case len(g.Budgets) > 0 && (o.Budget > 0 || o.Params.BAC.Budget > 0):
		return refuse("{Budget} and {Grid.Budgets} exclude each other")
	case len(g.Costs) > 0 && o.Params.BAC.C > 0:
		return refuse("{Params.BAC.C} and {Grid.Costs} exclude each other")
	case len(g.Positives) > 0 && o.Params.MinPositive > 0:
		return refuse("{Params.MinPositive} and {Grid.Positives} exclude each other")
	case len(g.Thresholds) > 0 && o.Params.Threshold != 0:
		return refuse("{Params.Threshold} and {Grid.Thresholds} exclude each other")
	}
	return nil
}
