package db

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
)

// NeighborReport holds the measurements of approximate neighbor lists.
type NeighborReport struct {
	K, Sample          int     // the rows in a list, itself included; the rows measured
	Recall, HeadRecall float64 // the mean share of the nearest K-1, and 10, that a list holds
	Rounds             int     // refinement rounds on exact distances
}

// IndexInfo describes an index.
type IndexInfo struct {
	Collection, Name string
	// Default is set for the index of searches, or predictions, that name none (Collection.SetDefault).
	Default bool `json:",omitempty"`
	// Kind is "postings", "lcif", "sbt", "pt", "at", or for a forest its learner.
	Kind string `json:",omitempty"`
	// Options are those of the build, with defaults and what was tuned filled in, and Flat for the
	// neighbors of a label model whose forest was dropped. Build with them makes an equal index of equal
	// rows, see Auto.Seed.
	Options IndexOptions `json:",omitempty"`
	// Rows is the number of row numbers that the index covers, Fresh that of later rows, which queries
	// scan, Relabelled that of covered rows whose labels have changed since the index learned them.
	Rows, Fresh, Relabelled int
	Segments                int // of an inverted index, 1 for other kinds
	// Error is the reason why the index cannot be described or, if this handle has tried,
	// maintained; empty otherwise.
	Error      string    `json:",omitempty"`
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
	LabelCurve *lcif.Curve     `json:",omitempty"`
	TreeTrials []budget.Trial  `json:",omitempty"`
	Tree       *budget.Stats   `json:",omitempty"` // budgeted trees
	Neighbors  *NeighborReport `json:",omitempty"` // approximate neighbor lists
	// Reached is the share of rows to which paths along the neighbor lists lead; 0 without lists.
	Reached float64 `json:",omitempty"`
}

// TotalBytes returns the stored size of the index.
func (i IndexInfo) TotalBytes() int64 {
	var n int64
	for _, b := range i.Bytes {
		n += b
	}
	return n
}

// publicInfo returns the description of an index as its manifest has it.
func publicInfo(coll string, m *kind.Manifest) IndexInfo {
	x := &m.Info
	return IndexInfo{
		Collection: coll, Name: x.Name, Kind: m.Kind, Options: kinds[m.Kind].public(m.Options), Rows: x.Rows,
		Segments: m.SegmentCount(), Created: x.Created, Maintained: x.Maintained,
		BuildSeconds: x.BuildSeconds, BuildMemory: x.BuildMemory, Bytes: x.Bytes, Curve: x.Curve,
		LabelCurve: x.LabelCurve, Tree: x.Tree, TreeTrials: x.TreeTrials, TrainingPoints: x.TrainingPoints,
		Neighbors: (*NeighborReport)(x.Neighbors), Reached: x.Reached,
	}
}

// indexInfo describes an index in a state. stale counts the rows whose labels have changed among
// the first ones.
func indexInfo(
	c *layout.Collection, m *kind.Manifest, stale func(rows int) (int, error),
) (IndexInfo, error) {
	info := publicInfo(c.Name, m)
	info.Fresh, info.Default = int(c.Rows)-info.Rows, c.DefaultIndex(m.Of.Predicts()) == info.Name
	if o, ok := info.Options.(*LCIF); ok && o.Neighbors != "" && c.Index(o.Neighbors) == nil {
		o.Neighbors = Flat
	}
	var err error
	info.Relabelled, err = stale(info.Rows)
	return info, err
}

// Index describes an index.
func (c Collection) Index(name string) (info IndexInfo, err error) {
	err = c.read(context.Background(), func(st *state.Collection) (err error) {
		info, err = indexInfoOf(st, name)
		return err
	})
	return info, err
}

// Indexes describes the indexes of a collection, by name.
func (c Collection) Indexes() (out []IndexInfo, err error) {
	err = c.read(context.Background(), func(st *state.Collection) error {
		for _, r := range st.Entry.Indexes {
			info, err := indexInfoOf(st, r.Name)
			if err != nil {
				return err
			}
			out = append(out, info)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b IndexInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

func indexInfoOf(st *state.Collection, name string) (IndexInfo, error) {
	r := st.Entry.Index(name)
	if r == nil {
		return IndexInfo{}, layout.NoIndex(st.Entry, name)
	}
	m, err := st.ManifestOf(r)
	if err != nil {
		return IndexInfo{}, err
	}
	return indexInfo(st.Entry, m, func(rows int) (int, error) { return st.Stale(m.Object, rows) })
}
