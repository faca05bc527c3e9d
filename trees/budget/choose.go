package budget

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/internal/descent"
	"github.com/anndb/anndb/labels"
)

// Grid has the values among which Choose looks for the budget B, the cost C and, for AT, MinPositive and the
// threshold. An empty list stands for the value in Params.
type Grid struct {
	Budgets    []int     `flag:"budgets" min:"1"`
	Costs      []float64 `flag:"costs" above:"0"`
	Thresholds []float32 `flag:"thresholds"`                          // AT only
	Positives  []int     `json:",omitempty" flag:"positives" min:"1"` // MinPositive; AT only
	// Folds is how many parts the rows are divided into, each of which is the
	// test part once: 5.
	Folds int `flag:"folds" min:"0" max:"1000"`
}

// DefaultGrid is a grid for m features: up to four budgets, from 10 to
// 300 but no more than m, three costs from 0.1 to 10, and for AT five
// thresholds from -0.75 to 0.25 and a MinPositive of 1 or 3: where rows have many
// labels, a tree with decisions about rare ones down to the last row learns single rows.
func DefaultGrid(kind Kind, m int) Grid {
	g := Grid{Costs: []float64{0.1, 1, 10}, Folds: 5}
	for _, b := range []int{10, 30, 100, 300} {
		if b = min(b, max(1, m)); !slices.Contains(g.Budgets, b) {
			g.Budgets = append(g.Budgets, b)
		}
	}
	if kind == AT {
		g.Thresholds = []float32{0, -0.25, 0.25, -0.5, -0.75}
		g.Positives = []int{1, 3}
	}
	return g
}

// Trial is the result of one setting.
type Trial struct {
	Budget    int
	C         float64
	Threshold float32
	Positive  int `json:",omitempty"` // MinPositive; 0 is 1
	// Score is the mean over the folds: the share of rows with the right class
	// for SBT, Job.Measure for PT and AT. The larger the better. Spread is the standard
	// deviation over the folds.
	Score, Spread float64
}

// maxPasses is the largest number of passes of Choose over the lists of a Grid.
const maxPasses = 2

// Choose finds the budget, the cost and, for AT, MinPositive and the threshold with
// the best score in cross-validation over the job's rows by coordinate descent: it starts
// in the middle of each list and tries the values of one list after the other, in at most
// two passes. Of equal ones the first is taken. It returns the job's
// parameters with these, and all trials in their order. Choose trains a tree for each
// setting and fold; all thresholds are judged with one tree. Progress counts settings, and
// its total grows. If Stop ends Choose, the best measured setting is chosen. A class of SBT
// that no training row of a fold has is never predicted there.
//
// Errors: those of Train; ErrInput for more folds than rows.
func Choose(ctx context.Context, kind Kind, job Job, grid Grid) (Params, []Trial, error) {
	if kind != AT {
		grid.Thresholds, grid.Positives = nil, nil
	}
	p := &job.Params
	middle(&p.BAC.Budget, grid.Budgets)
	middle(&p.BAC.C, grid.Costs)
	middle(&p.MinPositive, grid.Positives)
	whole := job
	job.Progress = nil
	rows, err := job.prepare(kind)
	if err == nil && kind != SBT {
		err = job.trainable(kind, rows)
	}
	if err != nil {
		return whole.Params, nil, err
	}
	whole.Params.BAC.C = p.BAC.C // the default for zero
	fit := func(p Params, fold labels.Fold, thresholds []float32) ([]float64, error) {
		job.Params, job.Rows = p, fold.Train
		if kind == SBT {
			score, err := job.classScore(ctx, fold.Test)
			return []float64{score}, err
		}
		return job.setScores(ctx, kind, fold.Test, thresholds)
	}
	return grid.run(ctx, rows, &whole, fit)
}

// middle sets a value to the middle one of a list, if it has any: of two the first one.
func middle[T any](x *T, list []T) {
	if n := len(list); n > 0 {
		*x = list[(n-1)/2]
	}
}

// trainKnown trains a SBT for the classes that the rows have, and returns these.
func (j *Job) trainKnown(ctx context.Context) (*Model, []uint32, error) {
	train, known := *j, []uint32{}
	number := make([]uint32, j.Classes)
	chosen, err := checkRows(j.X.Rows(), j.Rows)
	if err != nil {
		return nil, nil, err
	}
	for c, n := range j.countClasses(chosen) {
		if n > 0 {
			number[c] = uint32(len(known))
			known = append(known, uint32(c))
		}
	}
	if len(known) == 1 {
		return nil, nil, ErrOneClass
	}
	train.Classes, train.Class = len(known), make([]uint32, len(j.Class))
	for _, r := range chosen {
		train.Class[r] = number[j.Class[r]]
	}
	m, err := Train(ctx, SBT, train)
	return m, known, err
}

