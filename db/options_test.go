package db

import (
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
)

// TestSharedConstants compares the constants that the kinds of index have in common with the public
// ones, which are written out for readers of the documentation.
func TestSharedConstants(t *testing.T) {
	if MaxDim != kind.MaxDim || MaxFeature != kind.MaxFeature || MaxGraph != maxGraph || MaxNorm != kind.MaxNorm {
		t.Error("limits differ")
	}
	for _, c := range [][2]string{
		{Flat, kind.ScanName}, {string(AnyLearner), string(anyLearner)},
		{string(NeighborsExact), neighborsExact}, {string(NeighborsApproximate), neighborsApproximate},
		{string(WeightNone), weightNone}, {string(WeightTFIDF), weightTFIDF},
		{string(WeightStandard), weightStandard},
	} {
		if c[0] != c[1] {
			t.Errorf("%q and %q differ", c[0], c[1])
		}
	}
}
