package db

import (
	"errors"
	"fmt"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
)

// asOption adds ErrInvalid to errors of other packages about parameters, and isUnsuitable to
// errors about the rows to learn from.
func asOption(err error) error {
	if errors.Is(err, errOption) || errors.Is(err, isUnsuitable) {
		return err
	}
	if errors.Is(err, budget.ErrInput) || errors.Is(err, labels.ErrInput) || errors.Is(err, labels.ErrMatrix) {
		return fmt.Errorf("%w: %w", isUnsuitable, innerError{err})
	}
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) ||
		errors.Is(err, postings.ErrParams) ||
		errors.Is(err, forest.ErrParams) || errors.Is(err, budget.ErrParams) {
		return fmt.Errorf("%w: %w", errOption, innerError{err})
	}
	return err
}

// drift is the largest share of changed rows for which an index keeps what it has learned;
// above it, the index is relearned.
const drift = 0.2

// heldOutOf is the minimum number of points per held-out point, and so the minimum number of
// rows for the tuner.
const heldOutOf = 10
