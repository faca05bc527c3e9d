package db

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
)

// treeKinds are the values of Trees.Kind.
var treeKinds = []budget.Kind{budget.AT, budget.PT, budget.SBT}

// Trees are the options of budgeted trees, which predict labels (Liu and Tsang 2017).
type Trees struct {
	// Kind is "at", also when empty: annotation trees, which decide label by label; "pt": a powerset
	// tree, which predicts sets of labels; or "sbt": supervised trees, for rows that have one label
	// each, one tree per label against the rest if there are more than two.
	Kind string
	// Budget is the number of features of a round, in place of that in Params; 100 if both are zero.
	Budget int `json:",omitempty"`
	Params budget.Params
	// Grid, if not nil, is searched by cross-validation: its best budget, cost and, for AT, threshold
	// replace those of Params. An empty list stands for the value in Params.
	Grid *budget.Grid `json:",omitempty"`
	// TuneRows is the largest number of rows that the cross-validation uses, 10,000 when zero.
	TuneRows   int    `json:",omitempty"`
	Weight     string // how values are weighed: "none", also when empty, or "tfidf" (see LCIF)
	AllowEmpty bool   `json:",omitempty"` // an AT may predict no label; otherwise a row gets its best one
	Raw        bool   // use sparse rows with their own length instead of unit length
	Seed       uint64 `json:",omitempty"` // if Params.Seed is zero; equal rows, options and seed: equal trees
}

// request returns the stored form of the options, in which the budget is one of Params.
func (o *Trees) request(bool) (kind.Options, error) {
	if o == nil {
		o = &Trees{}
	}
	of := cmp.Or(budget.Kind(o.Kind), budget.AT)
	if !slices.Contains(treeKinds, of) {
		return nil, fmt.Errorf("%w: unknown kind of trees %q, want one of %q", fail.Option, o.Kind, treeKinds)
	}
	b := &treeindex.Options{
		Kind: of, Params: o.Params, Grid: o.Grid, TuneRows: o.TuneRows, Weight: o.Weight,
		AllowEmpty: o.AllowEmpty, Raw: o.Raw, Seed: o.Seed,
	}
	p := &b.Params
	p.BAC.Budget = cmp.Or(o.Budget, p.BAC.Budget, 100)
	p.Seed = cmp.Or(p.Seed, o.Seed)
	p.KeepTop = of == budget.AT && !o.AllowEmpty
	return b, nil
}

// publicTrees returns the options of trees that their stored ones stand for.
func publicTrees(stored kind.Options) IndexOptions {
	b := stored.(*treeindex.Options)
	return &Trees{
		Kind: string(b.Kind), Budget: b.Params.BAC.Budget, Params: b.Params, Grid: b.Grid, TuneRows: b.TuneRows,
		Weight: b.Weight, AllowEmpty: b.AllowEmpty, Raw: b.Raw, Seed: b.Seed,
	}
}
