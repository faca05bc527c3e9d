package budget

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Job is what trees are trained on, and how.
type Job struct {
	// X has the features of all rows.
	X *vector.CSR
	// Sets are the label sets of the rows of X, for PT and AT.
	Sets *labels.Matrix
	// Class is the class of each row of X, for SBT: a number below Classes. Two
	// classes make one tree, whose positive class is 1; more make one tree each,
	// against the rest.
	Class   []uint32
	Classes int
	// Rows are the rows of X to train on; nil means all.
	Rows   []int
	Params Params
	// Workers is the number of goroutines; less than 1 means all processors.
	// Results are the same for any number.
	Workers int
	// Progress, if not nil, is called with how much of the work is done. Calls do not
	// overlap.
	Progress func(done, total int)
	// Measure is what Choose maximizes for PT and AT; nil is the example-based F1, 0 where a row and its
	// answer are both empty.
	Measure func(*labels.Report) float64
	// Stop ends Choose when it is closed, once a point of the grid has been measured.
	Stop <-chan struct{}
}

// Train trains the trees of a kind: see SBT, PT and AT.
//
// A tree is the same for any number of workers. Progress counts nodes for PT, and
// rows that reached a leaf for SBT and AT. A node costs what TrainBAC does, times
// the folds of SBT; every row trains as many nodes as its leaf is deep.
//
// Errors: ErrParams; ErrInput; ErrNoLabels if no row has a label; ErrOneClass if
// all rows have the same class or label set, or if no label is frequent enough;
// ErrConstant; and the context's.
func Train(ctx context.Context, kind Kind, job Job) (*Model, error) {
	rows, err := job.prepare(kind)
	if err == nil {
		err = job.trainable(kind, rows)
	}
	if err != nil {
		return nil, err
	}
	var m *Model
	switch kind {
	case SBT:
		m, err = job.trainSBT(ctx, rows)
	case PT:
		m, err = job.trainPT(ctx, rows)
	case AT:
		m, err = job.trainAT(ctx, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("budget: train %s: %w", kind, err)
	}
	return m, nil
}

// prepare checks the job for a kind, fills in default parameters and returns
// the rows to train on. It accepts rows that no tree can be trained from, such
// as rows of one class: the trainers refuse these.
func (j *Job) prepare(kind Kind) (rows []int32, err error) {
	switch kind {
	case SBT:
	case PT, AT:
		j.Params.Folds = 1
	default:
		return nil, fmt.Errorf("%w: kind %q", ErrParams, kind)
	}
	if j.Params, err = j.Params.withDefaults(); err != nil {
		return nil, err
	}
	if err := checkMatrix(j.X); err != nil {
		return nil, err
	}
	switch n := j.X.Rows(); {
	case kind == SBT && len(j.Class) != n:
		return nil, fmt.Errorf("%w: %d classes for %d rows", ErrInput, len(j.Class), n)
	case kind == SBT && j.Classes < 2:
		return nil, fmt.Errorf("%w: %d classes, want at least 2", ErrInput, j.Classes)
	case kind != SBT && j.Sets == nil:
		return nil, fmt.Errorf("%w: no label sets for %d rows", ErrInput, n)
	case kind != SBT && j.Sets.Rows() != n:
		return nil, fmt.Errorf("%w: %d label sets for %d rows", ErrInput, j.Sets.Rows(), n)
	}
	if rows, err = checkRows(j.X.Rows(), j.Rows); err != nil || kind != SBT {
		return rows, err
	}
	for _, r := range rows {
		if int(j.Class[r]) >= j.Classes {
			return nil, fmt.Errorf("%w: class %d of %d in row %d", ErrInput, j.Class[r], j.Classes, r)
		}
	}
	return rows, nil
}

// trainable reports with an error that no tree can be trained from the rows.
func (j *Job) trainable(kind Kind, rows []int32) error {
	labelled := false
	for _, r := range rows {
		labelled = labelled || kind == SBT || len(j.Sets.Row(int(r))) > 0
	}
	if !labelled {
		return ErrNoLabels
	}
	if kind == SBT {
		count := j.countClasses(rows)
		if slices.Contains(count, len(rows)) {
			return ErrOneClass
		}
		if c := slices.Index(count, 0); c >= 0 {
			return fmt.Errorf("%w: class %d has no row", ErrInput, c)
		}
	}
	if constant(j.X, rows) {
		return ErrConstant
	}
	return nil
}

// trees is the number of trees of a SBT.
func (j *Job) trees() int {
	if j.Classes == 2 {
		return 1
	}
	return j.Classes
}

// signs is the class of every row of X for a tree of a SBT: 1 for the
// tree's own class, -1 for the others.
func (j *Job) signs(tree int) []int8 {
	positive := uint32(tree)
	if j.Classes == 2 {
		positive = 1
	}
	y := make([]int8, len(j.Class))
	for i, c := range j.Class {
		y[i] = -1
		if c == positive {
			y[i] = 1
		}
	}
	return y
}

// seed is the seed of a tree of a SBT.
func (j *Job) seed(tree int) uint64 {
	if j.Classes == 2 {
		return j.Params.Seed
	}
	return mix(j.Params.Seed, uint64(tree))
}

// countClasses counts the given rows by class.
func (j *Job) countClasses(rows []int32) []int {
	count := make([]int, j.Classes)
	for _, r := range rows {
		count[j.Class[r]]++
	}
	return count
}
