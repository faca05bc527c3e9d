package kind

import (
	"errors"
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/trees/labeltree"
)

// AsParameter adds ErrInvalid to errors of other packages about parameters, and Unsuitable to
// errors about the rows to learn from.
func AsParameter(err error) error {
	if errors.Is(err, fail.Option) || errors.Is(err, fail.ErrUnsuitable) {
		return err
	}
	if errors.Is(err, budget.ErrInput) || errors.Is(err, labeltree.ErrInput) ||
		errors.Is(err, labels.ErrInput) || errors.Is(err, labels.ErrMatrix) {
		return fmt.Errorf("%w: %w", fail.ErrUnsuitable, fail.Inner{Err: err})
	}
	if errors.Is(err, query.ErrParams) || errors.Is(err, query.ErrMethod) ||
		errors.Is(err, postings.ErrParams) ||
		errors.Is(err, forest.ErrParams) || errors.Is(err, budget.ErrParams) ||
		errors.Is(err, labeltree.ErrParams) {
		return fmt.Errorf("%w: %w", fail.Option, fail.Inner{Err: err})
	}
	return err
}

// Drift is the largest share of changed rows for which an index keeps what it has learned;
// above it, the index is relearned.
const Drift = 0.2

// HeldOutOf is the minimum number of points per held-out point, and so the minimum number of
// rows for the tuner.
const HeldOutOf = 10
