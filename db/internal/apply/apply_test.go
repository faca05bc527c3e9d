package apply_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
)

// write applies operations to a collection in one transaction.
func write(t *testing.T, m *txn.Manager, coll string, ops ...apply.Op) error {
	t.Helper()
	return m.Exclusive(t.Context(), func(tx *bbolt.Tx, cat *layout.Catalog) error {
		a := apply.New(tx, cat)
		c, err := cat.Find(coll)
		if err != nil {
			return err
		}
		for i := range ops {
			ops[i].ID, ops[i].Collection = c.ID, coll
		}
		if err := a.Check(ops); err != nil {
			return err
		}
		if err := a.Apply(ops); err != nil {
			return err
		}
		return a.Finish()
	})
}

func op(what apply.Kind, i int, labels ...string) apply.Op {
	r := txntest.Row("dense", i)
	if what != apply.Put && what != apply.PutDeleted {
		r.Vector = nil
	}
	o := apply.Op{What: what, Row: r}
	if what == apply.Change {
		o.Before, o.Row.Labels = r.Cold, labels
	}
	return o
}

// labelRows returns the rows of a label.
func labelRows(t *testing.T, m *txn.Manager, label string) (out []uint32) {
	t.Helper()
	err := m.View(func(g *state.Generation) error {
		set, err := g.Collections["dense"].LabelRows(label)
		if set != nil {
			out = set.ToArray()
		}
		return err
	})
	txntest.Must(t, err)
	return out
}

// TestApply: rows get numbers in order, a row that replaces another gets a new one, a deleted one keeps
// its place, and labels name their rows. The file is consistent after each transaction.
func TestApply(t *testing.T) {
	m, path := txntest.Open(t)
	for _, step := range []struct {
		ops    []apply.Op
		live   []uint32
		label0 []uint32 // rows of label-0, deleted ones included
	}{
		{[]apply.Op{op(apply.Put, 0), op(apply.Put, 1), op(apply.Put, 3)}, []uint32{0, 1, 2}, []uint32{0, 2}},
		{[]apply.Op{op(apply.Put, 0)}, []uint32{1, 2, 3}, []uint32{0, 2, 3}},
		{[]apply.Op{op(apply.Delete, 1), op(apply.Delete, 9)}, []uint32{2, 3}, []uint32{0, 2, 3}},
		{[]apply.Op{op(apply.PutDeleted, 7), op(apply.Put, 6)}, []uint32{2, 3, 5}, []uint32{0, 2, 3, 5}},
		{[]apply.Op{op(apply.Change, 6, "other")}, []uint32{2, 3, 5}, []uint32{0, 2, 3}},
	} {
		txntest.Must(t, write(t, m, "dense", step.ops...))
		got := slices.Sorted(maps.Keys(txntest.Rows(t, m, "dense")))
		label0 := labelRows(t, m, "label-0")
		if !slices.Equal(got, step.live) || !slices.Equal(label0, step.label0) {
			t.Errorf("rows %v, want %v; with a label %v, want %v", got, step.live, label0, step.label0)
		}
		txntest.Check(t, m, path)
	}
	if got := labelRows(t, m, "other"); !slices.Equal(got, []uint32{5}) {
		t.Errorf("the changed row is not found by its label: %v", got)
	}
}

// TestSealed writes enough rows for complete chunks, in transactions of different sizes.
func TestSealed(t *testing.T) {
	m, path := txntest.Open(t)
	shift := (&layout.Collection{Dim: 2}).Shift()
	per := 1 << shift
	n := 0
	for _, size := range []int{1, per - 2, 3, 2*per + 1} {
		txntest.Put(t, m, "dense", n, n+size)
		n += size
		err := m.View(func(g *state.Generation) error {
			if c := g.Collections["dense"].Entry; int(c.Rows) != n || int(c.ChunkCount()) != n/per {
				t.Errorf("%d rows in %d chunks, want %d rows", c.Rows, c.ChunkCount(), n)
			}
			return nil
		})
		txntest.Must(t, err)
	}
	txntest.Check(t, m, path)
}