// classScore returns the share of the test rows with the right class, by a SBT of the rows.
func (j *Job) classScore(ctx context.Context, test []int) (float64, error) {
	m, known, err := j.trainKnown(ctx)
	if err != nil {
		return 0, err
	}
	p := NewPredictor(NewIndex(m))
	right := 0
	for _, r := range test {
		if c, _ := p.Class(j.X.Row(r)); known[c] == j.Class[r] {
			right++
		}
	}
	return float64(right) / float64(len(test)), nil
}

// setScores trains a PT or AT and returns its F1 on the test rows at each
// threshold.
func (j *Job) setScores(ctx context.Context, kind Kind, test []int, thresholds []float32) ([]float64, error) {
	scores := make([]float64, len(thresholds))
	m, err := Train(ctx, kind, *j)
	if errors.Is(err, ErrOneClass) && j.Params.MinPositive > 1 {
		return scores, nil // no label is frequent enough
	}
	if err != nil {
		return nil, err
	}
	x, truth := labels.SelectRows(j.X, test), j.Sets.Select(test)
	for i, t := range thresholds {
		m.Threshold = t
		got, err := PredictSets(ctx, m, x, j.Workers)
		if err != nil {
			return nil, err
		}
		report, err := labels.Evaluate(truth, got)
		if err != nil {
			return nil, fmt.Errorf("budget: choose: %w", err)
		}
		if scores[i] = report.Zero.F1; j.Measure != nil {
			scores[i] = j.Measure(report)
		}
	}
	return scores, nil
}

// run searches from the job's parameters. fit trains on a fold and returns the score at each threshold.
func (g Grid) run(
	ctx context.Context, chosen []int32, job *Job, fit func(Params, labels.Fold, []float32) ([]float64, error),
) (Params, []Trial, error) {
	params := job.Params
	if g.Folds == 0 {
		g.Folds = 5
	}
	if len(g.Thresholds) == 0 {
		g.Thresholds = []float32{params.Threshold}
	}
	rows := make([]int, len(chosen))
	for i, r := range chosen {
		rows[i] = int(r)
	}
	folds, err := labels.KFoldOf(rows, g.Folds, params.Seed)
	if err != nil {
		return params, nil, fmt.Errorf("%w: %w", ErrInput, err)
	}
	var trials []Trial
	threshold := map[Params]float32{} // the best one
	s := descent.Search[Params, Params]{Best: params, Key: func(p Params) Params { return p }}
	s.Measure = func(_ context.Context, p Params) (float64, bool, error) {
		scores := make([][]float64, len(g.Thresholds))
		for _, f := range folds {
			if len(trials) > 0 && descent.Stopped(job.Stop) {
				return 0, false, nil
			}
			got, err := fit(p, f, g.Thresholds)
			if err != nil {
				return 0, false, err
			}
			for k, s := range got {
				scores[k] = append(scores[k], s)
			}
		}
		value := math.Inf(-1)
		for k, t := range g.Thresholds {
			mean, spread := meanSpread(scores[k])
			trials = append(trials, Trial{
				Budget: p.BAC.Budget, C: p.BAC.C, Threshold: t, Positive: p.MinPositive, Score: mean, Spread: spread,
			})
			if mean > value {
				value, threshold[p] = mean, t
			}
		}
		if job.Progress != nil {
			job.Progress(len(trials)/len(g.Thresholds), s.Total)
		}
		return value, true, nil
	}
	err = s.Descend(ctx, maxPasses,
		descent.Along(g.Positives, func(p *Params, n int) { p.MinPositive = n }),
		descent.Along(g.Costs, func(p *Params, c float64) { p.BAC.C = c }),
		descent.Along(g.Budgets, func(p *Params, b int) { p.BAC.Budget = b }))
	if err != nil {
		return params, nil, err
	}
	params = s.Best
	params.Threshold = threshold[s.Best]
	return params, trials, nil
}

// meanSpread is the mean and the standard deviation.
func meanSpread(values []float64) (mean, spread float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		spread += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(spread)
}
