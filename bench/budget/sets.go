package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/bench/internal/liblinear"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// labelSets are the sets of table 8 that are to be had, and stand-ins. Files
// are taken one after the other, and of the rows the first so many.
var labelSets = []struct {
	name, files string
	rows        int
	normalize   func(*vector.CSR)
	paper       string
}{
	{"corel5k", "corel5k/Corel5k-sparse.arff.gz", 0, nil, "BR 0.100, PT 0.123, AT 0.141"},
	{"cal500", "cal500/cal500.arff.gz", 0, standardize, "PT 0.324, AT 0.362"},
	{"medical", "medical/medical-*.arff.gz", 0, nil, ""},
	{"bibtex", "bibtex/bibtex-*.arff.gz", 0, nil, ""},
	{"delicious", "delicious/delicious-*.arff.gz", 4000, nil, ""},
	{"imdb", "imdb/*.arff.*", 6000, nil, ""},
}

// loadSets reads labelled files with one numbering of labels.
func loadSets(s *settings, pattern string, limit int) (*vector.CSR, *labels.Matrix, error) {
	if s.data == "" {
		return nil, nil, fmt.Errorf("%w: no -data, no ANNDB_DATA", errSkipped)
	}
	files, err := filepath.Glob(filepath.Join(s.data, pattern))
	if err != nil || len(files) == 0 {
		return nil, nil, fmt.Errorf("%w: no file %s", errSkipped, pattern)
	}
	x := &vector.CSR{Ptr: []uint64{0}}
	var b *labels.Builder
	for _, file := range files {
		if b, err = appendSets(file, limit, x, b); err != nil {
			return nil, nil, err
		}
	}
	return x, b.Matrix(), nil
}

// appendSets reads one file; a nil builder is made from its label names.
func appendSets(file string, limit int, x *vector.CSR, b *labels.Builder) (*labels.Builder, error) {
	r, err := dataset.Open(file, dataset.Options{Kind: dataset.Sparse})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if b == nil {
		if b, err = labels.NewBuilder(r.Schema().LabelNames); err != nil {
			return nil, err
		}
	}
	x.Cols = max(x.Cols, r.Schema().Dim)
	var rec dataset.Record
	for limit == 0 || x.Rows() < limit {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		x.Append(rec.Features)
		b.Add(rec.Labels)
	}
	return b, nil
}

// runSets prints table 8: example-based F1, mean and standard deviation over
// the folds. The parameters of every method are chosen rebuilt in each fold, on a
// fifth of its training rows held out.
func runSets(ctx context.Context, s *settings) error {
	fmt.Printf("Example-based F1 (0/0 = 0), %d of %d folds from %d on; parameters chosen in each on a fifth of its training rows.\n", min(s.seeds, s.folds-s.first), s.folds, s.first)
	for _, set := range labelSets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadSets(s, set.files, set.rows)
		if ok, err := usable(x, set.normalize, err); !ok {
			if err != nil {
				return err
			}
			continue
		}
		if s.linear != nil {
			if err := s.linear.Load(x); err != nil {
				return err
			}
		}
		folds, err := labels.KFold(x.Rows(), s.folds, 1)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d rows, %d features, %d labels; paper: %s\n", set.name, x.Rows(), x.Cols, y.Labels(), set.paper)
		if err := table8(ctx, s, x, y, folds[min(s.first, len(folds)):min(s.first+s.seeds, len(folds))]); err != nil {
			return err
		}
	}
	return nil
}

// answers is one method's label sets for the test rows, and what to say of it.
type answers func(f labels.Fold) (*labels.Matrix, string, error)

func table8(ctx context.Context, s *settings, x *vector.CSR, y *labels.Matrix, folds []labels.Fold) error {
	if s.linear != nil && !s.without.MatchString("liblinear") {
		if err := show("liblinear", folds, y, s.chosenRelevance(x, y)); err != nil {
			return err
		}
	}
	for _, kind := range []budget.Kind{budget.PT, budget.AT} {
		if s.without.MatchString(string(kind)) {
			continue
		}
		if err := show(string(kind), folds, y, chosenTree(ctx, s, kind, x, y)); err != nil {
			return err
		}
	}
	return nil
}

// randomSplit divides rows by a seed into training rows and one of k parts to test on.
func randomSplit(rows, k int, seed uint64) (labels.Fold, error) {
	folds, err := labels.KFold(rows, k, seed)
	if err != nil {
		return labels.Fold{}, err
	}
	return folds[0], nil
}

// meanDecisions returns the mean number of decisions that rows take in a tree of label sets.
func meanDecisions(m *budget.Model, x *vector.CSR) float64 {
	sum, p := 0, budget.NewPredictor(budget.NewIndex(m))
	for i := range x.Rows() {
		_, n := p.Leaf(x.Row(i), 0)
		sum += n
	}
	return float64(sum) / float64(max(1, x.Rows()))
}

// heldOut divides training rows into those to learn from and those to judge
// on.
func heldOut(rows []int) (labels.Fold, error) {
	f, err := randomSplit(len(rows), 5, 7)
	return labels.Fold{Train: pick(rows, f.Train), Test: pick(rows, f.Test)}, err
}

// setThresholds are what margins must exceed for a label to be in the set, those of
// AT's nodes and those of liblinear's models alike.
var setThresholds = []float32{-0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}

