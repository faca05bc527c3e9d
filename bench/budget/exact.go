package main

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/trees/budget"
)

// exactModes are the ways to train one classifier that runExact compares.
var exactModes = []struct {
	name   string
	exact  bool
	rounds int
}{{"disjoint", false, 10}, {"10 rounds", true, 10}, {"exact", true, 0}}

// runExact prints what the approximation of algorithm 1 by disjoint sets costs: test
// errors, features and CPU seconds of one classifier, by disjoint sets, by the first
// 10 rounds of algorithm 1 and by all of it, means of the random divisions. B is 1 and
// 9 % of the features, the ends of the paper's range; C is not chosen.
func runExact(ctx context.Context, s *settings) error {
	fmt.Printf("One classifier, means of %d random divisions 80/20.\n", s.seeds)
	fmt.Println("set                   B     C | mode      | error features rounds violation objective  cpu s")
	return s.eachBinary(func(set *binarySet, d *binaryData) error {
		for _, share := range []int{1, 9} {
			for _, c := range []float64{0.1, 1, 10} {
				for _, mode := range exactModes {
					p := budget.BACParams{Budget: max(1, share*d.x.Cols/100), C: c, Exact: mode.exact, Rounds: mode.rounds}
					got, err := s.exactPoint(ctx, d, p)
					if err != nil {
						return err
					}
					fmt.Printf("%-16s %6d %5g | %-9s | %5.2f %8.1f %6.1f %9.3f %9.4g %6.2f\n",
						set.name, p.Budget, c, mode.name, got[0], got[1], got[2], got[3], got[4], got[5])
				}
			}
		}
		return nil
	})
}

// exactPoint is the figures of one row, means of the random divisions.
func (s *settings) exactPoint(ctx context.Context, d *binaryData, p budget.BACParams) (mean [6]float64, err error) {
	for seed := s.first; seed < s.first+s.seeds; seed++ {
		fold, err := randomSplit(d.x.Rows(), 5, uint64(seed))
		if err != nil {
			return mean, err
		}
		start := process.CPU()
		b, stats, err := budget.TrainBAC(ctx, d.x, d.y, fold.Train, p)
		if err != nil {
			return mean, err
		}
		spent := (process.CPU() - start).Seconds()
		wrong := d.wrongByClassifier(b, fold.Test)
		for i, v := range []float64{
			100 * float64(wrong) / float64(len(fold.Test)), float64(len(b.Features)), float64(stats.Rounds),
			stats.Violation, stats.Objective[len(stats.Objective)-1], spent,
		} {
			mean[i] += v / float64(s.seeds)
		}
	}
	return mean, nil
}
