package kind

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/vector"
)

// Manifest is the stored description of an index: the meaning of the arrays in the blocks of
// object Object. It is stored as JSON in a checksummed block, because it is small, rarely read,
// and should be readable by people.
type Manifest struct {
	Info   index.Record
	Kind   string
	Object uint64
	Metric vector.Metric
	Dim    int // of the collection; of a sparse one, when the last segment was built
	// Auto is set if maintenance has built the index because no other one found rows.
	Auto bool `json:",omitempty"`
	// Given are the options as the user gave them, Options the resolved ones of the build, in which
	// nothing is left to a tuner.
	Given, Options index.Options `json:"-"`
	// Untuned is set if there were too few rows for the tuner. The index is rebuilt once there are
	// enough.
	Untuned bool `json:",omitempty"`
	// Foreign is set if the index was learned from vectors that are not rows: they are not stored, so it
	// cannot be rebuilt.
	Foreign bool `json:",omitempty"`
	// Uses is the name of the index that finds neighbors for this one, empty for none.
	Uses string `json:",omitempty"`
	// Segments are the parts of the index, by rows. Their blocks are in objects of their own.
	Segments []Segment
	Of       Kind `json:"-"`
	encoded
}

// encoded holds the parts of a manifest that its kind encodes and decodes.
type encoded struct {
	StoredGiven   json.RawMessage `json:"Given"`
	StoredOptions json.RawMessage `json:"Options"`
}

// Encode fills in the encoded parts.
func (m *Manifest) Encode() (err error) {
	if m.StoredGiven, err = json.Marshal(m.Given); err != nil {
		return err
	}
	if m.StoredOptions, err = json.Marshal(m.Options); err != nil {
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
	m.Of = k
	var err error
	if m.Given, err = m.decodeOptions(m.StoredGiven, kindOf); err != nil {
		return fmt.Errorf("given options: %w", err)
	}
	if m.Options, err = m.decodeOptions(m.StoredOptions, kindOf); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	if m.Options.Name() != m.Kind {
		return fmt.Errorf("options of kind %q", m.Options.Name())
	}
	if err := m.checkSegments(); err != nil {
		return err
	}
	if c := m.Info.Calibration; c != nil {
		if err := c.Validate(); err != nil {
			return fmt.Errorf("calibration: %v", err)
		}
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

// decodeOptions decodes and checks options of the kind of m.
func (m *Manifest) decodeOptions(stored json.RawMessage,
	kindOf func(name string) Kind) (index.Options, error) {
	o := reflect.New(reflect.TypeOf(m.Of.Traits().Options).Elem()).Interface().(index.Options)
	if err := json.Unmarshal(stored, o); err != nil {
		return nil, err
	}
	if kindOf(o.Name()) != m.Of {
		return nil, fmt.Errorf("of kind %q", o.Name())
	}
	if err := o.Check(-1); err != nil {
		return nil, fmt.Errorf("%v", fail.Inner{Err: err}) // not a mistake of the caller
	}
	return o, nil
}

// Keep takes over what a rebuild does not measure again from the index that it replaces.
func (m *Manifest) Keep(before *Manifest) {
	i, b := &m.Info, &before.Info
	m.Auto, i.Created, i.Maintained = before.Auto, b.Created, time.Now().UTC()
	i.LabelCurve = cmp.Or(i.LabelCurve, b.LabelCurve)
	if i.TreeTrials == nil {
		i.TreeTrials = b.TreeTrials
	}
	if i.AutoTrials == nil {
		i.AutoTrials = b.AutoTrials
	}
}
