package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// textSet is a text collection with its public division. dev is what
// parameters are chosen on where it is not empty; see tuning.
type textSet struct {
	name             string
	x                *vector.CSR
	y                *labels.Matrix
	train, dev, test []int
}

// loadText reads a collection and weights it by the training rows.
func loadText(s *settings, name string) (*textSet, error) {
	dir := filepath.Join(s.data, name)
	names, err := dataset.ReadNames(filepath.Join(dir, "labels.txt.gz"), 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSkipped, err)
	}
	b, err := labels.NewBuilder(names)
	if err != nil {
		return nil, err
	}
	set := &textSet{name: name, x: &vector.CSR{Ptr: []uint64{0}}}
	for _, part := range []struct {
		name string
		rows *[]int
	}{{"train", &set.train}, {"dev", &set.dev}, {"test", &set.test}} {
		file := filepath.Join(dir, name+"-"+part.name+".txt.gz")
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) && part.name == "dev" {
			continue
		}
		first := set.x.Rows()
		if err := readXMC(file, names, set.x, b); err != nil {
			return nil, err
		}
		for i := first; i < set.x.Rows(); i++ {
			*part.rows = append(*part.rows, i)
		}
	}
	tfidf(set.x, len(set.train))
	set.y = b.Matrix()
	return set, nil
}

// tuning is the rows that parameters are chosen by: those to learn from and
// those to judge on, which are the public dev part or, without one, a tenth of
// the training rows drawn at random, since files may be in the order of classes.
func (t *textSet) tuning() (learn, dev []int, err error) {
	if len(t.dev) > 0 {
		return t.train, t.dev, nil
	}
	f, err := randomSplit(len(t.train), 10, 7)
	return pick(t.train, f.Train), pick(t.train, f.Test), err
}

// oneLabelEach says whether every row has one label.
func (t *textSet) oneLabelEach() bool {
	for i := range t.y.Rows() {
		if len(t.y.Row(i)) != 1 {
			return false
		}
	}
	return true
}

// entrant is what a method showed.
type entrant struct {
	name          string
	sets          *labels.Matrix
	scores        *vector.CSR
	train         float64 // CPU seconds
	answer, score float64 // CPU microseconds a row, one thread; 0: not apart
	bytes         int
	features      int
	note          string
}