// TestRefused: operations that do not fit the state fail and change nothing.
func TestRefused(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "dense", 0, 3)
	before := txntest.Rows(t, m, "dense")
	insert := op(apply.Put, 0)
	insert.Insert = true
	if err := write(t, m, "dense", op(apply.Put, 5), insert); !errors.Is(err, fail.ErrExists) {
		t.Errorf("a key that exists was inserted: %v", err)
	}
	if err := write(t, m, "dense", op(apply.Put, 5), op(apply.Change, 9)); !errors.Is(err, fail.ErrCorrupt) {
		t.Errorf("a row that does not exist was changed: %v", err)
	}
	err := m.Exclusive(t.Context(), func(tx *bbolt.Tx, cat *layout.Catalog) error {
		return apply.New(tx, cat).Check([]apply.Op{{ID: 99, Collection: "none"}})
	})
	if !errors.Is(err, fail.NoCollection) {
		t.Errorf("no such collection: %v", err)
	}
	if after := txntest.Rows(t, m, "dense"); !maps.Equal(before, after) {
		t.Errorf("rows %v, %v before", after, before)
	}
	txntest.Check(t, m, path)
}

// TestUnchanged: what a transaction has read conflicts with later changes of the same key only.
func TestUnchanged(t *testing.T) {
	m, _ := txntest.Open(t)
	txntest.Put(t, m, "dense", 0, 3)
	id := uint64(0)
	err := m.View(func(g *state.Generation) error {
		id = g.Collections["dense"].Entry.ID
		return nil
	})
	txntest.Must(t, err)
	key := func(i int) apply.Key { return apply.Key{Collection: id, Key: string(txntest.Row("dense", i).Key)} }
	conflicts := func() (out []int) {
		t.Helper()
		err := m.Exclusive(t.Context(), func(tx *bbolt.Tx, cat *layout.Catalog) error {
			for i := range 4 {
				was := map[apply.Key]apply.Found{key(i): {Row: uint32(i), Exists: i < 3}}
				switch err := apply.New(tx, cat).Unchanged(was); {
				case errors.Is(err, apply.ErrConflict):
					out = append(out, i)
				case err != nil:
					return err
				}
			}
			return nil
		})
		txntest.Must(t, err)
		return out
	}
	if got := conflicts(); got != nil {
		t.Errorf("keys %v conflict, nothing has changed", got)
	}
	for i, o := range []apply.Op{op(apply.Delete, 0), op(apply.Change, 1, "new"), op(apply.Put, 3)} {
		txntest.Must(t, write(t, m, "dense", o))
		want := [][]int{{0}, {0, 1}, {0, 1, 3}}[i]
		if got := conflicts(); !slices.Equal(got, want) {
			t.Errorf("keys %v conflict, want %v", got, want)
		}
	}
}

// TestWatch: a watch has the rows whose labels or payloads were changed since it began, and no others.
func TestWatch(t *testing.T) {
	m, _ := txntest.Open(t)
	txntest.Put(t, m, "dense", 0, 5)
	relabel := func(i int, payload string, labels ...string) {
		t.Helper()
		err := m.Update(t.Context(), func(x *txn.Tx) error {
			return x.Edit("dense", txntest.Row("dense", i).Key, func(r *rows.Row) error {
				r.Labels, r.Payload = labels, []byte(payload)
				return nil
			})
		})
		txntest.Must(t, err)
	}
	relabel(0, "", "early")
	w, end := m.Watch()
	relabel(1, "", "late")
	relabel(2, "only the payload", txntest.Row("dense", 2).Labels...)
	txntest.Put(t, m, "dense", 3, 4)
	var all, relabelled *roaring.Bitmap
	for id, c := range w.Next() {
		all, relabelled = c.All, w.Relabelled(id)
	}
	if all == nil || !slices.Equal(all.ToArray(), []uint32{1, 2}) || !relabelled.IsEmpty() {
		t.Errorf("changed rows %v; relabelled after they were taken %v", all, relabelled)
	}
	end()
	relabel(4, "", "after")
	if left := w.Next(); len(left) > 0 {
		t.Errorf("a watch that has ended has %v", left)
	}
}
