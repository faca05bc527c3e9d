package index

import (
	"encoding/json"
	"time"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// Info describes an index.
type Info struct {
	Record
	Collection string `json:"collection,omitempty"`
	// Default is set for the index of searches, or predictions, that name none
	// (db.Collection.SetDefault).
	Default bool `json:"default,omitempty"`
	// Kind is "postings", "lcif", "labeltree", "auto-labels", "sbt", "pt", "at", or for a forest its learner.
	Kind     string `json:"kind,omitempty"`
	Predicts bool   `json:"predicts,omitempty"` // labels; an index that does not finds rows
	// Given are the options as they were given to Build. A rebuild by maintenance fills in defaults for
	// the present rows, but keeps what a tuner chose.
	Given Options `json:"given,omitempty"`
	// Options are those with which the index was built: Given with defaults and what was tuned filled
	// in, and db.Flat for the neighbors of a label model whose forest was dropped. Build with them makes
	// an equal index of equal rows, see Forest.Seed.
	Options Options `json:"options,omitempty"`
	// Fresh is the number of row numbers after those that the index covers, which queries scan,
	// Relabelled that of covered rows whose labels have changed since the index learned them.
	Fresh      int `json:"fresh"`
	Relabelled int `json:"relabelled"`
	Segments   int `json:"segments"` // of an inverted index, 1 for other kinds
	// Error is the reason why the index cannot be described or, if this handle has tried,
	// maintained; empty otherwise.
	Error string `json:"error,omitempty"`
}

// UnmarshalJSON decodes the options by the kind.
func (i *Info) UnmarshalJSON(text []byte) error {
	type plain Info
	var given, options json.RawMessage
	in := struct {
		*plain
		Given   *json.RawMessage `json:"given"`
		Options *json.RawMessage `json:"options"`
	}{(*plain)(i), &given, &options}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	for to, raw := range map[*Options]json.RawMessage{&i.Given: given, &i.Options: options} {
		if *to = nil; raw != nil {
			*to = New(i.Kind)
			if err := json.Unmarshal(raw, *to); err != nil {
				return err
			}
		}
	}
	return nil
}

// Record is the stored part of the description of an index.
type Record struct {
	Name       string    `json:"name"`
	Rows       int       `json:"rows"`                // the number of row numbers that the index covers
	Created    time.Time `json:"created"`             // when it was built
	Maintained time.Time `json:"maintained,omitzero"` // when maintenance last changed it
	// BuildSeconds is the wall time of the build by stage, BuildMemory the most memory in bytes that
	// the process held at the end of a stage, Bytes the stored size by section.
	BuildSeconds   map[string]float64 `json:"build_seconds,omitempty"`
	BuildMemory    int64              `json:"build_memory,omitempty"`
	Bytes          map[string]int64   `json:"bytes"`
	TrainingPoints int                `json:"training_points"` // from which the index was learned
	// Curve has the measurements of a forest's tuner, cheapest first, LabelCurve and TreeTrials those
	// of cross-validations; nil without tuning.
	Curve      *query.Curve   `json:"curve,omitempty"`
	LabelCurve *lcif.Curve    `json:"label_curve,omitempty"`
	TreeTrials []budget.Trial `json:"tree_trials,omitempty"`
	// AutoTrials are the settings of members that were measured for a model of several kinds. Unfinished is set
	// if Auto.Time or Run.Stop has ended that; Build of equal rows under the same name continues from there.
	AutoTrials []AutoTrial   `json:"auto_trials,omitempty"`
	Unfinished bool          `json:"unfinished,omitempty"`
	Tree       *budget.Stats `json:"tree,omitempty"` // budgeted trees
	// Calibration turns the scores of a label model into probabilities; nil for fewer than
	// labels.LeastCalibrationRows held-out rows with labels.
	Calibration *labels.Calibration `json:"calibration,omitempty"`
	Neighbors   *NeighborReport     `json:"neighbors,omitempty"` // approximate neighbor lists
	// Reached is the share of rows to which paths along the neighbor lists lead; 0 without lists.
	Reached float64 `json:"reached,omitempty"`
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
