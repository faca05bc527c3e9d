package budget

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
)

// A label set that is new to a powerset tree has no leaf, and its rows no place
// among the codes. It joins the leaf that the tree predicts for most of its
// rows: the decisions above then need not know it, and the leaf becomes a
// subtree that tells its label sets apart.

// setKey makes a label set the key of a map.
func setKey(set []uint32) string {
	b := make([]byte, 0, 4*len(set))
	for _, l := range set {
		b = binary.LittleEndian.AppendUint32(b, l)
	}
	return string(b)
}

// followPT makes a powerset tree follow.
func (f *following) followPT(ctx context.Context, d *Drift) error {
	s, err := f.setTree(d)
	if err != nil {
		return err
	}
	if err := s.countPT(ctx); err != nil {
		return err
	}
	return s.follow(ctx, s.learnPT)
}

// changedSet is a label set of rows that came and went.
type changedSet struct {
	set  []uint32
	leaf int32 // −1 without one
	// How many rows went, one of which is last, and the rows that came.
	gone, last int
	added      []int
}

// countPT counts the changed rows on the paths to their leaves, and finds
// leaves for the label sets that have none.
func (s *setTree) countPT(ctx context.Context) error {
	sets := map[string]*changedSet{}
	var order []*changedSet
	err := s.changes(ctx, func(row, by int) error {
		set, err := s.labelsOf(row)
		if err != nil {
			return err
		}
		key := setKey(set)
		c := sets[key]
		if c == nil {
			c = &changedSet{set: set, leaf: -1}
			sets[key], order = c, append(order, c)
		}
		if by < 0 {
			c.gone, c.last = c.gone+1, row
		} else {
			c.added = append(c.added, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.findLeaves(order)
	parent := parents(s.m)
	count := func(leaf int32, rows, by int) error {
		for node := parent.of(^leaf); node >= 0; node = parent.of(node) {
			if err := s.count(node, rows, by); err != nil {
				return err
			}
		}
		return nil
	}
	var predictor *Predictor
	for _, c := range order {
		n := len(c.added)
		switch {
		case c.leaf >= 0:
			err := s.countLeaf(c.leaf, c.gone, -1)
			if err == nil {
				err = count(c.leaf, c.gone, -1)
			}
			if err == nil {
				err = s.countLeaf(c.leaf, n, 1)
			}
			if err != nil {
				return err
			}
		case c.gone > 0:
			return fmt.Errorf("%w: no leaf for the labels of row %d", ErrInvalid, c.last)
		default:
			if predictor == nil {
				predictor = NewPredictor(NewIndex(s.m))
			}
			if c.leaf, err = s.predicted(predictor, c.added); err != nil {
				return err
			}
			s.joined[c.leaf] = append(s.joined[c.leaf], newSet{c.set, n})
		}
		if err := count(c.leaf, n, 1); err != nil {
			return err
		}
	}
	return nil
}

// findLeaves finds the leaves of label sets. O(labels of all leaves).
func (s *setTree) findLeaves(sets []*changedSet) {
	weight := s.weights()
	bySum := map[uint64][]*changedSet{}
	for _, c := range sets {
		sum := sumOf(c.set, weight)
		bySum[sum] = append(bySum[sum], c)
	}
	for leaf := range s.m.Leaves() {
		set := s.m.Set(leaf)
		for _, c := range bySum[sumOf(set, weight)] {
			if slices.Equal(c.set, set) {
				c.leaf = int32(leaf)
			}
		}
	}
}

// predicted is the leaf that the tree predicts for most of the rows, the first
// one of equals.
func (s *setTree) predicted(p *Predictor, rows []int) (int32, error) {
	votes := map[int]int{}
	for _, row := range rows {
		x, err := s.Rows.Row(row)
		if err != nil {
			return 0, err
		}
		leaf, _ := p.Leaf(x, 0)
		votes[leaf]++
	}
	best, most := 0, 0
	for leaf, n := range votes {
		if n > most || n == most && leaf < best {
			best, most = leaf, n
		}
	}
	return int32(best), nil
}

// above has the node above each node and leaf.
type above struct{ node, leaf []int32 }

// parents finds the nodes above; -1 above the root.
func parents(m *Model) above {
	a := above{make([]int32, m.Nodes()), make([]int32, m.Leaves())}
	for _, r := range m.Roots {
		*a.at(r) = -1
	}
	for i := range m.Left {
		*a.at(m.Left[i]), *a.at(m.Right[i]) = int32(i), int32(i)
	}
	return a
}

// at is the place of a reference.
func (a above) at(ref int32) *int32 {
	if ref < 0 {
		return &a.leaf[^ref]
	}
	return &a.node[ref]
}

// of is the node above a reference.
func (a above) of(ref int32) int32 { return *a.at(ref) }

// learnPT learns the parts anew.
func (s *setTree) learnPT(ctx context.Context, r *partRows) error {
	pool := newPool(0, s.progress)
	var tasks []task
	fresh := make([]*grown, len(s.parts))
	for i := range s.parts {
		x, columns, y, rows := r.of(i)
		sets := y.PowersetsOf(rows)
		t := &pt{x: x, columns: columns, params: s.params, pool: pool}
		fresh[i] = t.plant(sets, rows)
		tasks = append(tasks, t.tasks(fresh[i])...)
		pool.total += len(sets.Sets) - 1
	}
	return s.learnParts(ctx, pool, 0, tasks, fresh)
}
