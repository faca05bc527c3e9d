package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// labelSets are the sets of table 8 that are to be had, and stand-ins.
var labelSets = []struct {
	name, file string
	normalize  func(*vector.CSR)
	paper      string
}{
	{"corel5k", "corel5k/Corel5k-sparse.arff.gz", nil, "BR 0.100 LP 0.138 PT 0.123 AT 0.141"},
	{"cal500", "cal500/cal500.arff.gz", standardize, "PT 0.324 AT 0.362"},
	{"medical", "medical/medical-train.arff.gz", nil, ""},
	{"bibtex", "bibtex/bibtex-train.arff.gz", nil, ""},
	{"yeast", "yeast/yeast-train.arff.gz", standardize, ""},
	{"scene", "scene/scene-train.arff.gz", standardize, ""},
}

// loadSets reads a labelled file.
func loadSets(s settings, file string) (*vector.CSR, *labels.Matrix, error) {
	if s.data == "" {
		return nil, nil, fmt.Errorf("%w: no -data, no ANNDB_DATA", errSkipped)
	}
	r, err := dataset.OpenSparse(filepath.Join(s.data, file), dataset.SparseOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("%w %s: %w", errSkipped, file, err)
	}
	defer r.Close()
	b, err := labels.NewBuilder(r.LabelNames())
	if err != nil {
		return nil, nil, err
	}
	x := &vector.CSR{Ptr: []uint64{0}, Cols: max(0, r.NumFeatures())}
	var rec dataset.SparseRecord
	for {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return x, b.Matrix(), nil
		}
		if err != nil {
			return nil, nil, err
		}
		x.Append(rec.Features)
		b.Add(rec.Labels)
	}
}

// relevance is binary relevance by linear support vector machines: the sets of
// labels with a positive margin.
func relevance(x *vector.CSR, y *labels.Matrix, fold labels.Fold, cost float64) (*labels.Matrix, error) {
	sets := make([][]uint32, len(fold.Test))
	class := make([]int8, x.Rows())
	for l := range y.Labels() {
		any := false
		for _, r := range fold.Train {
			class[r] = -1
		}
		for _, r := range y.Column(l) {
			class[r] = 1
		}
		for _, r := range fold.Train {
			any = any || class[r] > 0
		}
		if !any {
			continue
		}
		m := trainSVM(x, class, fold.Train, cost)
		for i, r := range fold.Test {
			if m.margin(x.Row(r)) > 0 {
				sets[i] = append(sets[i], uint32(l))
			}
		}
	}
	return labels.FromSets(sets, y.Labels())
}

// runSets prints table 8: example-based F1, mean and standard deviation over
// the folds. B, C and the threshold are chosen on the first fold's training
// rows.
func runSets(ctx context.Context, s settings) error {
	fmt.Println("Example-based F1, 0/0 = 0,", s.folds, "folds.")
	for _, set := range labelSets {
		if !s.only.MatchString(set.name) {
			continue
		}
		x, y, err := loadSets(s, set.file)
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
		folds, err := labels.KFold(x.Rows(), s.folds, 1)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d rows, %d features, %d labels; paper %s\n", set.name, x.Rows(), x.Cols, y.Labels(), set.paper)
		if err := table8(ctx, s, x, y, folds); err != nil {
			return err
		}
	}
	return nil
}

func table8(ctx context.Context, s settings, x *vector.CSR, y *labels.Matrix, folds []labels.Fold) error {
	start := time.Now()
	err := show("BR", folds, y, func(f labels.Fold) (*labels.Matrix, string, error) {
		got, err := relevance(x, y, f, 1)
		return got, "", err
	})
	if err != nil {
		return err
	}
	fmt.Printf("   %.0f s\n", time.Since(start).Seconds())
	m := x.Cols
	grid := budget.Grid{Budgets: []int{max(1, m/50), max(1, m/10)}, Costs: []float64{0.01, 0.1, 1}, Folds: 3}
	for _, variant := range []struct {
		name       string
		kind       budget.Kind
		balanced   bool
		thresholds []float32
	}{
		{"PT", budget.PT, false, nil},
		{"PT balanced", budget.PT, true, nil},
		{"AT", budget.AT, false, nil},
		{"AT threshold", budget.AT, false, []float32{-0.9, -0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0}},
		{"AT balanced", budget.AT, true, nil},
		{"AT balanced threshold", budget.AT, true, []float32{-0.2, -0.1, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8}},
	} {
		start := time.Now()
		params := budget.Params{BAC: budget.BACParams{Budget: 1, Balanced: variant.balanced, Rounds: 5}}
		g := grid
		g.Thresholds = variant.thresholds
		params, _, err := budget.ChooseSets(ctx, variant.kind, x, y, folds[0].Train, params, g, s.workers, nil)
		if err != nil {
			return err
		}
		train := budget.TrainAT
		if variant.kind == budget.PT {
			train = budget.TrainPT
		}
		err = show(variant.name+" B="+strconv.Itoa(params.BAC.Budget)+" C="+strconv.FormatFloat(params.BAC.C, 'g', 3, 64)+
			" t="+strconv.FormatFloat(float64(params.Threshold), 'g', 2, 32), folds, y, func(f labels.Fold) (*labels.Matrix, string, error) {
			m, err := train(ctx, x, y, f.Train, params, s.workers, nil)
			if err != nil {
				return nil, "", err
			}
			test := labels.SelectRows(x, f.Test)
			got, err := budget.PredictSets(ctx, m, test, s.workers)
			if err != nil {
				return nil, "", err
			}
			scores, err := budget.PredictScores(ctx, m, test, 1e-3, s.workers)
			if err != nil {
				return nil, "", err
			}
			rank, err := labels.EvaluateRanking(y.Select(f.Test), scores, []int{1, 5}, nil)
			if err != nil {
				return nil, "", err
			}
			st := m.Stats()
			note := fmt.Sprintf("p@1 %.3f p@5 %.3f; nodes %d depth %d features %d; decisions train %.1f (entropy %.1f) test %.1f",
				rank.Precision[0], rank.Precision[1], st.Nodes, st.Depth, st.Features, st.Decisions, st.Entropy,
				budget.NewPredictor(budget.NewIndex(m)).MeanDecisions(test))
			return got, note, nil
		})
		if err != nil {
			return err
		}
		fmt.Printf("   %.0f s\n", time.Since(start).Seconds())
	}
	return nil
}

// show prints the mean F1 over the folds, and the last fold's note.
func show(name string, folds []labels.Fold, y *labels.Matrix, answer func(labels.Fold) (*labels.Matrix, string, error)) error {
	sum, square := 0.0, 0.0
	note := ""
	for _, f := range folds {
		got, n, err := answer(f)
		if err != nil {
			return err
		}
		report, err := labels.Evaluate(y.Select(f.Test), got)
		if err != nil {
			return err
		}
		sum += report.Zero.F1
		square += report.Zero.F1 * report.Zero.F1
		note = n
	}
	mean := sum / float64(len(folds))
	spread := math.Sqrt(max(0, square/float64(len(folds))-mean*mean))
	fmt.Printf("  %-36s %.3f ± %.3f  %s", name, mean, spread, note)
	return nil
}
