package autolabels

import (
	"testing"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
)

// TestManyRows: linear classifiers of many rows, for which few settings are tried, use all that the rows
// have.
func TestManyRows(t *testing.T) {
	for _, rows := range []struct {
		sparse, vectors bool
		from            string
		others          int
	}{{true, false, "", 0}, {false, false, "", 1}, {true, true, "both", 0}} {
		u := &tuner{
			data: &kind.LabelledRows{}, folds: make([]labels.Fold, 1), sparse: rows.sparse, vectors: rows.vectors,
		}
		c := u.candidate("labeltree")
		if got := c.start.(*index.LabelTree).From; got != rows.from || len(c.vary) != rows.others {
			t.Errorf("%+v: from %q and %d options to vary", rows, got, len(c.vary))
		}
	}
}
