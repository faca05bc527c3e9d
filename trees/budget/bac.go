package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/vector"
)

// BAC is a budget-aware classifier (definition 6): the decision w·x + b with
// few features.
type BAC struct {
	Features []uint32 // ascending
	Weights  []float32
	Offset   float32
}

// Margin is w·x + b; positive means class 1. O(features + entries of x).
func (c *BAC) Margin(x vector.Sparse) float32 {
	sum := 0.0
	i := 0
	for e, f := range x.Index {
		for i < len(c.Features) && c.Features[i] < f {
			i++
		}
		if i == len(c.Features) {
			break
		}
		if c.Features[i] == f {
			v := float32(1)
			if x.Value != nil {
				v = x.Value[e]
			}
			sum += float64(c.Weights[i]) * float64(v)
		}
	}
	return float32(sum + float64(c.Offset))
}

// BACStats says how a classifier was found.
type BACStats struct {
	// Rounds is the number ς of worst-case analyses that brought features.
	Rounds int
	// Objective is F after each of them; it never rises.
	Objective []float64
	// Gap is the relative duality gap of the last master problem.
	Gap float64
	// Violation is how much larger than the best active set's the value of the
	// set that the last worst-case analysis found is, relatively; at most
	// Epsilon when the algorithm ended by convergence, and 0 when every
	// feature that matters is active.
	Violation float64
	// Steps counts the gradient and Newton steps.
	Steps int
}

// TrainBAC learns a classifier for the classes y (±1, one for each row of x)
// from the chosen rows, all when rows is nil, by the cutting-plane algorithm 1:
// worst-case analyses (problem 9) add the B features that the current dual
// variables violate most, a master problem (8) over the sets so far is solved
// in between. The loss is the squared hinge; see solveMaster. The start is the
// best offset alone, for which both classes weigh the same.
//
// A round costs O(entries of the rows + steps · entries of the active columns
// + touched features · log B) time, and memory of the active columns and three
// numbers a feature.
//
// Errors: ErrParams, ErrInput, ErrOneClass, ErrConstant and the context's.
func TrainBAC(ctx context.Context, x *vector.CSR, y []int8, rows []int, params BACParams) (*BAC, *BACStats, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	chosen, err := checkBinary(x, y, rows)
	if err != nil {
		return nil, nil, err
	}
	own := make([]int8, len(chosen))
	for i, r := range chosen {
		own[i] = y[r]
	}
	p := newProblem(x, chosen, own, newScratch(x.Cols))
	folds := []*fold{newFold(p, params, nil)}
	stats, err := p.cut(ctx, folds, params)
	if err != nil {
		return nil, nil, fmt.Errorf("budget: train classifier: %w", err)
	}
	return p.classifier(folds[0]), stats, nil
}

// checkBinary checks what a two-class learner is given.
func checkBinary(x *vector.CSR, y []int8, rows []int) ([]int32, error) {
	if err := checkMatrix(x); err != nil {
		return nil, err
	}
	if len(y) != x.Rows() {
		return nil, fmt.Errorf("%w: %d classes for %d rows", ErrInput, len(y), x.Rows())
	}
	chosen, err := checkRows(x.Rows(), rows)
	if err != nil {
		return nil, err
	}
	if err := checkClasses(y, chosen); err != nil {
		return nil, err
	}
	if constant(x, chosen) {
		return nil, ErrConstant
	}
	return chosen, nil
}

// constant says whether all rows are equal. Most matrices are found to vary at
// the second row. A row that lists a zero equals one that does not.
func constant(x *vector.CSR, rows []int32) bool {
	first := nonzero(x, rows[0])
	for _, r := range rows[1:] {
		next := nonzero(x, r)
		if !slices.Equal(first.Index, next.Index) || !slices.Equal(first.Value, next.Value) {
			return false
		}
	}
	return true
}

// nonzero is row r without listed zeros, with its values written out.
func nonzero(x *vector.CSR, r int32) vector.Sparse {
	var s vector.Sparse
	for e := x.Ptr[r]; e < x.Ptr[r+1]; e++ {
		if v := entry(x, e); v != 0 {
			s.Index = append(s.Index, x.Index[e])
			s.Value = append(s.Value, v)
		}
	}
	return s
}

// cut is algorithm 1 over one or more folds that share their features
// (equation 11: the worst-case analysis sums over the folds, each solves its
// own master problem).
func (p *problem) cut(ctx context.Context, folds []*fold, params BACParams) (*BACStats, error) {
	stats := &BACStats{}
	last := 0.0
	for range params.Rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		features, value := p.worst(folds, params.Budget, !params.Overlap)
		active := p.activeValue(folds)
		stats.Violation = max(0, value/max(active, 1e-300)-1)
		if len(features) == 0 || stats.Rounds > 0 && (value <= (1+params.Epsilon)*active || p.known(features)) {
			break
		}
		p.addSet(features)
		objective, gap := 0.0, 0.0
		for _, f := range folds {
			if err := f.solveMaster(ctx, p, params); err != nil {
				return nil, err
			}
			objective += f.objective
			if f.objective > 0 {
				gap = max(gap, f.gap/f.objective)
			}
		}
		stats.Rounds++
		stats.Objective = append(stats.Objective, objective)
		stats.Gap = gap
		if stats.Rounds > 1 && last-objective <= params.Epsilon*last {
			break
		}
		last = objective
	}
	for _, f := range folds {
		stats.Steps += f.steps
	}
	return stats, nil
}

// known says whether all the features are active.
func (p *problem) known(features []uint32) bool {
	for _, f := range features {
		if !slices.Contains(p.features, f) {
			return false
		}
	}
	return true
}

// activeValue is the largest sum of Ξ of an active set: what another set must
// exceed to be violated.
func (p *problem) activeValue(folds []*fold) float64 {
	xi := make([]float64, len(p.features))
	sum := make([]float64, len(p.features))
	total := make([]float64, len(p.sign))
	for _, f := range folds {
		// The pseudo-rows have no entry in any active column.
		copy(total, f.alpha)
		p.backward(total, sum)
		for l, v := range sum {
			xi[l] += v * v
		}
	}
	most := 0.0
	for h := 1; h < len(p.setPtr); h++ {
		value := 0.0
		for _, l := range p.slot[p.setPtr[h-1]:p.setPtr[h]] {
			value += xi[l]
		}
		most = max(most, value)
	}
	return most
}

// classifier is the fold's decision with the weights of all sets folded into
// one, without the features whose weight came out as zero.
func (p *problem) classifier(f *fold) *BAC {
	order := p.byFeature()
	c := &BAC{Offset: float32(f.b)}
	for _, l := range order {
		if w := float32(f.weight[l]); w != 0 {
			c.Features = append(c.Features, p.features[l])
			c.Weights = append(c.Weights, w)
		}
	}
	return c
}

// byFeature lists the active features in ascending order of their numbers.
func (p *problem) byFeature() []int {
	order := make([]int, len(p.features))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(p.features[a]) - int(p.features[b]) })
	return order
}
