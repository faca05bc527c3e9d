package db

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
)

// checkSparse checks the vector of a row for a sparse collection.
func checkSparse(r *Row, named bool) error {
	switch {
	case r.Vector != nil:
		return fmt.Errorf("%w: a dense vector, the collection is sparse", fail.Kind)
	case named && r.Sparse.Len() > 0:
		return fmt.Errorf("%w: numbered features, the collection's have names", fail.Kind)
	case !named && len(r.Features) > 0:
		return fmt.Errorf("%w: named features, the collection's are numbers", fail.Kind)
	}
	if named {
		return layout.CheckNamed(len(r.Features), func(i int) (string, float32) {
			return r.Features[i].Name, r.Features[i].Value
		})
	}
	return layout.CheckNumbered(r.Sparse)
}
