package indexes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/trees/budget"
)

// The kinds of indexes, as --kind names them, except for forests.
const (
	kindPostings  = "postings"
	kindLCIF      = "lcif"
	kindLabelTree = "labeltree"
	kindAuto      = "auto-labels"
	kindSBT       = "sbt"
	kindPT        = "pt"
	kindAT        = "at"
)

// The kinds that have the options of forests, and those of trees, in messages.
const (
	forestKinds = "kd, kd-chrono, rp, pca and rf"
	treeKinds   = "sbt, pt and at"
)

// IsTree reports whether a kind is a budgeted tree.
func IsTree(kind string) bool { return slices.Contains([]string{kindSBT, kindPT, kindAT}, kind) }

// treeOptions returns the options of budgeted trees, zero for other options.
func treeOptions(o index.Options) index.Trees {
	if o, ok := o.(*index.Trees); ok {
		return *o
	}
	return index.Trees{}
}

// TreeTable describes the budgeted trees among indexes. decisions is the mean number that a training
// row takes, and entropy that of the leaves, which is never above it. Theorem 12 bounds the decisions
// of powerset trees by the entropy plus 1; theorem 13 claims that of annotation trees, in vain.
func TreeTable(infos ...index.Info) *table.Table {
	t := table.New("index", "kind", "trees", "depth", "nodes", "leaves", "features", "weights", "bytes",
		"decisions:2", "entropy:2", "entropy_plus_1:2", "below")
	for _, i := range infos {
		s := i.Tree
		if s == nil {
			continue
		}
		// Theorems 12 and 13 speak of trees whose leaves are label sets.
		var bound, below any
		if s.Kind != budget.SBT {
			bound, below = s.Entropy+1, s.Decisions < s.Entropy+1
		}
		t.Add(i.Name, string(s.Kind), s.Trees, s.Depth, s.Nodes, s.Leaves, s.Features, s.Weights, i.TotalBytes(),
			s.Decisions, s.Entropy, bound, below)
	}
	return t
}

// TreeTitle describes what TreeTable shows.
const TreeTitle = "Trees: mean decisions of a training row, entropy of the leaves"

// treeSetting is what budgeted trees were built with.
func treeSetting(i index.Info) string {
	o := treeOptions(i.Options)
	p := o.Params
	s := fmt.Sprintf("budget=%d", p.BAC.Budget)
	if p.BAC.C > 0 {
		s += fmt.Sprintf(" cost=%g", p.BAC.C)
	}
	if p.BAC.Exact {
		s += " exact"
	}
	if p.Threshold != 0 {
		s += fmt.Sprintf(" threshold=%.3g", p.Threshold)
	}
	if p.MinPositive > 0 {
		s += fmt.Sprintf(" min-positive=%d", p.MinPositive)
	}
	if w := o.Weight; w != "" && w != "none" {
		s = w + ", " + s
	}
	return s
}

// TrialsTitle describes what TrialsTable shows.
func TrialsTitle(i index.Info) string {
	if len(i.TreeTrials) == 0 {
		return ""
	}
	folds := 5
	o := treeOptions(i.Given)
	what := o.Objective.String()
	if i.Kind == kindSBT {
		what = "share of rows with the right class"
	}
	if g := o.Grid; g != nil {
		folds = cmp.Or(g.Folds, folds)
	}
	return fmt.Sprintf("What cross-validation measured: %s, "+
		"mean and standard deviation of %d folds, %d settings", what, folds, len(i.TreeTrials))
}

// TrialsTable is what the cross-validation of trees measured, the best n of it,
// the chosen one first.
func TrialsTable(i index.Info, n int) *table.Table {
	t := table.New("chosen", "score:4", "spread:4", "budget", "cost", "positive", "threshold:3")
	o := treeOptions(i.Options)
	p := o.Params
	chosen := func(x budget.Trial) bool {
		return x.Budget == p.BAC.Budget && x.C == p.BAC.C &&
			x.Threshold == p.Threshold && x.Positive == p.MinPositive
	}
	trials := slices.Clone(i.TreeTrials)
	slices.SortStableFunc(trials, func(a, b budget.Trial) int {
		switch {
		case chosen(a):
			return -1
		case chosen(b):
			return 1
		}
		return cmp.Compare(b.Score, a.Score)
	})
	for _, x := range trials[:min(n, len(trials))] {
		var positive, threshold any
		if i.Kind == kindAT {
			positive, threshold = max(1, x.Positive), float64(x.Threshold)
		}
		t.Add(chosen(x), x.Score, x.Spread, x.Budget, x.C, positive, threshold)
	}
	return t
}
