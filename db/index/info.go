package index

import (
	"time"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// Info describes an index.
type Info struct {
	Collection string
	// Default is set for the index of searches, or predictions, that name none
	// (db.Collection.SetDefault).
	Default bool `json:",omitempty"`
	// Kind is "postings", "lcif", "labeltree", "auto-labels", "sbt", "pt", "at", or for a forest its learner.
	Kind string `json:",omitempty"`
	// Given are the options as they were given to Build. A rebuild by maintenance fills in defaults for
	// the present rows, but keeps what a tuner chose.
	Given Options `json:",omitempty"`
	// Options are those with which the index was built: Given with defaults and what was tuned filled
	// in, and db.Flat for the neighbors of a label model whose forest was dropped. Build with them makes
	// an equal index of equal rows, see Forest.Seed.
	Options Options `json:",omitempty"`
	// Fresh is the number of row numbers after those that the index covers, which queries scan,
	// Relabelled that of covered rows whose labels have changed since the index learned them.
	Fresh, Relabelled int
	Segments          int // of an inverted index, 1 for other kinds
	// Error is the reason why the index cannot be described or, if this handle has tried,
	// maintained; empty otherwise.
	Error string `json:",omitempty"`
	Record
}

// Record is the stored part of the description of an index.
type Record struct {
	Name       string
	Rows       int       // the number of row numbers that the index covers
	Created    time.Time // when it was built
	Maintained time.Time `json:",omitzero"` // when maintenance last changed it
	// BuildSeconds is the wall time of the build by stage, BuildMemory the most memory in bytes that
	// the process held at the end of a stage, Bytes the stored size by section.
	BuildSeconds   map[string]float64
	BuildMemory    int64 `json:",omitempty"`
	Bytes          map[string]int64
	TrainingPoints int // the number of points that the index was learned from
	// Curve has the measurements of a forest's tuner, cheapest first, LabelCurve and TreeTrials those
	// of cross-validations; nil without tuning.
	Curve      *query.Curve
	LabelCurve *lcif.Curve    `json:",omitempty"`
	TreeTrials []budget.Trial `json:",omitempty"`
	// AutoTrials are the settings of members that were measured for a model of several kinds. Unfinished is set
	// if Auto.Time or Run.Stop has ended that; Build of equal rows under the same name goes on from there.
	AutoTrials []AutoTrial   `json:",omitempty"`
	Unfinished bool          `json:",omitempty"`
	Tree       *budget.Stats `json:",omitempty"` // budgeted trees
	// Calibration turns the scores of a label model into probabilities; nil for fewer than
	// labels.LeastCalibrationRows held-out rows with labels.
	Calibration *labels.Calibration `json:",omitempty"`
	Neighbors   *NeighborReport     `json:",omitempty"` // approximate neighbor lists
	// Reached is the share of rows to which paths along the neighbor lists lead; 0 without lists.
	Reached float64 `json:",omitempty"`
}

// NeighborReport holds the measurements of approximate neighbor lists.
type NeighborReport struct {
	K, Sample          int     // the rows in a list, itself included; the rows measured
	Recall, HeadRecall float64 // the mean share of the nearest K-1, and 10, that a list holds
	Rounds             int     // refinement rounds on exact distances
}

// TotalBytes returns the stored size of the index.
func (r Record) TotalBytes() int64 {
	var n int64
	for _, b := range r.Bytes {
		n += b
	}
	return n
}

// Repaired is an index that db.DB.Repair found damaged, or with an empty Index damage in the tables of
// attributes.
type Repaired struct {
	Collection, Index string
	Damage, Err       error // the first error found; why it could not be rebuilt, nil if it was
}
