package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/internal/plot"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
)

// curveNames are the methods of figure 5 here.
var curveNames = []string{"SBT", "BAC", "L1-SVM"}

// What makes the curves: B of ours, and C of the L1-SVM. curveCosts are what C of
// ours is chosen among for each B: where they ended at 30, cross-validation chose
// that at most budgets.
var (
	curveBudgets = []int{5, 10, 20, 50, 100, 200}
	sparseCosts  = []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10}
	curveCosts   = []float64{1, 5, 10, 30, 100}
)

// runCurve prints and draws figure 5: test errors against the number of
// selected features, of the tree, of one BAC and of liblinear's L1-SVM, means of
// the random divisions. B makes the curve of ours, with C chosen for each by
// cross-validation on the training rows (-inner 1: all -cost), C that of the
// L1-SVM.
func runCurve(ctx context.Context, s *settings) error {
	return s.eachBinary(func(set *binarySet, d *binaryData) error {
		fmt.Printf("%s: features and test error in %%, means of %d divisions\n", set.name, s.seeds)
		budgets := curveBudgets
		if s.quick {
			budgets = budgets[2:]
		}
		var curves [3][]plot.Point
		for i, learn := range []learner{s.treeOf(false), s.classifierOf} {
			if s.without.MatchString(curveNames[i]) {
				continue
			}
			fmt.Printf("  %-6s", curveNames[i])
			for _, b := range budgets {
				at, costs, err := s.curvePoint(ctx, d, b, learn)
				if err != nil {
					return err
				}
				curves[i] = append(curves[i], at)
				fmt.Printf("  %.0f: %.2f (B=%d, median C %g)", at.X, at.Y, b, costs[len(costs)/2])
			}
			fmt.Println()
		}
		if s.linear != nil && !s.without.MatchString(curveNames[2]) {
			if err := s.linear.Load(d.x); err != nil {
				return err
			}
			fmt.Printf("  %-6s", curveNames[2])
			for _, c := range sparseCosts {
				at, err := s.sparsePoint(d, c)
				if err != nil {
					return err
				}
				curves[2] = append(curves[2], at)
				fmt.Printf("  %.0f: %.2f (C=%g)", at.X, at.Y, c)
			}
			fmt.Println()
		}
		return drawCurves(filepath.Join(s.out, "features-"+set.name+".svg"), set.name, curves)
	})
}

// learned is one model's size and how many test rows it has wrong.
type learned struct {
	features, nodes, depth, wrong int
}

// trial is what a learner learns with: budget b and cost c, from some rows of d, to
// be judged on others.
type trial struct {
	d    *binaryData
	f    labels.Fold
	b    int
	c    float64
	seed uint64
}

// learner learns from the training rows of a trial and is judged on its test rows.
type learner func(ctx context.Context, t trial) (learned, error)

// curvePoint is the mean over the divisions, with the costs that were chosen in
// them, in ascending order.
func (s *settings) curvePoint(ctx context.Context, d *binaryData, b int, learn learner) (plot.Point, []float64, error) {
	var p plot.Point
	var chosen []float64
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		fold, err := randomSplit(d.x.Rows(), 5, uint64(seed))
		if err != nil {
			return p, nil, err
		}
		c := s.cost
		if s.inner > 1 {
			if _, c, err = s.crossValidate(ctx, trial{d: d, f: fold, seed: uint64(seed)}, []int{b}, curveCosts, learn); err != nil {
				return p, nil, err
			}
		}
		got, err := learn(ctx, trial{d, fold, b, c, uint64(seed)})
		if err != nil {
			return p, nil, err
		}
		chosen = append(chosen, c)
		p.X += float64(got.features) / float64(s.seeds)
		p.Y += 100 * float64(got.wrong) / float64(len(fold.Test)*s.seeds)
	}
	slices.Sort(chosen)
	return p, chosen, nil
}

// crossValidate is the budget and the cost with the fewest errors in
// cross-validation over the training rows of a trial; ties go to the smaller.
func (s *settings) crossValidate(
	ctx context.Context, of trial, budgets []int, costs []float64, learn learner,
) (int, float64, error) {
	rows := of.f.Train
	parts, err := labels.KFoldOf(rows, s.inner, of.seed)
	if err != nil {
		return 0, 0, err
	}
	bestB, bestC, least := 0, 0.0, len(rows)+1
	for _, b := range budgets {
		for _, c := range costs {
			wrong := 0
			for _, f := range parts {
				got, err := learn(ctx, trial{of.d, f, b, c, of.seed})
				if err != nil {
					return 0, 0, err
				}
				wrong += got.wrong
			}
			if wrong < least {
				bestB, bestC, least = b, c, wrong
			}
		}
	}
	return bestB, bestC, nil
}

func (s *settings) treeOf(grown bool) learner {
	return func(ctx context.Context, t trial) (learned, error) {
		bac := budget.BACParams{Budget: t.b, C: t.c, Exact: s.exact}
		m, err := t.d.train(ctx, t.f.Train, budget.Params{BAC: bac, Seed: t.seed, NoPrune: grown}, 1)
		if err != nil {
			return learned{}, err
		}
		st := m.Stats()
		return learned{st.Features, st.Nodes, st.Depth, t.d.wrongByTree(m, t.f.Test)}, nil
	}
}

func (s *settings) classifierOf(ctx context.Context, t trial) (learned, error) {
	m, _, err := budget.TrainBAC(ctx, t.d.x, t.d.y, t.f.Train, budget.BACParams{Budget: t.b, C: t.c, Exact: s.exact})
	if err != nil {
		return learned{}, err
	}
	return learned{len(m.Features), 1, 1, t.d.wrongByClassifier(m, t.f.Test)}, nil
}

// sparsePoint is the L1-SVM's mean over the divisions.
func (s *settings) sparsePoint(d *binaryData, c float64) (plot.Point, error) {
	var p plot.Point
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		f, err := randomSplit(d.x.Rows(), 5, uint64(seed))
		if err != nil {
			return p, err
		}
		got, err := s.linear.Train(liblinear.Params{Solver: liblinear.PrimalL1, C: c, Bias: 1}, d.y, f.Train, f.Test)
		if err != nil {
			return p, err
		}
		p.X += float64(got.Weights) / float64(s.seeds)
		p.Y += 100 * float64(got.Wrong(d.y, f.Test)) / float64(len(f.Test)*s.seeds)
	}
	return p, nil
}

// drawCurves writes a picture with a logarithmic axis of features.
func drawCurves(path, title string, curves [3][]plot.Point) error {
	c := plot.Chart{
		Title: title,
		X:     plot.Axis{Label: "selected features", Scale: plot.Log, Min: 1},
		Y:     plot.Axis{Label: "test error, %"},
	}
	for i, points := range curves {
		c.Series = append(c.Series, plot.Series{Name: curveNames[i], Points: points})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(c.Write(f), f.Close()); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	fmt.Println("  picture:", path)
	return nil
}
