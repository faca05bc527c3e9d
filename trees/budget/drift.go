package budget

import "fmt"

// Drift says how far the parts of a model stand from the rows that they were
// learned from. With the counts of the model itself (NodeRows, LeafRows,
// LeafPositive), which are those of the present rows, it is what a model keeps
// to be followed by Follow.
type Drift struct {
	// NodeLearned is how many rows reached each node when its decision was
	// learned, NodeChanged how many rows that reach it came or went since.
	NodeLearned, NodeChanged []uint32
	// LeafLearned and LeafChanged are the same of the leaves. Leaves of PT and AT
	// have nothing learned of their own: they never lag behind.
	LeafLearned, LeafChanged []uint32
}

// NewDrift is that of a model that has just been learned: every part from the
// rows that reach it, none of which has changed.
func NewDrift(m *Model) *Drift {
	return &Drift{
		NodeLearned: append([]uint32(nil), m.NodeRows...), NodeChanged: make([]uint32, m.Nodes()),
		LeafLearned: append([]uint32(nil), m.LeafRows...), LeafChanged: make([]uint32, m.Leaves()),
	}
}

// Validate checks that the counts are of the model's nodes and leaves.
//
// Errors: ErrInvalid.
func (d *Drift) Validate(m *Model) error {
	if len(d.NodeLearned) != m.Nodes() || len(d.NodeChanged) != m.Nodes() || len(d.LeafLearned) != m.Leaves() || len(d.LeafChanged) != m.Leaves() {
		return fmt.Errorf("%w: counts of changes are not of the %d nodes and %d leaves", ErrInvalid, m.Nodes(), m.Leaves())
	}
	return nil
}

// CheckCounts checks the counts of a model against each other: as many rows
// come to a node as go on from it, and n to every root. The model must be valid.
// Models that Follow has not made may differ in a few rows for SBT, where
// weights were rounded. O(nodes).
//
// Errors: ErrInvalid with the place.
func (m *Model) CheckCounts(n int) error {
	rows := func(ref int32) uint64 { return uint64(m.rowsAt(ref)) }
	for i := range m.Left {
		if rows(m.Left[i])+rows(m.Right[i]) != uint64(m.NodeRows[i]) {
			return fmt.Errorf("%w: %d rows come to node %d, %d go left and %d right", ErrInvalid, m.NodeRows[i], i, rows(m.Left[i]), rows(m.Right[i]))
		}
	}
	for t, r := range m.Roots {
		if rows(r) != uint64(n) {
			return fmt.Errorf("%w: %d rows come to tree %d of %d", ErrInvalid, rows(r), t, n)
		}
	}
	return nil
}
