package forestindex

import (
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/forest"
)

// Options are the stored options of a forest. Rotate, SketchBytes and HopLabels are -1 for
// none. A build chooses the code of sketches where SketchBytes is 0; 64 are of principal coordinates, more
// of signs.
type Options struct {
	Kind         forest.Kind
	Seed         uint64
	TargetRecall float64
	Trees, Depth int
	LabelsK      int
	Labels       string `json:",omitempty"`
	Rotate       int
	SketchBytes  int
	HopLabels    int
	Quantize     bool
	Members      bool
	NoNatural    bool
	Density      float64
	Candidates   int
	Subsample    int
	MinVotes     int
	NoTune       bool
	TuneK        int
	Holdout      int

	TrainingQueries [][]float32 `json:"-"`
}

// exactWork is the largest rows² · dim for which labels are exact by default: some seconds on
// two cores.
const exactWork = 1e11

func (o *Options) Name() string { return string(o.Kind) }

// The largest values of options.
const (
	maxLabelsK   = 4096
	maxHopLabels = 1024
	maxHoldout   = 100_000
)

func (o *Options) Limits(coll string, dim int) error {
	for _, l := range []struct {
		n     int
		what  string
		limit int
	}{
		{o.LabelsK, "labels a row", maxLabelsK},
		{o.HopLabels, "neighbors a row for hops", maxHopLabels},
		{o.Holdout, "rows to hold out", maxHoldout},
	} {
		if l.n > l.limit {
			return fmt.Errorf("%w: %d %s, want at most %d", fail.Option, l.n, l.what, l.limit)
		}
	}
	switch {
	case dim == 0:
		return nil
	case o.Rotate > dim:
		return fmt.Errorf("%w: %d principal coordinates, want at most %d, the dimension of %q",
			fail.Option, o.Rotate, dim, coll)
	case o.Candidates > dim:
		return fmt.Errorf("%w: %d candidates for a split, want at most %d, the dimension of %q",
			fail.Option, o.Candidates, dim, coll)
	}
	return nil
}

// After takes the values that follow the number of rows from the rebuild. Those that had to be lowered
// for it stay as given, since a collection may grow.
func (o *Options) After(rebuilt kind.Options) kind.Options {
	kept, r := *o, rebuilt.(*Options)
	kept.Depth, kept.Labels = r.Depth, r.Labels
	kept.LabelsK, kept.HopLabels = max(o.LabelsK, r.LabelsK), max(o.HopLabels, r.HopLabels)
	kept.Holdout = max(o.Holdout, r.Holdout)
	return &kept
}

// AnyLearner is the kind of a forest whose learner the tuner chooses.
const AnyLearner forest.Kind = "auto"

// The sources of nearest rows: every row is compared with every other one, or approximate lists
// are refined.
const (
	NeighborsExact       = "exact"
	NeighborsApproximate = "approximate"
)
