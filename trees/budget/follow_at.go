package budget

import (
	"context"
	"fmt"
	"slices"
)

// followAT makes an annotation tree follow whose leaves are of one label set
// each.
func (f *following) followAT(ctx context.Context, d *Drift) error {
	s, err := f.setTree(d)
	if err != nil {
		return err
	}
	m := f.m
	err = f.changes(ctx, func(row, by int) error {
		set, err := s.labelsOf(row)
		if err != nil {
			return err
		}
		ref := m.Roots[0]
		for ref >= 0 {
			if err := s.count(ref, 1, by); err != nil {
				return err
			}
			if has(set, m.NodeLabel[ref]) {
				ref = m.Left[ref]
			} else {
				ref = m.Right[ref]
			}
		}
		return s.countSet(^ref, set, by)
	})
	if err != nil {
		return err
	}
	if s.nodeRows[0] != len(f.Live) {
		return fmt.Errorf("%w: %d rows of %d", ErrInvalid, s.nodeRows[0], len(f.Live))
	}
	return s.follow(ctx, s.learnAT)
}

// countSet counts a row at the leaf that its labels lead to.
func (s *setTree) countSet(leaf int32, set []uint32, by int) error {
	if slices.Equal(set, s.m.Set(int(leaf))) {
		return s.countLeaf(leaf, 1, by)
	}
	if by < 0 {
		return fmt.Errorf("%w: a row that went has the labels %v, those of leaf %d are %v", ErrInvalid, set, leaf, s.m.Set(int(leaf)))
	}
	for i, j := range s.joined[leaf] {
		if slices.Equal(set, j.set) {
			s.joined[leaf][i].rows++
			return nil
		}
	}
	s.joined[leaf] = append(s.joined[leaf], newSet{set, 1})
	return nil
}

// learnAT learns the parts anew.
func (s *setTree) learnAT(ctx context.Context, r *partRows) error {
	pool := newPool(r.y.Rows(), s.progress)
	tasks, fresh := make([]task, len(s.parts)), make([]*grown, len(s.parts))
	for i, p := range s.parts {
		x, columns, y, rows := r.of(i)
		t := &at{x: x, columns: columns, y: y, params: s.params, pool: pool}
		fresh[i] = &grown{}
		tasks[i] = t.task(fresh[i], rows, p.above, nil)
	}
	return s.learnParts(ctx, pool, s.Labels, tasks, fresh)
}

// learnParts runs the tasks of the parts and puts these in their places.
func (s *setTree) learnParts(ctx context.Context, pool *pool, labels int, tasks []task, fresh []*grown) error {
	if err := pool.run(ctx, s.Cols, labels, s.workers, tasks); err != nil {
		return err
	}
	for i, p := range s.parts {
		settled(fresh[i])
		*p.at = fresh[i]
		s.learned += p.rows
	}
	s.subtrees = len(s.parts)
	return nil
}

// insert is the ascending set with a label that may be in it already.
func insert(set []uint32, label uint32) []uint32 {
	i, ok := slices.BinarySearch(set, label)
	if ok {
		return set
	}
	return slices.Insert(slices.Clone(set), i, label)
}