// chosenRelevance is binary relevance by L2-SVMs, with C and one threshold for all
// labels chosen by F1, as AT's are; the paper takes C = 1 and no threshold. Dual
// coordinate descent is the faster solver, save for dense rows.
func (s *settings) chosenRelevance(x *vector.CSR, y *labels.Matrix) answers {
	solver := liblinear.DualL2
	if len(x.Index) == x.Rows()*x.Cols {
		solver = liblinear.PrimalL2
	}
	return func(f labels.Fold) (*labels.Matrix, string, error) {
		inner, err := heldOut(f.Train)
		if err != nil {
			return nil, "", err
		}
		best, threshold, most := liblinear.Params{}, float32(0), -1.0
		for _, c := range []float64{0.1, 1, 10} {
			p := liblinear.Params{Solver: solver, C: c, Bias: 1}
			m, err := each(s.linear, p, y, inner.Train, inner.Test)
			if err != nil {
				return nil, "", err
			}
			f1, t, err := m.bestThreshold(0, y.Select(inner.Test), setThresholds)
			if err != nil {
				return nil, "", err
			}
			if f1 > most {
				best, threshold, most = p, t, f1
			}
		}
		m, err := each(s.linear, best, y, f.Train, f.Test)
		if err != nil {
			return nil, "", err
		}
		got, err := m.sets(0, len(f.Test), threshold, false)
		return got, fmt.Sprintf("C=%g threshold=%g", best.C, threshold), err
	}
}

// chosenTree is a tree with B, C, the balance of costs and, for AT, the
// threshold chosen by F1. A tree is trained once for all thresholds.
func chosenTree(ctx context.Context, s *settings, kind budget.Kind, x *vector.CSR, y *labels.Matrix) answers {
	thresholds := setThresholds
	if kind == budget.PT {
		thresholds = []float32{0}
	}
	train := func(rows []int, p budget.Params) (*budget.Model, error) {
		return budget.Train(ctx, kind, budget.Job{X: x, Sets: y, Rows: rows, Params: p, Workers: s.workers})
	}
	return func(f labels.Fold) (*labels.Matrix, string, error) {
		inner, err := heldOut(f.Train)
		if err != nil {
			return nil, "", err
		}
		test, truth := labels.SelectRows(x, inner.Test), y.Select(inner.Test)
		var best budget.Params
		most := -1.0
		for _, p := range s.treeGrid(x.Cols, kind) {
			m, err := train(inner.Train, p)
			if err != nil {
				return nil, "", err
			}
			for _, t := range thresholds {
				m.Threshold, p.Threshold = t, t
				got, err := budget.PredictSets(ctx, m, test, s.workers)
				if err != nil {
					return nil, "", err
				}
				report, err := labels.Evaluate(truth, got)
				if err != nil {
					return nil, "", err
				}
				if report.Zero.F1 > most {
					best, most = p, report.Zero.F1
				}
			}
		}
		m, err := train(f.Train, best)
		if err != nil {
			return nil, "", err
		}
		test = labels.SelectRows(x, f.Test)
		got, err := budget.PredictSets(ctx, m, test, s.workers)
		st := m.Stats()
		return got, fmt.Sprintf("B=%d C=%g balanced=%v positive=%d threshold=%g; nodes %d depth %d features %d; decisions train %.1f (entropy %.1f) test %.1f",
			best.BAC.Budget, best.BAC.C, best.BAC.Balanced, best.MinPositive, best.Threshold, st.Nodes, st.Depth, st.Features, st.Decisions, st.Entropy,
			meanDecisions(m, test)), err
	}
}

// treeGrid is what the parameters of PT and AT are chosen among: budgets from
// the paper's range and, but for -quick, all features, as the peer has; for AT
// also how many rows of a node must have a label for it to be asked there.
func (s *settings) treeGrid(m int, kind budget.Kind) []budget.Params {
	var grid []budget.Params
	budgets, costs := []int{max(1, m/50), max(1, m*9/100), m}, []float64{0.01, 0.1, 1}
	if s.quick {
		budgets, costs = budgets[1:2], costs[1:]
	}
	positive := []int{1}
	if kind == budget.AT {
		positive = []int{1, 3, 10}
	}
	for _, balanced := range []bool{false, true} {
		for _, b := range budgets {
			for _, c := range costs {
				for _, n := range positive {
					grid = append(grid, budget.Params{MinPositive: n, BAC: budget.BACParams{Budget: b, C: c, Balanced: balanced, Rounds: 5}})
				}
			}
		}
	}
	return grid
}

// show prints the F1 of every fold, the mean and standard deviation, and the last
// fold's note.
func show(name string, folds []labels.Fold, y *labels.Matrix, answer answers) error {
	start := time.Now()
	sum, square := 0.0, 0.0
	note := ""
	fmt.Printf("  %-10s", name)
	for _, f := range folds {
		got, n, err := answer(f)
		if err != nil {
			return err
		}
		report, err := labels.Evaluate(y.Select(f.Test), got)
		if err != nil {
			return err
		}
		fmt.Printf(" %.3f", report.Zero.F1)
		sum += report.Zero.F1
		square += report.Zero.F1 * report.Zero.F1
		note = n
	}
	mean := sum / float64(len(folds))
	spread := math.Sqrt(max(0, square/float64(len(folds))-mean*mean))
	fmt.Printf(": %.3f ± %.3f  %4.0f s; last fold: %s\n", mean, spread, time.Since(start).Seconds(), note)
	return nil
}
