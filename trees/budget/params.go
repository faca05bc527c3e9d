package budget

import "fmt"

// Params are the parameters of trees. Zero means the default named.
type Params struct {
	BAC BACParams
	// Seed draws the folds of embedded cross-validation.
	Seed uint64

	// Folds is, for SBT, the number of folds of embedded cross-validation
	// (equation 11), whose classifiers vote: 5, at most MaxVoters. With 1
	// there is one classifier a node, trained on all its rows; nothing is
	// pruned then.
	Folds int
	// MaxDepth is, for SBT, the most decisions on a path: 32.
	MaxDepth int
	// MinRows is, for SBT, how many rows a node needs to be parted: twice the
	// folds, and no fewer than the folds.
	MinRows int
	// NoPrune keeps an SBT as it grew.
	NoPrune bool

	// Threshold is, for AT, what a margin must exceed for a label to be taken
	// as present: 0. Lower values find more labels of what there are, higher
	// ones fewer wrong ones; Choose finds the best. It plays no part in
	// training.
	Threshold float32 `flag:"threshold"`
	// KeepTop makes an AT answer its best label where the leaf of a row has none:
	// the first of the ranking by Scores or, where that is empty, the most
	// frequent one. The paper's trees answer no label there. It plays no part in
	// training.
	KeepTop bool
	// MinPositive is, for AT, how many rows of a node must have a label for it
	// to be asked there: 1. Labels below are taken to be absent.
	MinPositive int `flag:"min-positive" min:"0"`
}

// Validate returns an error for parameters that no training supports. Errors: ErrParams.
func (p Params) Validate() error {
	_, err := p.withDefaults()
	return err
}

// withDefaults checks p and fills in what is zero.
func (p Params) withDefaults() (Params, error) {
	var err error
	if p.BAC, err = p.BAC.withDefaults(); err != nil {
		return p, err
	}
	if p.Folds == 0 {
		p.Folds = 5
	}
	if p.Folds < 1 || p.Folds > MaxVoters {
		return p, fmt.Errorf("%w: %d folds, 1 to %d can vote", ErrParams, p.Folds, MaxVoters)
	}
	if p.MaxDepth == 0 {
		p.MaxDepth = 32
	}
	if p.MinRows == 0 {
		p.MinRows = 2 * p.Folds
	}
	if p.MinPositive == 0 {
		p.MinPositive = 1
	}
	if p.MaxDepth < 0 || p.MinRows < 0 || p.MinPositive < 0 {
		return p, fmt.Errorf("%w: depth %d, %d rows, %d positive rows",
			ErrParams, p.MaxDepth, p.MinRows, p.MinPositive)
	}
	if !finite(p.Threshold) {
		return p, fmt.Errorf("%w: threshold %v", ErrParams, p.Threshold)
	}
	p.MinRows = max(p.MinRows, p.Folds, 2)
	return p, nil
}
