package labelled

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
)

// maxSpread is the number of features up to which they may far outnumber the entries of all
// rows. Above it, arrays by feature are refused.
const maxSpread = 1 << 22

// CheckSpreadOf is CheckSpread for the rows of a collection; dense ones pass.
func CheckSpreadOf(ctx context.Context, st kind.Source) error {
	c := st.Collection()
	if !c.Sparse {
		return nil
	}
	set, err := st.Sparse(ctx)
	if err != nil {
		return err
	}
	return CheckSpread(c.Name, c.Dim, set.Entries())
}

// CheckSpread refuses rows whose feature numbers are so sparse that arrays by feature, which
// label models and weights have, would be far larger than the rows.
func CheckSpread(coll string, features, entries int) error {
	if features <= maxSpread || features/8 <= entries {
		return nil
	}
	return fmt.Errorf("%w: too many features for the rows: collection %q: %d features, numbers without a value "+
		"included, and rows with %d values: "+
		"label models and weights store numbers for each feature, and there can be %d features here: "+
		"number the features without gaps, or use a collection of named features",
		fail.ErrUnsuitable, coll, features, entries, max(maxSpread, 8*entries+7))
}
