package kind

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// Info is the part of a manifest that describes the index to users, with the fields of
// db.IndexInfo.
type Info struct {
	Name           string
	Rows           int
	Created        time.Time
	Maintained     time.Time `json:",omitzero"`
	BuildSeconds   map[string]float64
	BuildMemory    int64 `json:",omitempty"`
	Bytes          map[string]int64
	Curve          *query.Curve
	LabelCurve     *lcif.Curve    `json:",omitempty"`
	Tree           *budget.Stats  `json:",omitempty"`
	TreeTrials     []budget.Trial `json:",omitempty"`
	TrainingPoints int
	Neighbors      *NeighborReport `json:",omitempty"`
	Reached        float64         `json:",omitempty"`
}

// NeighborReport holds the measurements of approximate neighbor lists: the fields of
// db.NeighborReport.
type NeighborReport struct {
	K, Sample          int
	Recall, HeadRecall float64
	Rounds             int
}

// Manifest is the stored description of an index: the meaning of the arrays in the blocks of
// object Object. It is stored as JSON in a checksummed block, because it is small, rarely read,
// and should be readable by people.
type Manifest struct {
	Info   Info
	Kind   string
	Object uint64
	Metric vector.Metric
	Dim    int // of the collection
	// Auto is set if maintenance has built the index because no other one found rows.
	Auto bool `json:",omitempty"`
	// Options are the resolved options.
	Options Options `json:"-"`
	// Requested holds the options as given, if there were too few rows for the tuner, otherwise
	// nil. The index is rebuilt with them once there are enough.
	Requested Options `json:"-"`
	// Segments are the parts of the index, by rows. Their blocks are in objects of their own.
	Segments []Segment `json:",omitempty"`
	// Own is the part specific to an Absorber, which has no segments.
	Own Detail `json:"-"`
	Of  Kind   `json:"-"`
	encoded
}

// encoded holds the parts of a manifest that its kind encodes and decodes.
type encoded struct {
	StoredOptions   json.RawMessage `json:"Options"`
	StoredRequested json.RawMessage `json:"Requested,omitempty"`
	Detail          json.RawMessage `json:",omitempty"`
}

// Encode fills in the encoded parts.
func (m *Manifest) Encode() (err error) {
	if m.StoredOptions, err = json.Marshal(m.Options); err != nil {
		return err
	}
	m.StoredRequested = nil
	if m.Requested != nil {
		if m.StoredRequested, err = json.Marshal(m.Requested); err != nil {
			return err
		}
	}
	if m.Own != nil {
		m.Detail, err = json.Marshal(m.Own)
		return err
	}
	m.Segments = slices.Clone(m.Segments)
	for i := range m.Segments {
		if g := &m.Segments[i]; !g.Empty() {
			if g.Detail, err = json.Marshal(g.Own); err != nil {
				return err
			}
		}
	}
	return nil
}

// Decode decodes the encoded parts by the kind that kindOf returns for a name, which is nil for an
// unknown one.
func (m *Manifest) Decode(kindOf func(name string) Kind) error {
	k := kindOf(m.Kind)
	if k == nil {
		return fmt.Errorf("unknown kind of index %q", m.Kind)
	}
	m.Of, m.Options = k, k.Options()
	if err := json.Unmarshal(m.StoredOptions, m.Options); err != nil {
		return err
	}
	if m.Options.Name() != m.Kind {
		return fmt.Errorf("options of kind %q", m.Options.Name())
	}
	if m.StoredRequested != nil {
		m.Requested = k.Options()
		if err := json.Unmarshal(m.StoredRequested, m.Requested); err != nil {
			return err
		}
		if name := m.Requested.Name(); kindOf(name) != k {
			return fmt.Errorf("requested options of kind %q", name)
		}
	}
	if _, ok := k.(Absorber); ok {
		m.Own = k.Detail()
		if err := json.Unmarshal(m.Detail, m.Own); err != nil {
			return err
		}
		return m.Own.Check(m, nil)
	}
	if err := m.checkSegments(); err != nil {
		return err
	}
	for i := range m.Segments {
		g := &m.Segments[i]
		if g.Empty() {
			continue
		}
		g.Own = k.Detail()
		if err := json.Unmarshal(g.Detail, g.Own); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		if err := g.Own.Check(m, g); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	return nil
}
