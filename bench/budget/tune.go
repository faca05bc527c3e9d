package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/trees/budget"
)

// tuneRows is how many rows the trees of large are tried on at most when their
// parameters are chosen.
const tuneRows = 10000

// largeBudgets are what B is chosen among, by set and kind. On EURLEX57K an
// answer of AT takes 73 decisions, each of which pays for its features: budgets
// there stay small, so that answers remain cheap.
var largeBudgets = map[string]map[budget.Kind][]int{
	"eurlex57k":     {budget.AT: {10, 30}, budget.PT: {10, 30}},
	"news20-bydate": {budget.AT: newsBudgets, budget.PT: newsBudgets, budget.SBT: newsBudgets},
}

// newsBudgets end where more brings nothing: as many features as there are had
// 0.945 of the rows held out right with one against the rest, 20,000 had 0.943,
// in an eighth of the time.
var newsBudgets = []int{200, 2000, 20000}

// treeCosts are what C of trees is chosen among, once B is.
var treeCosts = []float64{1, 3, 10, 30}

// choice is a tree's parameters, the score that they have on the rows held out
// and the CPU seconds that all trials took.
type choice struct {
	params budget.Params
	score  float64
	spent  float64
}

// choose tries the budgets at C = 1 and then the costs at the best budget, unless
// the settings fix both. fit trains on some rows and returns the score on those
// held out.
func (s *settings) choose(set *textSet, kind budget.Kind, fit func(p budget.Params, learn, dev []int) (float64, float32, error)) (choice, error) {
	best := choice{score: -1}
	learn, dev, err := set.tuning()
	if err != nil {
		return best, err
	}
	if len(learn) > tuneRows {
		at := rand.New(rand.NewPCG(1, 1)).Perm(len(learn))[:tuneRows]
		slices.Sort(at)
		learn = pick(learn, at)
	}
	fixed := func(b int, c float64) budget.Params {
		p := budget.Params{BAC: budget.BACParams{Budget: b, C: c, Rounds: s.rounds}}
		if kind == budget.SBT {
			p.MaxDepth, p.Folds = 1, 1
		}
		return p
	}
	if s.budget > 0 {
		best.params = fixed(s.budget, s.cost)
		return best, nil
	}
	start := process.CPU()
	try := func(b int, c float64) error {
		p := fixed(b, c)
		before := process.CPU()
		score, threshold, err := fit(p, learn, dev)
		if err != nil {
			return err
		}
		fmt.Printf("  %s, rows held out: B=%d C=%g: %.3f, %.1f s\n", kind, b, c, score, (process.CPU() - before).Seconds())
		if score > best.score {
			p.Threshold = threshold
			best.params, best.score = p, score
		}
		return nil
	}
	for _, b := range largeBudgets[set.name][kind] {
		if err := try(b, 1); err != nil {
			return best, err
		}
	}
	b := best.params.BAC.Budget
	for _, c := range treeCosts {
		if c == 1 {
			continue
		}
		if err := try(b, c); err != nil {
			return best, err
		}
	}
	best.spent = (process.CPU() - start).Seconds()
	return best, nil
}

// chooseSets chooses B, C and, for AT, the threshold, by F1.
func (s *settings) chooseSets(ctx context.Context, set *textSet, kind budget.Kind) (choice, error) {
	return s.choose(set, kind, func(p budget.Params, learn, dev []int) (float64, float32, error) {
		m, err := s.train(ctx, kind, set, learn, p)
		if err != nil {
			return 0, 0, err
		}
		return bestThreshold(ctx, m, labels.SelectRows(set.x, dev), set.y.Select(dev))
	})
}

// train trains a PT or AT from the given rows.
func (s *settings) train(ctx context.Context, kind budget.Kind, set *textSet, rows []int, p budget.Params) (*budget.Model, error) {
	return budget.Train(ctx, kind, budget.Job{X: set.x, Sets: set.y, Rows: rows, Params: p, Workers: s.workers})
}

// trainRest trains trees one against the rest from the given rows.
func (s *settings) trainRest(ctx context.Context, set *textSet, class []uint32, rows []int, p budget.Params) (*budget.Model, error) {
	return budget.Train(ctx, budget.SBT, budget.Job{
		X: set.x, Class: class, Classes: set.y.Labels(), Rows: rows, Params: p, Workers: s.workers,
	})
}

// chooseRest chooses B and C of trees one against the rest by right answers.
func (s *settings) chooseRest(ctx context.Context, set *textSet, class []uint32) (choice, error) {
	return s.choose(set, budget.SBT, func(p budget.Params, learn, dev []int) (float64, float32, error) {
		m, err := s.trainRest(ctx, set, class, learn, p)
		if err != nil {
			return 0, 0, err
		}
		pred := budget.NewPredictor(budget.NewIndex(m))
		right := 0
		for _, r := range dev {
			if c, _ := pred.Class(set.x.Row(r)); uint32(c) == class[r] {
				right++
			}
		}
		return float64(right) / float64(len(dev)), 0, nil
	})
}
