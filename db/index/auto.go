package index

import (
	"reflect"
	"time"

	"github.com/anndb/anndb/query/lcif"
)

// Auto are the options of a label model that is put together from those of other kinds, its members: LCIF,
// linear classifiers and AT. Each is measured on rows that it has not learned from; the probabilities
// that it gives for labels of similar frequency are weighed by what these rows prefer, and a member without
// gain is left out.
type Auto struct {
	// Objective is the measure that LCIF is tuned for and sets are chosen by, micro F1 when empty. Members,
	// their settings and weights are those of the least squared error.
	Objective  lcif.Objective `flag:"objective"`
	AllowEmpty bool           `json:",omitempty" flag:"allow-empty"` // else rows have at least their best label
	// Time is the wall time of the build, two minutes when zero: what does not fit into it is not tried, but
	// for the first member. Only if it cuts, two builds of equal rows with equal seeds may differ.
	Time time.Duration `json:",omitempty" flag:"time" min:"0"`
	// Memory is the memory in bytes that learning a member may take, by an estimate; zero sets no limit. A
	// member that takes more is not tried.
	Memory int64  `json:",omitempty" flag:"memory" min:"0" size:""`
	Seed   uint64 `json:",omitempty" flag:"seed"`
	// LCIF, LabelTree and Trees are the options of members. If any is set, these members are used, with these
	// options.
	LCIF      *LCIF      `json:",omitempty" flag:"-"`
	LabelTree *LabelTree `json:",omitempty" flag:"-"`
	Trees     *Trees     `json:",omitempty" flag:"-"`
}

// Name returns "auto-labels".
func (*Auto) Name() string { return "auto-labels" }

// Check refuses options that no model can be built with.
func (o *Auto) Check(dim int) error {
	if err := checkTags(reflect.ValueOf(*o), ""); err != nil {
		return err
	}
	if _, err := o.Objective.MarshalText(); err != nil {
		return refuse("{Objective} %v", o.Objective)
	}
	if o.LCIF != nil {
		if err := o.LCIF.Check(dim); err != nil {
			return err
		}
	}
	if o.LabelTree != nil {
		if err := o.LabelTree.Check(dim); err != nil {
			return err
		}
	}
	if o.Trees != nil {
		if o.Trees.Name() == "sbt" {
			return refuse("{Trees.Kind} sbt (want at or pt)")
		}
		return o.Trees.Check(dim)
	}
	return nil
}

// AutoTrial is what was measured of a member, or of the members together (Kind "auto-labels").
type AutoTrial struct {
	Kind, Setting string
	// Value is the objective on held-out rows, after calibration.
	Value   float64
	Seconds float64 `json:",omitempty"`
	Bytes   int64   `json:",omitempty"` // as stored, of a part of the rows
	Chosen  bool    `json:",omitempty"`
	// Weight is the member's share of the probability of labels with fewer than 10, 50 and 200 training rows,
	// and with more.
	Weight [4]float64 `json:",omitzero"`
	Error  string     `json:",omitempty"` // why there is no value
}
