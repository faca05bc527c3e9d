package check

import (
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

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
	carry, err := c.rows(st, keys, attrs, problem)
	if err != nil {
		problem(err)
		return
	}
	c.checkLabels(st, carry, problem)
	for i := range x.Indexes {
		err := Index(c.ctx, st, &x.Indexes[i])
		if err != nil {
			problem(fmt.Errorf("index %q: %w", x.Indexes[i].Name, err))
		}
		c.opened.add(1)
	}
}

// rows verifies every row and returns the live rows that carry each label.
func (c *checker) rows(
	st *state.Collection, keys map[uint32]string, attrs *attributes, problem func(error),
) (carry map[string]*roaring.Bitmap, err error) {
	carry = map[string]*roaring.Bitmap{}
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
		for _, l := range r.Labels {
			if carry[l] == nil {
				carry[l] = roaring.New()
			}
			carry[l].Add(row)
		}
	}
	return carry, nil
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

// checkLabels checks that the sets of labels have the live rows that carry them.
func (c *checker) checkLabels(st *state.Collection, carry map[string]*roaring.Bitmap, problem func(error)) {
	// Problems are reported when the generation is not locked any more.
	var wrong []error
	err := func() (err error) {
		defer state.Guard(c.g.File, state.CatchFaults(), &err)
		return st.EachLabel(func(label string, set *roaring.Bitmap) {
			rows := carry[label]
			if delete(carry, label); rows == nil || !rows.Equals(set) {
				wrong = append(wrong, fmt.Errorf("label %q has a set of other live rows than those that carry it", label))
			}
		})
	}()
	if err != nil {
		problem(err)
		return
	}
	for label := range carry {
		wrong = append(wrong, fmt.Errorf("rows have label %q, which has no set", label))
	}
	for _, err := range wrong {
		problem(err)
	}
}
