package transfer

import (
	"errors"
	"slices"

	"github.com/anndb/anndb/db"
)

// resumption leaves out the rows of an import that an earlier one has stored.
type resumption struct {
	coll    db.Collection
	batches func() ([]db.Row, error) // of the file
	skipped int
}

// next returns the rows of the next batch that has any to store; none at the end.
func (s *resumption) next() ([]db.Row, error) {
	rows, err := s.batches()
	if len(rows) == 0 || err != nil {
		return nil, err
	}
	return s.unstored(rows)
}

// unstored returns the rows of a batch whose keys the collection does not have; those of the next batch
// if it has all.
func (s *resumption) unstored(rows []db.Row) ([]db.Row, error) {
	for len(rows) > 0 {
		var err error
		left := slices.DeleteFunc(rows, func(r db.Row) bool {
			has, hasErr := s.coll.Has(r.Key)
			if hasErr != nil {
				err = errors.Join(err, hasErr)
			}
			if has {
				s.skipped++
			}
			return has
		})
		if len(left) > 0 || err != nil {
			return left, err
		}
		if rows, err = s.batches(); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
