package budget

import (
	"context"
	"fmt"
	"math"
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

// BACStats reports how a classifier was found.
type BACStats struct {
	// Rounds is the number ς of worst-case analyses that brought features.
	Rounds int
	// Objective is F after each of them; it never rises.
	Objective []float64
	// Gap is the relative duality gap of the last master problem.
	Gap float64
	// Violation is that of the classifier returned: by how much the worst case over
	// all sets of Budget features exceeds that over the active sets, relatively. With
	// Exact it is at most Epsilon unless Rounds ended the algorithm, and F then
	// exceeds its minimum over all sets by no larger share.
	Violation float64
	// Steps counts the gradient steps.
	Steps int
}

// TrainBAC learns a classifier for the classes y (±1, one for each row of x)
// from the chosen rows, all when rows is nil, by cutting planes: worst-case
// analyses (problem 9) add the B features that the current dual variables violate
// most, a master problem (8) over the sets so far is solved in between; see
// solveMaster. The start is the best offset alone, for which both classes weigh the
// same. Exact makes this algorithm 1; otherwise it is its approximation by disjoint
// sets (see BACParams).
//
// A round costs O(entries of the rows + steps · entries of the active columns
// + touched features · log B) time, and memory of the active columns and three
// numbers a feature. Violation takes one analysis more.
//
// Errors: ErrParams, ErrInput, ErrOneClass, ErrConstant and the context's.
func TrainBAC(
	ctx context.Context, x *vector.CSR, y []int8, rows []int, params BACParams,
) (*BAC, *BACStats, error) {
	params, err := params.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	chosen, err := checkBinary(x, y, rows)
	if err != nil {
		return nil, nil, err
	}
	p := newProblem(x, chosen, func(i int) bool { return y[chosen[i]] > 0 }, newScratch(x.Cols))
	folds := []*fold{newFold(p, params, nil)}
	stats, err := p.cut(ctx, folds, params)
	if err != nil {
		return nil, nil, fmt.Errorf("budget: train classifier: %w", err)
	}
	_, value := p.worst(folds, params.Budget, false)
	stats.Violation = p.violation(folds, value)
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

// constant reports whether all rows are equal. Most matrices are found to vary at
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

// cut is algorithm 1, or its approximation by disjoint sets, over one or more
// folds that share their features (equation 11: the worst-case analysis sums over
// the folds, each solves its own master problem). Violation is left to the caller.
func (p *problem) cut(ctx context.Context, folds []*fold, params BACParams) (*BACStats, error) {
	stats := &BACStats{}
	last := 0.0
	for stats.Rounds < params.Rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		set, value := p.worst(folds, params.Budget, !params.Exact)
		if len(set) == 0 || params.Exact && (p.violation(folds, value) <= params.Epsilon || p.hasSet(set)) {
			break
		}
		p.addSet(set)
		objective := 0.0
		stats.Gap = 0
		for _, f := range folds {
			if err := f.solveMaster(ctx, p, params); err != nil {
				return nil, err
			}
			objective += f.objective
			if f.objective > 0 {
				stats.Gap = max(stats.Gap, f.gap/f.objective)
			}
		}
		stats.Rounds++
		stats.Objective = append(stats.Objective, objective)
		if !params.Exact && stats.Rounds > 1 && last-objective <= params.Epsilon*last {
			break
		}
		last = objective
	}
	for _, f := range folds {
		stats.Steps += f.steps
	}
	return stats, nil
}

// hasSet reports whether the features, which ascend, are one of the active sets.
func (p *problem) hasSet(features []uint32) bool {
	for h := range len(p.setPtr) - 1 {
		set := p.slot[p.setPtr[h]:p.setPtr[h+1]]
		if slices.EqualFunc(set, features, func(l int32, f uint32) bool { return p.features[l] == f }) {
			return true
		}
	}
	return false
}

// violation is by how much a value of the worst-case analysis exceeds that of
// every active set, relatively.
func (p *problem) violation(folds []*fold, value float64) float64 {
	if value == 0 {
		return 0
	}
	return max(0, value/max(p.activeValue(folds), math.SmallestNonzeroFloat32)-1)
}

// activeValue is the largest sum of Ξ of an active set: what another set must
// exceed to be violated.
func (p *problem) activeValue(folds []*fold) float64 {
	xi := make([]float64, len(p.features))
	sum := make([]float64, len(p.features))
	for _, f := range folds {
		p.backward(f.alpha, sum)
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