// runLarge trains on EURLEX57K and on the newsgroups, with their public
// divisions, and prints F1, precision, times and sizes of all methods.
func runLarge(ctx context.Context, s *settings) error {
	if s.data == "" {
		return fmt.Errorf("%w: no -data, no ANNDB_DATA", errSkipped)
	}
	for _, name := range []string{"eurlex57k", "news20-bydate"} {
		if !s.only.MatchString(name) {
			continue
		}
		set, err := loadText(s, name)
		if errors.Is(err, errSkipped) {
			fmt.Println(err)
			continue
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d + %d rows, %d features, %d labels; times are CPU's\n", name, len(set.train), len(set.test), set.x.Cols, set.y.Labels())
		fmt.Println("method          |    F1   p@1   p@3   p@5 labels |    cpu s  answer µs  scores µs |      KiB features | note")
		for _, method := range []struct {
			name string
			run  func(context.Context, *settings, *textSet) (*entrant, error)
		}{
			{"at", func(ctx context.Context, s *settings, t *textSet) (*entrant, error) {
				return annotate(ctx, s, t, budget.AT)
			}},
			{"pt", func(ctx context.Context, s *settings, t *textSet) (*entrant, error) {
				return annotate(ctx, s, t, budget.PT)
			}},
			{"sbt", rest}, {"lcif", neighbours},
			{"liblinear", func(_ context.Context, s *settings, t *textSet) (*entrant, error) {
				return oneAgainstRest(s, t)
			}},
		} {
			if s.without.MatchString(method.name) {
				continue
			}
			e, err := method.run(ctx, s, set)
			if errors.Is(err, errSkipped) {
				fmt.Println(err)
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", method.name, err)
			}
			if err := e.print(set); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *entrant) print(set *textSet) error {
	truth := set.y.Select(set.test)
	report, err := labels.Evaluate(truth, e.sets)
	if err != nil {
		return err
	}
	rank, err := labels.EvaluateRanking(truth, e.scores, []int{1, 3, 5})
	if err != nil {
		return err
	}
	fmt.Printf("%-15s | %.3f %.3f %.3f %.3f %6.2f | %8.1f %10.1f %10.1f | %8d %8d | %s\n", e.name, report.Zero.F1, rank.Precision[0], rank.Precision[1], rank.Precision[2],
		report.Predicted, e.train, e.answer, e.score, e.bytes>>10, e.features, e.note)
	return nil
}

// micros is the CPU time of a call, in microseconds a row.
func micros(rows int, call func() error) (float64, error) {
	start := process.CPU()
	err := call()
	return float64((process.CPU() - start).Nanoseconds()) / 1e3 / float64(rows), err
}

// annotate is AT or PT, with B and C chosen. The threshold of AT is that of the
// best F1 on a public dev part, or the one chosen along with them.
func annotate(ctx context.Context, s *settings, set *textSet, kind budget.Kind) (*entrant, error) {
	chosen, err := s.chooseSets(ctx, set, kind)
	if err != nil {
		return nil, err
	}
	start := process.CPU()
	m, err := s.train(ctx, kind, set, set.train, chosen.params)
	if err != nil {
		return nil, err
	}
	e := &entrant{name: string(kind), train: (process.CPU() - start).Seconds()}
	if len(set.dev) > 0 {
		if _, m.Threshold, err = bestThreshold(ctx, m, labels.SelectRows(set.x, set.dev), set.y.Select(set.dev)); err != nil {
			return nil, err
		}
	}
	test := labels.SelectRows(set.x, set.test)
	p := budget.NewPredictor(budget.NewIndex(m))
	e.answer, err = micros(test.Rows(), func() error {
		for i := range test.Rows() {
			p.Set(test.Row(i))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	e.score, err = micros(test.Rows(), func() (err error) {
		e.scores = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m.Labels}
		for i := range test.Rows() {
			e.scores.Append(p.Scores(test.Row(i), 1e-3))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.sets, err = budget.PredictSets(ctx, m, test, 1); err != nil {
		return nil, err
	}
	st := m.Stats()
	e.bytes, e.features = st.Bytes, st.Features
	b := chosen.params.BAC
	e.note = fmt.Sprintf("B=%d rounds=%d C=%g threshold=%g, chosen in %.0f s; %d nodes, depth %d; decisions %.1f (entropy %.1f), test %.1f", b.Budget, b.Rounds, b.C, m.Threshold,
		chosen.spent, st.Nodes, st.Depth, st.Decisions, st.Entropy, meanDecisions(m, test))
	return e, nil
}

// bestThreshold is the best F1, and the threshold that has it: 0 for PT, which
// has none to choose.
func bestThreshold(ctx context.Context, m *budget.Model, x *vector.CSR, truth *labels.Matrix) (f1 float64, best float32, err error) {
	thresholds := []float32{-0.8, -0.7, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0, 0.1, 0.2, 0.3}
	if m.Kind == budget.PT {
		thresholds = []float32{0}
	}
	f1 = -1
	for _, t := range thresholds {
		m.Threshold = t
		got, err := budget.PredictSets(ctx, m, x, 1)
		if err != nil {
			return 0, 0, err
		}
		report, err := labels.Evaluate(truth, got)
		if err != nil {
			return 0, 0, err
		}
		if report.Zero.F1 > f1 {
			f1, best = report.Zero.F1, t
		}
	}
	return f1, best, nil
}

// rest is one SBT a class against the rest, for sets with one label a row: trees
// of one node and one classifier, as linear as the peer's, whose margins of
// different classes can be compared.
func rest(ctx context.Context, s *settings, set *textSet) (*entrant, error) {
	if !set.oneLabelEach() {
		return nil, fmt.Errorf("%w sbt: rows of %s have several labels", errSkipped, set.name)
	}
	class := make([]uint32, set.x.Rows())
	for i := range class {
		class[i] = set.y.Row(i)[0]
	}
	chosen, err := s.chooseRest(ctx, set, class)
	if err != nil {
		return nil, err
	}
	start := process.CPU()
	m, err := s.trainRest(ctx, set, class, set.train, chosen.params)
	if err != nil {
		return nil, err
	}
	e := &entrant{name: "sbt", train: (process.CPU() - start).Seconds()}
	p := budget.NewPredictor(budget.NewIndex(m))
	sets := make([][]uint32, len(set.test))
	e.scores = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: set.y.Labels()}
	test := labels.SelectRows(set.x, set.test)
	e.answer, err = micros(len(sets), func() error {
		for i := range sets {
			c, _ := p.Class(test.Row(i))
			sets[i] = []uint32{uint32(c)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range sets {
		values := p.ClassScores(nil, test.Row(i))
		order := make([]uint32, len(values))
		for c := range order {
			order[c] = uint32(c)
		}
		slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(values[b], values[a]) })
		e.scores.Append(lcifbench.Ranking(order[:min(5, len(order))]))
	}
	st := m.Stats()
	e.bytes, e.features = st.Bytes, st.Features
	b := chosen.params.BAC
	e.note = fmt.Sprintf("B=%d rounds=%d C=%g, chosen in %.0f s; %d nodes, depth %d", b.Budget, b.Rounds, b.C, chosen.spent, st.Nodes, st.Depth)
	e.sets, err = labels.FromSets(sets, set.y.Labels())
	return e, err
}

// neighbours is LCIF, tuned on up to 1,000 rows of dev, or of training rows
// held out where there is no dev part.
func neighbours(ctx context.Context, s *settings, set *textSet) (*entrant, error) {
	learn, dev, err := set.tuning()
	if err != nil {
		return nil, err
	}
	dev = dev[:min(len(dev), 1000)]
	train := &lcifbench.Part{Rows: labels.SelectRows(set.x, learn), Labels: set.y.Select(learn)}
	held := &lcifbench.Part{Rows: labels.SelectRows(set.x, dev), Labels: set.y.Select(dev)}
	start := process.CPU()
	curve, err := lcif.Tune(ctx, lcifbench.HoldOut(train, held, s.workers), lcif.TuneOptions{
		Ks: []int{5, 10, 20, 30}, Alphas: []float64{1, 2}, Betas: []float64{1}, Lambdas: []float64{0.7, 0.9, 1},
		Cuts: lcif.DefaultCuts(false), Passes: 1, Workers: s.workers,
	})
	if err != nil {
		return nil, err
	}
	tuned := (process.CPU() - start).Seconds()
	params := curve.Params
	start = process.CPU()
	view, counts, err := lcif.Build(ctx, labels.SelectRows(set.x, set.train), set.y.Select(set.train), 0, s.workers)
	if err != nil {
		return nil, err
	}
	if err := view.SetPower(counts, params.Beta); err != nil {
		return nil, err
	}
	e := &entrant{name: "lcif", train: (process.CPU() - start).Seconds(), features: set.x.Cols, bytes: 8 * int(set.x.Ptr[len(set.train)])}
	test := lcif.UnitRows(labels.SelectRows(set.x, set.test), view)
	answers := make([][]uint32, test.Rows())
	e.answer, err = micros(test.Rows(), func() error {
		got, err := lcifbench.Predict(ctx, view, test, &params, 1)
		for i, row := range got {
			for _, r := range row {
				answers[i] = append(answers[i], r.Label)
			}
			slices.Sort(answers[i])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e.score, err = micros(test.Rows(), func() (err error) {
		e.scores, err = lcifbench.Scores(ctx, view, test, &params)
		return err
	})
	if err != nil {
		return nil, err
	}
	e.sets, err = labels.FromSets(answers, set.y.Labels())
	e.note = fmt.Sprintf("k=%d α=%g λ=%g, tuned in %.0f s; KiB: the training rows, 8 bytes an entry", params.K, params.Alpha, params.Lambda, tuned)
	return e, err
}
