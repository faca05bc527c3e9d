package check

import (
	"errors"
	"fmt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// collection checks the cross-references of one collection and its indexes.
func (c *checker) collection(x *layout.Collection) {
	problem := func(err error) {
		if c.ctx.Err() != nil {
			return // a cancelled load is not damage
		}
		c.found(fail.Damage{Collection: x.Name, Offset: -1, Err: err})
	}
	st := c.g.Collections[x.Name]
	err := func() (err error) {
		defer state.Guard(c.g.File, state.CatchFaults(), &err)
		err = st.Load(c.ctx)
		return err
	}()
	if err != nil {
		problem(err)
		return
	}
	keys := c.keys[x.ID]
	if len(keys) != int(x.Live) {
		problem(fmt.Errorf("%d keys for %d live rows", len(keys), x.Live))
	}
	st.Gen.Locked(func() {
		if err = checkChanges(st); err == nil {
			_, err = layout.ReadQueries(st.Gen.Tx, x)
		}
	})
	if err != nil {
		problem(err)
		return
	}
	attrs, err := newAttributes(st)
	if err != nil {
		problem(err)
		return
	}
	counts, err := c.rows(st, keys, attrs, problem)
	if err != nil {
		problem(err)
		return
	}
	c.labelCounts(st, counts, problem)
	for i := range x.Indexes {
		err := Index(c.ctx, st, &x.Indexes[i])
		if err != nil {
			problem(fmt.Errorf("index %q: %w", x.Indexes[i].Name, err))
		}
		c.opened.add(1)
	}
}

// rows verifies every row and returns the number of rows of each label.
func (c *checker) rows(
	st *state.Collection, keys map[uint32]string, attrs *attributes, problem func(error),
) (counts map[string]int, err error) {
	counts = map[string]int{}
	norms, err := storedNorms(c.ctx, st)
	if err != nil {
		return nil, err
	}
	var run *state.ColdRun
	for row := range st.Entry.Rows {
		if c.ctx.Err() != nil {
			return nil, c.ctx.Err()
		}
		c.compared.add(1)
		r, live, err := st.ReadRow(row, &run)
		if live && err == nil && st.Entry.Named {
			r.Features, err = st.NamedFeatures(r.Sparse)
		}
		switch {
		case err != nil:
			return nil, err
		case live && keys[row] != string(r.Key):
			problem(fmt.Errorf("row %d has key %q, the key table says %q", row, r.Key, keys[row]))
		case !live && keys[row] != "":
			problem(fmt.Errorf("key %q points to deleted row %d", keys[row], row))
		}
		if err := attrs.row(row, live, r.Attributes); err != nil {
			return nil, err
		}
		if !live {
			continue
		}
		if err := layout.CheckRow(st.Entry, &r); err != nil {
			problem(fmt.Errorf("row %d: %w", row, err))
		}
		if err := norms.row(row, r.Vector); err != nil {
			problem(err)
		}
		c.rowLabels(st, row, r.Labels, problem)
		for _, l := range r.Labels {
			counts[l]++
		}
	}
	return counts, nil
}

// checkChanges checks that the changes of labels and payloads belong to rows that are not
// deleted, and that the set of these rows is complete. The caller has locked the generation.
func checkChanges(st *state.Collection) (err error) {
	g := st.Gen
	defer state.Guard(g.File, state.CatchFaults(), &err)
	set, err := layout.ReadSet(g.Tx, st.Entry.Name, st.Entry.ID, codec.KindChanged, st.Entry.Rows)
	if err != nil {
		return err
	}
	n := 0
	tail := g.Tx.Bucket(layout.BucketTail)
	err = layout.EachBlock(tail, st.Entry.ID, codec.KindChange, func(k, v []byte) error {
		_, _, row := codec.ParseKey(k)
		n++
		if _, err := layout.ReadChange(st.Entry, k, v); err != nil {
			return err
		}
		if !set.Contains(row) || st.Deleted(row) {
			return layout.BlockError(st.Entry.Name, st.Entry.ID, codec.KindChange, row,
				errors.New("the row is deleted or not in the set of changed rows"))
		}
		return nil
	})
	if err == nil && set.GetCardinality() != uint64(n) {
		err = fail.Corruptf(st.Entry.Name, "%d rows are in the set of changed rows, %d changes exist",
			set.GetCardinality(), n)
	}
	return err
}

// labelCounts checks that the label sets contain no other live rows than those counted.
func (c *checker) labelCounts(st *state.Collection, counts map[string]int, problem func(error)) {
	// Problems are reported when the generation is not locked any more.
	var wrong []error
	err := func() (err error) {
		defer state.Guard(c.g.File, state.CatchFaults(), &err)
		return st.EachLabel(func(label string, n int) {
			if n != counts[label] {
				wrong = append(wrong, fmt.Errorf("label %q has a set of %d live rows, %d rows have it",
					label, n, counts[label]))
			}
		})
	}()
	if err != nil {
		wrong = []error{err}
	}
	for _, err := range wrong {
		problem(err)
	}
}

// rowLabels checks that the label sets contain a row.
func (c *checker) rowLabels(
	st *state.Collection, row uint32, labels []string, problem func(error),
) {
	for _, l := range labels {
		set, err := st.CachedLabel(l)
		if err != nil {
			problem(err)
		} else if set == nil || !set.Contains(row) {
			problem(fmt.Errorf("row %d has label %q, whose set does not hold it", row, l))
		}
	}
}
