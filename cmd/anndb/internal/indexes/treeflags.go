package indexes

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/trees/budget"
)

// treeFlags are the parameters of budgeted trees.
type treeFlags struct {
	Budget      *int     `placeholder:"N"`
	Cost        *float64 `placeholder:"C"`
	Rounds      int      `default:"0"`
	Exact       bool
	MinPositive int `default:"0"`
	Raw         bool
}

// gridFlags are what cross-validation of budgeted trees tries.
type gridFlags struct {
	Budgets    []int     `placeholder:"N,…"`
	Costs      []float64 `placeholder:"C,…"`
	Positives  []int     `placeholder:"N,…"`
	Thresholds []float32 `placeholder:"M,…"`
}

func (g gridFlags) given() bool {
	return len(g.Budgets)+len(g.Costs)+len(g.Positives)+len(g.Thresholds) > 0
}

// The kinds of indexes, as --kind names them, except for forests.
const (
	kindPostings = "postings"
	kindLCIF     = "lcif"
	kindSBT      = "sbt"
	kindPT       = "pt"
	kindAT       = "at"
)

// IsTree reports whether a kind is a budgeted tree.
func IsTree(kind string) bool { return slices.Contains([]string{kindSBT, kindPT, kindAT}, kind) }

// treeOptions returns the options of budgeted trees; ok is false for other options.
func treeOptions(o db.IndexOptions) (_ db.Trees, ok bool) {
	if o, ok := o.(*db.Trees); ok {
		return *o, true
	}
	return db.Trees{}, false
}

// treeBuild is what the flags say of a tree to build.
type treeBuild struct {
	kind      string
	tree      treeFlags
	grid      gridFlags
	tune      tuneFlags
	threshold *float64
	// features is the number of features from which a grid starts that is requested
	// without lists; 0 where none is.
	features int
}

// index are the flags as package db takes them.
func (b treeBuild) index(seed uint64) (*db.Trees, error) {
	f, t := b.tree, b.tune
	o := &db.Trees{Kind: b.kind, Seed: seed, AllowEmpty: t.AllowEmpty, Raw: f.Raw, TuneRows: t.TuneRows}
	if err := b.check(); err != nil {
		return o, err
	}
	if t.Weight != "none" {
		o.Weight = t.Weight
	}
	p := &o.Params
	p.BAC.Rounds, p.BAC.Exact, p.MinPositive = f.Rounds, f.Exact, f.MinPositive
	if f.Budget != nil {
		o.Budget = *f.Budget
	}
	if f.Cost != nil {
		p.BAC.C = *f.Cost
	}
	if b.threshold != nil {
		p.Threshold = float32(*b.threshold)
	}
	o.Grid = b.searched()
	return o, nil
}

// check refuses flags that make no sense.
func (b treeBuild) check() error {
	f, g, t, kind, threshold, features := b.tree, b.grid, b.tune, b.kind, b.threshold, b.features
	switch {
	case t.AllowEmpty && kind != kindAT:
		return command.Usagef("--allow-empty goes with --kind lcif and at: a tree of kind %s always answers", kind)
	case f.Rounds < 0 || f.MinPositive < 0:
		return command.Usagef("--rounds and --min-positive must not be negative")
	case f.MinPositive > 0 && kind != kindAT, threshold != nil && kind != kindAT:
		return command.Usagef("--min-positive, --threshold and --thresholds go with --kind at")
	case t.Folds < 0 || t.Folds == 1 || t.TuneRows < 0:
		return command.Usagef("--folds must be 0 or at least 2, --tune-rows not negative")
	case f.Budget != nil && len(g.Budgets) > 0, f.Cost != nil && len(g.Costs) > 0,
		threshold != nil && len(g.Thresholds) > 0:
		return command.Usagef("--budget and --budgets, --cost and --costs, --threshold and --thresholds " +
			"exclude each other")
	case f.MinPositive > 0 && len(g.Positives) > 0:
		return command.Usagef("--min-positive and --positives exclude each other")
	case len(g.Positives)+len(g.Thresholds) > 0 && kind != kindAT:
		return command.Usagef("--positives and --thresholds go with --kind at")
	case !g.given() && features == 0 && (t.Folds != 0 || t.TuneRows != 0):
		return command.Usagef("--folds and --tune-rows go with --budgets, --costs, --positives or --thresholds")
	}
	for _, b := range append(slices.Clone(g.Budgets), given(f.Budget)...) {
		if b < 1 {
			return command.Usagef("a budget of %d features (want at least 1)", b)
		}
	}
	for _, c := range append(slices.Clone(g.Costs), given(f.Cost)...) {
		if !(c > 0 && c-c == 0) {
			return command.Usagef("a cost of %g (want above 0, and finite)", c)
		}
	}
	for _, n := range g.Positives {
		if n < 1 {
			return command.Usagef("--positives %d (want at least 1)", n)
		}
	}
	for _, m := range g.Thresholds {
		if m-m != 0 {
			return command.Usagef("--thresholds %g is not finite", m)
		}
	}
	if threshold != nil && float32(*threshold)-float32(*threshold) != 0 {
		return command.Usagef("--threshold %g is not finite", *threshold)
	}
	return nil
}

// searched is the grid of settings to try; nil for none.
func (b treeBuild) searched() *budget.Grid {
	f, g := b.tree, b.grid
	if !g.given() && b.features == 0 {
		return nil
	}
	grid := &budget.Grid{
		Budgets: g.Budgets, Costs: g.Costs, Positives: g.Positives, Thresholds: g.Thresholds, Folds: b.tune.Folds,
	}
	if b.features == 0 {
		return grid
	}
	usual := budget.DefaultGrid(budget.Kind(b.kind), b.features)
	if len(g.Budgets) == 0 && f.Budget == nil {
		grid.Budgets = usual.Budgets
	}
	if len(g.Costs) == 0 && f.Cost == nil {
		grid.Costs = usual.Costs
	}
	if len(g.Positives) == 0 && f.MinPositive == 0 {
		grid.Positives = usual.Positives
	}
	if len(g.Thresholds) == 0 && b.threshold == nil {
		grid.Thresholds = usual.Thresholds
	}
	return grid
}

// given is a flag's value, if it has one.
func given[T any](flag *T) []T {
	if flag == nil {
		return nil
	}
	return []T{*flag}
}

// TreeTable describes the budgeted trees among indexes. decisions is the mean number that a training
// row takes, and entropy that of the leaves, which is never above it. Theorem 12 bounds the decisions
// of powerset trees by the entropy plus 1; theorem 13 claims that of annotation trees, in vain.
func TreeTable(infos ...db.IndexInfo) *table.Table {
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
func treeSetting(i db.IndexInfo) string {
	o, _ := treeOptions(i.Options)
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
func TrialsTitle(i db.IndexInfo) string {
	if len(i.TreeTrials) == 0 {
		return ""
	}
	what := "example-based F1"
	if i.Kind == kindSBT {
		what = "share of rows with the right class"
	}
	folds := 5
	o, _ := treeOptions(i.Given)
	if g := o.Grid; g != nil {
		folds = cmp.Or(g.Folds, folds)
	}
	return fmt.Sprintf("What cross-validation measured: %s, "+
		"mean and standard deviation of %d folds, %d settings", what, folds, len(i.TreeTrials))
}

// TrialsTable is what the cross-validation of trees measured, the best n of it,
// the chosen one first.
func TrialsTable(i db.IndexInfo, n int) *table.Table {
	t := table.New("chosen", "score:4", "spread:4", "budget", "cost", "positive", "threshold:3")
	o, _ := treeOptions(i.Options)
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
