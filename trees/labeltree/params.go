package labeltree

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Errors of this package.
var (
	// ErrParams is returned for parameters that are out of range.
	ErrParams = errors.New("labeltree: bad parameters")
	// ErrInput is returned for rows that nothing can be learned from.
	ErrInput = errors.New("labeltree: bad input")
	// ErrModel is returned for arrays that are no model.
	ErrModel = errors.New("labeltree: bad model")
)

// Params are the parameters of training. Zero values select the defaults.
type Params struct {
	// C is the cost of an error, for rows of unit length; when zero 0.3, and 1 in a tree of several levels.
	C float64 `json:",omitempty" flag:"svm-cost" min:"0"`
	// Flat is the largest number of labels for one level, 1,000 when zero.
	Flat int `json:",omitempty" flag:"flat" min:"0"`
	// Prune is the largest magnitude of weights that are dropped; when zero 0.05, and 0.08 in a tree of several
	// levels; negative keeps all.
	Prune float64 `json:",omitempty" flag:"prune"`
	Seed  uint64  `json:",omitempty"`
}

// Filled returns the parameters with the defaults for a number of labels in place of zero.
func (p Params) Filled(labels int) Params {
	cost, prune := 0.3, 0.05
	if p.Flat = cmp.Or(p.Flat, 1000); labels > p.Flat {
		cost, prune = 1, 0.08
	}
	p.C, p.Prune = cmp.Or(p.C, cost), cmp.Or(p.Prune, prune)
	return p
}

// Validate checks that all are in range. Errors: ErrParams.
func (p Params) Validate() error {
	if !(p.C >= 0) || p.C > 1e6 || p.Flat < 0 || p.Prune != p.Prune {
		return fmt.Errorf("%w: cost %g, %d labels in one level, weights up to %g dropped",
			ErrParams, p.C, p.Flat, p.Prune)
	}
	return nil
}

// Job is the input of training.
type Job struct {
	// X holds the rows, Sets their labels, Rows the numbers of those to learn from, ascending.
	X      *vector.CSR
	Sets   *labels.Matrix
	Rows   []int
	Params Params
	// Workers is the number of goroutines, all processors below 1. The model does not depend on it.
	Workers int
	// Progress, which may be nil, is called with the number of classifiers that have been learned, and of all.
	Progress func(done, total int)
}

// check refuses a job that nothing can be learned from.
func (j *Job) check() error {
	if err := j.Params.Validate(); err != nil {
		return err
	}
	if j.X.Rows() != j.Sets.Rows() {
		return fmt.Errorf("%w: %d rows with %d label sets", ErrInput, j.X.Rows(), j.Sets.Rows())
	}
	for _, r := range j.Rows {
		if r < 0 || r >= j.X.Rows() {
			return fmt.Errorf("%w: row %d of %d", ErrInput, r, j.X.Rows())
		}
		if len(j.Sets.Row(r)) > 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: no row has a label", ErrInput)
}
