package state_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txntest"
)

// TestGenerationStays: a generation has the rows of its state while later transactions replace and
// delete them.
func TestGenerationStays(t *testing.T) {
	m, _ := txntest.Open(t)
	txntest.Put(t, m, "dense", 0, 10)
	g, err := m.Latest()
	txntest.Must(t, err)
	defer g.Release()
	txntest.Delete(t, m, "dense", 0, 5)
	txntest.Put(t, m, "dense", 5, 15)
	st, err := g.Collection("dense")
	txntest.Must(t, err)
	var run *state.ColdRun
	for i := range 10 {
		want := txntest.Row("dense", i)
		row, exists, err := st.Find(want.Key)
		if err != nil || !exists || row != uint32(i) {
			t.Fatalf("%s has row %d, %v, %v", want.Key, row, exists, err)
		}
		r, live, err := st.ReadRow(row, &run)
		if err != nil || !live || string(r.Key) != string(want.Key) || !slices.Equal(r.Vector, want.Vector) ||
			!slices.Equal(r.Labels, want.Labels) {
			t.Errorf("row %d is %+v, %v, %v", row, r, live, err)
		}
	}
	if _, exists, err := st.Find(txntest.Row("dense", 12).Key); exists || err != nil {
		t.Errorf("a later row exists, %v", err)
	}
	if _, live, err := st.ReadRow(10, &run); live || err != nil {
		t.Errorf("a row beyond the last: %v, %v", live, err)
	}
	if _, err := g.Collection("none"); !errors.Is(err, fail.NoCollection) {
		t.Errorf("no such collection: %v", err)
	}
}

// TestKeyPage: pages of keys have each key with the prefix once, in bytewise order.
func TestKeyPage(t *testing.T) {
	m, _ := txntest.Open(t)
	const n = 2500 // more than two pages
	txntest.Put(t, m, "dense", 0, n)
	txntest.Put(t, m, "sparse", 0, 10) // keys of another collection
	err := m.View(func(g *state.Generation) error {
		id := g.Collections["dense"].Entry.ID
		for prefix, count := range map[string]int{"": n, "key-1": 1111, "key-24": 111, "x": 0} {
			var got []string
			var page [][]byte
			from := layout.KeyOf(id, []byte(prefix))
			for next := from; next != nil; {
				var err error
				if page, next, err = g.KeyPage(from, next, nil, page[:0]); err != nil {
					return err
				}
				for _, k := range page {
					got = append(got, string(k))
				}
			}
			outside := func(k string) bool { return !strings.HasPrefix(k, prefix) }
			if len(got) != count || !slices.IsSorted(got) || len(slices.Compact(got)) != count ||
				slices.ContainsFunc(got, outside) {
				t.Errorf("prefix %q: %d keys, want %d", prefix, len(got), count)
			}
		}
		return nil
	})
	txntest.Must(t, err)
}

// TestLabels: labels are counted without deleted rows, and left out without rows.
func TestLabels(t *testing.T) {
	for _, coll := range []string{"dense", "sparse"} {
		m, _ := txntest.Open(t)
		txntest.Put(t, m, coll, 0, 30)
		for i := 0; i < 30; i += 3 {
			txntest.Delete(t, m, coll, i, i+1) // all rows of label-0
		}
		txntest.Delete(t, m, coll, 1, 2)
		err := m.View(func(g *state.Generation) error {
			st := g.Collections[coll]
			got := ""
			if err := st.EachLabel(func(label string, n int) { got += fmt.Sprint(label, ":", n, " ") }); err != nil {
				return err
			}
			if got != "label-1:9 label-2:10 " {
				t.Errorf("%s: labels %s", coll, got)
			}
			rows, err := st.LabelRows("label-1")
			if err != nil || rows.GetCardinality() != 10 {
				t.Errorf("%s: rows of a label, deleted ones included: %v, %v", coll, rows, err)
			}
			if rows, err := st.LabelRows("none"); rows != nil || err != nil {
				t.Errorf("%s: rows of no label: %v, %v", coll, rows, err)
			}
			return nil
		})
		txntest.Must(t, err)
	}
}
