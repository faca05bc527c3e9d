// Package txntest makes small files for tests of the packages that work on open ones.
package txntest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/check"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/vector"
)

// Options are those of the files.
var Options = store.Options{
	NoSync: true, Timeout: time.Second, Reserve: 1 << 32, Logger: slog.New(slog.DiscardHandler),
	Layout: &layout.OfFile,
}

// Open opens a new file with the collections "dense" of two coordinates and "sparse", which it closes
// when the test ends. Its only kind of index is postingsindex.
func Open(t testing.TB) (m *txn.Manager, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "test.anndb")
	Must(t, store.Create(path, Options, layout.Init))
	f, err := store.Open(t.Context(), path, Options)
	Must(t, err)
	m = Manage(t, path, state.NewFile(f, kindOf))
	Create(t, m, &layout.Collection{Name: "dense", Dim: 2, Metric: vector.L2})
	Create(t, m, &layout.Collection{Name: "sparse", Sparse: true, Metric: vector.Cosine})
	return m, path
}

// Manage returns a manager of an open file, which it closes when the test ends.
func Manage(t testing.TB, path string, f *state.File) *txn.Manager {
	m := txn.New(path, f, txn.Options{Backlog: 1 << 28})
	t.Cleanup(func() {
		m.BeginClose()
		if err := m.Close(time.After(5*time.Second), nil); err != nil {
			t.Error(err)
		}
	})
	return m
}

func kindOf(name string) kind.Kind {
	if name == postingsindex.Name {
		return postingsindex.Kind{}
	}
	return nil
}

// Must ends a test that has got an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Create creates a collection.
func Create(t testing.TB, m *txn.Manager, c *layout.Collection) {
	t.Helper()
	Must(t, m.Restructure(t.Context(), func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		cat.Object++
		c.ID = cat.Object
		cat.Collections = append(cat.Collections, c)
		return nil, nil
	}))
}

// Row returns the row number i of a collection: its key, coordinates or features, and labels.
func Row(coll string, i int) rows.Row {
	r := rows.Row{Key: fmt.Append(nil, "key-", i), Cold: rows.Cold{Labels: []string{fmt.Sprint("label-", i%3)}}}
	if coll == "dense" {
		r.Vector = []float32{float32(i), 1}
	} else {
		r.Sparse = vector.Sparse{Index: []uint32{uint32(i % 5), uint32(5 + i%7)}, Value: []float32{1, 2}}
	}
	return r
}

// Put puts the rows from, from+1, ..., to-1.
func Put(t testing.TB, m *txn.Manager, coll string, from, to int) {
	t.Helper()
	Must(t, PutIn(t.Context(), m, coll, from, to))
}

// PutIn is Put with a context.
func PutIn(ctx context.Context, m *txn.Manager, coll string, from, to int) error {
	return m.Update(ctx, func(x *txn.Tx) error {
		for i := from; i < to; i++ {
			err := x.Add(coll, func(*layout.Collection) (apply.Op, error) {
				return apply.Op{Row: Row(coll, i)}, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete deletes the rows from, from+1, ..., to-1.
func Delete(t testing.TB, m *txn.Manager, coll string, from, to int) {
	t.Helper()
	Must(t, m.Update(t.Context(), func(x *txn.Tx) error {
		for i := from; i < to; i++ {
			err := x.Add(coll, func(*layout.Collection) (apply.Op, error) {
				key := Row(coll, i).Key
				return apply.Op{What: apply.Delete, Row: rows.Row{Key: key}}, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Relabel replaces the labels of row i, if it exists.
func Relabel(t testing.TB, m *txn.Manager, coll string, i int, labels ...string) {
	t.Helper()
	Must(t, m.Update(t.Context(), func(x *txn.Tx) error {
		err := x.Edit(coll, Row(coll, i).Key, func(r *rows.Row) error { r.Labels = labels; return nil })
		if errors.Is(err, fail.NoRow) {
			return nil
		}
		return err
	}))
}

// Rows returns the live rows of a collection, as text by row number.
func Rows(t testing.TB, m *txn.Manager, coll string) map[uint32]string {
	t.Helper()
	out := map[uint32]string{}
	Must(t, m.View(func(g *state.Generation) error {
		st, err := g.Collection(coll)
		if err != nil {
			return err
		}
		var run *state.ColdRun
		for row := range st.Entry.Rows {
			r, live, err := st.ReadRow(row, &run)
			if err != nil {
				return err
			}
			if live {
				out[row] = fmt.Sprintf("%s %v %v %v", r.Key, r.Vector, r.Sparse, r.Labels)
			}
		}
		return nil
	}))
	return out
}

// Check checks the file, and that no object is marked.
func Check(t testing.TB, m *txn.Manager, path string) {
	t.Helper()
	Must(t, m.View(func(g *state.Generation) error {
		if marked := layout.OrphanMarks(g.Tx); len(marked) > 0 {
			t.Errorf("objects %d are marked", marked)
		}
		return check.Run(t.Context(), g, path, func(d fail.Damage) { t.Error(d.Err) })
	}))
}
