package forestindex

import (
	"cmp"
	"math/bits"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/trees/forest"
)

// options are the options of a forest, in a build the resolved ones.
type options index.Forest

// exactWork is the largest rows² · dim for which nearest rows are exact by default: some seconds on
// two cores.
const exactWork = 1e11

// The largest values of options, also those of stored structures.
const (
	maxTrees         = 4096
	maxDepth         = 24
	maxLeafNeighbors = 4096
	maxListNeighbors = 1024
)

// The values of options that have a meaning here.
const (
	neighborsExact       = "exact"
	neighborsApproximate = "approximate"
)

// resolve fills in the defaults for n rows of dim coordinates, and lowers what so few rows do not have.
// A part that the index does not have has size zero.
func (o options) resolve(n, dim int) options {
	o.Learner = (*index.Forest)(&o).Name()
	// If a beam can follow neighbor lists, trees only provide its start.
	trees, near, leaf := 16, 50, 7
	if !o.NoSketches && !o.NoLists && !o.NoTables {
		trees, near, leaf = 2, 4, 14
	}
	o.Trees = cmp.Or(o.Trees, trees)
	o.Depth = min(cmp.Or(o.Depth, max(1, bits.Len(uint(n/leaf)))), bits.Len(uint(n))) // 2^Depth <= 2n
	o.LeafNeighbors = min(cmp.Or(o.LeafNeighbors, near), n)
	if o.Source == "" {
		o.Source = neighborsExact
		if float64(n)*float64(n)*float64(dim) > exactWork {
			o.Source = neighborsApproximate
		}
	}
	if !o.NoRotation && o.Learner == string(forest.KD) {
		o.Coordinates = cmp.Or(o.Coordinates, 64)
	}
	o.Coordinates = min(o.Coordinates, dim)
	if !o.NoLists {
		o.ListNeighbors = min(cmp.Or(o.ListNeighbors, 24), max(1, n-1))
	}
	o.TuneK = cmp.Or(o.TuneK, 10)
	points := n
	if len(o.TrainingQueries) > 0 {
		points = len(o.TrainingQueries)
	}
	o.Holdout = min(cmp.Or(o.Holdout, 1000), points/kind.HeldOutOf)
	return o
}

// tunes reports whether the tuner runs, given resolved options: it is not disabled and there
// are enough points to hold some out.
func (o options) tunes() bool { return !o.NoTune && o.Holdout > 0 }
