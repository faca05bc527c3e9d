package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// curveNames are the methods of figure 5 here.
var curveNames = []string{"SBT", "SBT unpruned", "BAC", "L1-SVM"}

// runCurve prints and draws figure 5: test errors against the number of
// selected features, of the tree with and without pruning (table 4), of one BAC
// and of liblinear's L1-SVM, means of the random divisions. B makes the curve of
// ours at C = 1, C that of the L1-SVM.
func runCurve(ctx context.Context, s *settings) error {
	for _, set := range binarySets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadBinary(s, set.name)
		if errors.Is(err, errSkipped) {
			fmt.Println(err)
			continue
		}
		if err != nil {
			return err
		}
		if set.normalize != nil {
			set.normalize(x)
		}
		var curves [4]plotter.XYs
		for _, b := range []int{1, 2, 5, 10, 20, 50, 100, 200} {
			for i, train := range []trainer{treeOf(false), treeOf(true), classifierOf} {
				at, err := s.curvePoint(ctx, x, y, float64(b), train)
				if err != nil {
					return err
				}
				curves[i] = append(curves[i], at)
			}
		}
		if s.linear != nil {
			if err := s.linear.load(x); err != nil {
				return err
			}
			for _, c := range []float64{0.01, 0.03, 0.1, 0.3, 1, 3, 10} {
				at, err := s.curvePoint(ctx, x, y, c, s.sparseOf)
				if err != nil {
					return err
				}
				curves[3] = append(curves[3], at)
			}
		}
		fmt.Printf("%s: features and test error in %%, means of %d divisions\n", set.name, s.seeds)
		for i, curve := range curves {
			fmt.Printf("  %-12s", curveNames[i])
			for _, p := range curve {
				fmt.Printf("  %.0f: %.2f", p.X, p.Y)
			}
			fmt.Println()
		}
		if err := drawCurves(filepath.Join(s.out, "features-"+set.name+".svg"), set.name, curves); err != nil {
			return err
		}
	}
	return nil
}

// trainer learns from some rows, and says how many features it took and the
// share of the test rows that are wrong.
type trainer func(ctx context.Context, x *vector.CSR, y []int8, f labels.Fold, at float64, seed uint64) (features int, wrong float64, err error)

// curvePoint is the mean over the divisions.
func (s *settings) curvePoint(ctx context.Context, x *vector.CSR, y []int8, at float64, train trainer) (plotter.XY, error) {
	var p plotter.XY
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		fold, err := labels.RandomSplit(x.Rows(), 0.2, uint64(seed))
		if err != nil {
			return p, err
		}
		n, wrong, err := train(ctx, x, y, fold, at, uint64(seed))
		if err != nil {
			return p, err
		}
		p.X += float64(n) / float64(s.seeds)
		p.Y += 100 * wrong / float64(s.seeds)
	}
	return p, nil
}

func treeOf(grown bool) trainer {
	return func(ctx context.Context, x *vector.CSR, y []int8, f labels.Fold, b float64, seed uint64) (int, float64, error) {
		params := budget.Params{BAC: budget.BACParams{Budget: int(b), C: 1}, Seed: seed, NoPrune: grown}
		m, err := budget.TrainSBT(ctx, x, y, f.Train, params, 1, nil)
		if err != nil {
			return 0, 0, err
		}
		return m.Stats().Features, sbtError(m, x, y, f.Test), nil
	}
}

func classifierOf(ctx context.Context, x *vector.CSR, y []int8, f labels.Fold, b float64, _ uint64) (int, float64, error) {
	c, _, err := budget.TrainBAC(ctx, x, y, f.Train, budget.BACParams{Budget: int(b), C: 1})
	if err != nil {
		return 0, 0, err
	}
	wrong := 0
	for _, r := range f.Test {
		if (c.Margin(x.Row(r)) > 0) != (y[r] > 0) {
			wrong++
		}
	}
	return len(c.Features), float64(wrong) / float64(len(f.Test)), nil
}

func (s *settings) sparseOf(_ context.Context, _ *vector.CSR, y []int8, f labels.Fold, c float64, _ uint64) (int, float64, error) {
	got, err := s.linear.train(linearParams{solver: primalL1, c: c, bias: 1}, y, f.Train, f.Test)
	return int(got.weights), float64(got.wrong(y, f.Test)) / float64(len(f.Test)), err
}

// drawCurves writes a picture with a logarithmic axis of features.
func drawCurves(path, title string, curves [4]plotter.XYs) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "selected features", "test error, %"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top = true
	var lines []any
	for i, curve := range curves {
		var shown plotter.XYs
		for _, at := range curve {
			if at.X >= 1 && !math.IsNaN(at.Y) {
				shown = append(shown, at)
			}
		}
		if len(shown) > 0 {
			lines = append(lines, curveNames[i], shown)
		}
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := p.Save(6*vg.Inch, 4*vg.Inch, path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	fmt.Println("  picture:", path)
	return nil
}
