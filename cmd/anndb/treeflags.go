package main

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
)

// treeFlags are the parameters of budgeted trees.
type treeFlags struct {
	Budget      int     `help:"Budgeted trees: features that a round adds to a decision; 0 for 100." default:"0"`
	Cost        float64 `help:"Budgeted trees: cost of a row on the wrong side; 0 for 5." default:"0"`
	Rounds      int     `help:"Budgeted trees: rounds a decision; 0 for 10." default:"0"`
	MinPositive int     `help:"Annotation trees: rows of a node that must have a label for it to be asked; 0 for 1." default:"0"`
	Raw         bool    `help:"Budgeted trees: take sparse rows at their own length instead of unit length."`
}

var treeKinds = []forest.Kind{db.KindSBT, db.KindPT, db.KindAT}

// isTree says whether a kind is a budgeted tree.
func isTree(kind string) bool { return slices.Contains(treeKinds, forest.Kind(kind)) }

// options are the flags as package db takes them.
func (f treeFlags) options(weight string) (db.BudgetOptions, error) {
	switch {
	case f.Budget < 0 || f.Rounds < 0 || f.MinPositive < 0:
		return db.BudgetOptions{}, usagef("--budget, --rounds and --min-positive must not be negative")
	case !(f.Cost >= 0):
		return db.BudgetOptions{}, usagef("--cost must not be negative")
	}
	o := db.BudgetOptions{Raw: f.Raw, Params: budget.Params{
		BAC: budget.BACParams{Budget: f.Budget, C: f.Cost, Rounds: f.Rounds}, MinPositive: f.MinPositive,
	}}
	if weight != "none" {
		o.Weight = db.Weighting(weight)
	}
	return o, nil
}

// treeTable describes budgeted trees; it is empty for other indexes.
func treeTable(info db.IndexInfo) *table.Table {
	t := table.New("trees", "depth", "nodes", "leaves", "features", "weights", "decisions:2", "entropy:2")
	s := info.Tree
	if s == nil {
		return t
	}
	t.Add(s.Trees, s.Depth, s.Nodes, s.Leaves, s.Features, s.Weights, s.Decisions, s.Entropy)
	return t
}

// treeSetting is what budgeted trees were built with.
func treeSetting(o db.BuildOptions) string {
	s := fmt.Sprintf("budget=%d", o.Budget.Params.BAC.Budget)
	if c := o.Budget.Params.BAC.C; c > 0 {
		s += fmt.Sprintf(" cost=%g", c)
	}
	if o.Budget.Weight != db.WeightNone {
		s = string(o.Budget.Weight) + ", " + s
	}
	return s
}
