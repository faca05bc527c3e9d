package db

import (
	"cmp"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
)

// SBT are the options of supervised budgeted trees, for rows that have one label each: one tree per
// label against the rest if there are more than two.
type SBT TreeOptions

// PT are the options of a powerset tree, which predicts sets of labels.
type PT TreeOptions

// AT are the options of an annotation tree, which decides label by label.
type AT TreeOptions

// TreeOptions are the options of budgeted trees (Liu and Tsang 2017).
type TreeOptions struct {
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

func (o *SBT) request(bool) (kind.Options, error) { return (*TreeOptions)(o).stored(budget.SBT), nil }
func (o *PT) request(bool) (kind.Options, error)  { return (*TreeOptions)(o).stored(budget.PT), nil }
func (o *AT) request(bool) (kind.Options, error)  { return (*TreeOptions)(o).stored(budget.AT), nil }

// stored returns the stored form of the options, in which the budget is one of Params.
func (o *TreeOptions) stored(kind budget.Kind) *treeindex.Options {
	if o == nil {
		o = &TreeOptions{}
	}
	b := &treeindex.Options{
		Kind: kind, Params: o.Params, Grid: o.Grid, TuneRows: o.TuneRows, Weight: o.Weight,
		AllowEmpty: o.AllowEmpty, Raw: o.Raw, Seed: o.Seed,
	}
	p := &b.Params
	p.BAC.Budget = cmp.Or(o.Budget, p.BAC.Budget, 100)
	p.Seed = cmp.Or(p.Seed, o.Seed)
	p.KeepTop = kind == budget.AT && !o.AllowEmpty
	return b
}

// publicTrees returns the options of trees that their stored ones stand for.
func publicTrees(stored kind.Options) IndexOptions {
	b := stored.(*treeindex.Options)
	o := &TreeOptions{
		Budget: b.Params.BAC.Budget, Params: b.Params, Grid: b.Grid, TuneRows: b.TuneRows,
		Weight: b.Weight, AllowEmpty: b.AllowEmpty, Raw: b.Raw, Seed: b.Seed,
	}
	switch b.Kind {
	case budget.SBT:
		return (*SBT)(o)
	case budget.PT:
		return (*PT)(o)
	}
	return (*AT)(o)
}
