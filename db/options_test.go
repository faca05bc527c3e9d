package db

import (
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
)

// TestSharedConstants compares the constants that the kinds of index have in common with the public
// ones, which are written out for readers of the documentation.
func TestSharedConstants(t *testing.T) {
	for _, c := range [][2]string{
		{Flat, kind.ScanName}, {"auto", string(forestindex.AnyLearner)},
		{"exact", forestindex.NeighborsExact}, {"approximate", forestindex.NeighborsApproximate},
	} {
		if c[0] != c[1] {
			t.Errorf("%q and %q differ", c[0], c[1])
		}
	}
}
