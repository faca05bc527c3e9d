package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// readXMC appends a file's rows to x and the label builder.
func readXMC(path string, names []string, x *vector.CSR, b *labels.Builder) error {
	r, err := dataset.OpenSparse(path, dataset.SparseOptions{Format: dataset.FormatXMC, LabelNames: names})
	if err != nil {
		return fmt.Errorf("%w: %w", errSkipped, err)
	}
	defer r.Close()
	var rec dataset.SparseRecord
	for {
		err := r.Read(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x.Append(rec.Features)
		b.Add(rec.Labels)
	}
}

// tfidf weights counts by 1 + log count and by log n/df over the first n rows,
// and makes the rows of unit length. Features that these rows lack get zero.
func tfidf(x *vector.CSR, n int) {
	df := make([]float64, x.Cols)
	for _, j := range x.Index[:x.Ptr[n]] {
		df[j]++
	}
	for e, j := range x.Index {
		if df[j] == 0 {
			x.Value[e] = 0
			continue
		}
		x.Value[e] = float32((1 + math.Log(float64(x.Value[e]))) * math.Log(float64(n)/df[j]))
	}
	for i := range x.Rows() {
		row := x.Row(i)
		if norm := row.Norm(); norm > 0 {
			for e := range row.Value {
				row.Value[e] = float32(float64(row.Value[e]) / norm)
			}
		}
	}
}

// runLarge trains on EURLEX57K and on the newsgroups, with their public
// divisions, and prints F1, precision, times and sizes.
func runLarge(ctx context.Context, s settings) error {
	if s.data == "" {
		return fmt.Errorf("%w: no -data, no ANNDB_DATA", errSkipped)
	}
	for _, set := range []string{"eurlex57k", "news20-bydate"} {
		if !s.only.MatchString(set) {
			continue
		}
		names, err := dataset.ReadNames(filepath.Join(s.data, set, "labels.txt.gz"), 1)
		if err != nil {
			fmt.Println(errSkipped, err)
			continue
		}
		b, err := labels.NewBuilder(names)
		if err != nil {
			return err
		}
		x := &vector.CSR{Ptr: []uint64{0}}
		if err := readXMC(filepath.Join(s.data, set, set+"-train.txt.gz"), names, x, b); err != nil {
			return err
		}
		n := x.Rows()
		if err := readXMC(filepath.Join(s.data, set, set+"-test.txt.gz"), names, x, b); err != nil {
			return err
		}
		tfidf(x, n)
		y := b.Matrix()
		fold := labels.Fold{Train: make([]int, n), Test: make([]int, x.Rows()-n)}
		for i := range fold.Train {
			fold.Train[i] = i
		}
		for i := range fold.Test {
			fold.Test[i] = n + i
		}
		fmt.Printf("%s: %d + %d rows, %d features, %d labels\n", set, n, len(fold.Test), x.Cols, y.Labels())
		if err := large(ctx, s, set, x, y, fold); err != nil {
			return err
		}
	}
	return nil
}

func large(ctx context.Context, s settings, set string, x *vector.CSR, y *labels.Matrix, fold labels.Fold) error {
	test := labels.SelectRows(x, fold.Test)
	truth := y.Select(fold.Test)
	for _, kind := range []budget.Kind{budget.PT, budget.AT} {
		params := budget.Params{BAC: budget.BACParams{Budget: s.budget, C: s.cost, Balanced: s.balanced}}
		train := budget.TrainPT
		if kind == budget.AT {
			train = budget.TrainAT
		}
		start := time.Now()
		m, err := train(ctx, x, y, fold.Train, params, s.workers, nil)
		if err != nil {
			return err
		}
		learned := time.Since(start)
		p := budget.NewPredictor(budget.NewIndex(m))
		start = time.Now()
		for i := range test.Rows() {
			p.Set(test.Row(i))
		}
		answered := time.Since(start)
		start = time.Now()
		scores, err := budget.PredictScores(ctx, m, test, 1e-3, 1)
		if err != nil {
			return err
		}
		ranked := time.Since(start)
		rank, err := labels.EvaluateRanking(truth, scores, []int{1, 3, 5}, nil)
		if err != nil {
			return err
		}
		st := m.Stats()
		fmt.Printf("  %s: p@1 %.3f p@3 %.3f p@5 %.3f; trained %.0f s, answers %.1f µs, scores %.1f µs a row; %d nodes, depth %d, %d features, %d KiB; decisions %.1f (entropy %.1f), test %.1f\n",
			kind, rank.Precision[0], rank.Precision[1], rank.Precision[2], learned.Seconds(),
			float64(answered.Microseconds())/float64(test.Rows()), float64(ranked.Microseconds())/float64(test.Rows()),
			st.Nodes, st.Depth, st.Features, st.Bytes>>10, st.Decisions, st.Entropy, p.MeanDecisions(test))
		for _, t := range []float32{-0.6, -0.3, 0, 0.3, 0.6} {
			if kind == budget.PT && t != 0 {
				continue
			}
			m.Threshold = t
			got, err := budget.PredictSets(ctx, m, test, s.workers)
			if err != nil {
				return err
			}
			report, err := labels.Evaluate(truth, got)
			if err != nil {
				return err
			}
			fmt.Printf("    threshold %4.1f: F1 %.3f, %.1f labels a row\n", t, report.Zero.F1, report.Predicted)
		}
	}
	if set != "news20-bydate" {
		return nil
	}
	class := make([]uint32, x.Rows())
	for i := range class {
		class[i] = y.Row(i)[0]
	}
	start := time.Now()
	m, err := budget.TrainMulticlass(ctx, x, class, y.Labels(), fold.Train, budget.Params{BAC: budget.BACParams{Budget: s.budget, C: s.cost}}, s.workers, nil)
	if err != nil {
		return err
	}
	learned := time.Since(start)
	p := budget.NewPredictor(budget.NewIndex(m))
	right := 0
	start = time.Now()
	for _, r := range fold.Test {
		if c, _ := p.Class(x.Row(r)); c == int(class[r]) {
			right++
		}
	}
	st := m.Stats()
	fmt.Printf("  sbt, one against the rest: accuracy %.3f; trained %.0f s, answers %.1f µs a row; %d nodes, depth %d, %d features, %d KiB\n",
		float64(right)/float64(len(fold.Test)), learned.Seconds(), float64(time.Since(start).Microseconds())/float64(len(fold.Test)),
		st.Nodes, st.Depth, st.Features, st.Bytes>>10)
	return nil
}
