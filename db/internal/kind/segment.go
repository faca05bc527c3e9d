package kind

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Segment describes a part of an index: rows [First, First+Rows), stored in blocks of Object, which
// never change. Its rows are numbered from 0 in its arrays.
type Segment struct {
	// Object is zero if all rows were deleted before the segment was built, which then has no blocks.
	Object      uint64 `json:",omitempty"`
	First, Rows int
	// Dead is the number of rows that were deleted before the segment was built, which leaves them
	// out.
	Dead  int              `json:",omitempty"`
	Bytes map[string]int64 `json:",omitempty"` // stored size by section
	// Own is the part specific to the kind.
	Own    Detail          `json:"-"`
	Detail json.RawMessage `json:",omitempty"` // Own encoded
}

// End returns the first row after the segment.
func (g *Segment) End() int { return g.First + g.Rows }

// Empty reports whether the segment has no blocks.
func (g *Segment) Empty() bool { return g.Object == 0 }

// MaxSegments bounds the segments of an index: a large one, and small ones with later rows.
const MaxSegments = 3

// Objects returns the objects that hold blocks of the index in addition to the manifest's.
func (m *Manifest) Objects() (out []uint64) {
	for i := range m.Segments {
		if g := &m.Segments[i]; !g.Empty() {
			out = append(out, g.Object)
		}
	}
	return out
}

// Total sets the numbers of rows and the sizes to those of all segments.
func (m *Manifest) Total() {
	i := &m.Info
	i.Rows, i.TrainingPoints, i.Bytes = 0, 0, map[string]int64{}
	for _, g := range m.Segments {
		i.Rows += g.Rows
		i.TrainingPoints += g.Rows - g.Dead
		for section, n := range g.Bytes {
			i.Bytes[section] += n
		}
	}
}

// checkSegments returns an error unless the segments cover the rows of the index in sequence, each
// in an object of its own.
func (m *Manifest) checkSegments() error {
	n := len(m.Segments)
	if n < 1 || n > MaxSegments || n > 1 && !m.Of.Traits().Composes {
		return fmt.Errorf("%d segments", n)
	}
	at := 0
	for i := range m.Segments {
		g := &m.Segments[i]
		shared := g.Object == m.Object || slices.ContainsFunc(m.Segments[:i], func(x Segment) bool {
			return x.Object == g.Object && !g.Empty()
		})
		switch {
		case shared:
			return fmt.Errorf("segment %d: object %d has other blocks", i, g.Object)
		case g.First != at || g.Rows < 1 || g.Dead < 0 || g.Dead > g.Rows || g.Rows > m.Info.Rows-at,
			g.Empty() && (i == 0 || g.Dead < g.Rows):
			return fmt.Errorf("segment %d: %d rows from row %d, %d of them deleted", i, g.Rows, g.First, g.Dead)
		}
		at += g.Rows
	}
	if at != m.Info.Rows {
		return fmt.Errorf("segments of %d rows, want %d", at, m.Info.Rows)
	}
	return nil
}
