package db

import (
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
)

// TestSharedConstants compares the constants that the kinds of index have in common with the public
// ones, which are written out for readers of the documentation.
func TestSharedConstants(t *testing.T) {
	if MaxDim != kind.MaxDim || MaxFeature != kind.MaxFeature || MaxGraph != lcifindex.MaxGraph || MaxNorm != kind.MaxNorm ||
		MinNorm != kind.MinNorm || MinCosineNorm != kind.MinCosineNorm {
		t.Error("limits differ")
	}
	for _, c := range [][2]string{
		{Flat, kind.ScanName}, {string(AnyLearner), string(forestindex.AnyLearner)},
		{string(NeighborsExact), forestindex.NeighborsExact}, {string(NeighborsApproximate), forestindex.NeighborsApproximate},
		{string(WeightNone), labelled.WeightNone}, {string(WeightTFIDF), labelled.WeightTFIDF},
		{string(WeightStandard), labelled.WeightStandard},
	} {
		if c[0] != c[1] {
			t.Errorf("%q and %q differ", c[0], c[1])
		}
	}
}
