package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestEmptyFile: a file of no bytes becomes a database where a file that does not exist would, and stays
// the same file with the same mode.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.anndb")
	dbtest.Must(t, os.WriteFile(path, nil, 0o640))
	before, err := os.Stat(path)
	dbtest.Must(t, err)
	for _, o := range []db.Options{{ReadOnly: true}, {MustExist: true}} {
		if _, err := dbtest.Open(t.Context(), path, &o); !errors.Is(err, db.ErrNotDatabase) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			d, err := dbtest.Open(t.Context(), path, &db.Options{NoSync: true, Timeout: time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			ctx := context.Background()
			if err := dbtest.Create(ctx, d, "c", db.Schema{Dim: 2}); err != nil && !errors.Is(err, db.ErrExists) {
				t.Error(err)
			}
			if err := errors.Join(put1(ctx, d, fmt.Sprint(i)), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	d, err := dbtest.Open(t.Context(), path, &db.Options{ReadOnly: true})
	dbtest.Must(t, err)
	defer d.Close()
	dbtest.Must(t, d.Check(t.Context(), nil, nil))
	if n, err := d.Collection("c").Count(t.Context(), nil); n != 4 || err != nil {
		t.Errorf("%d rows of 4, %v", n, err)
	}
	after, err := os.Stat(path)
	if err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
		t.Errorf("another file, or mode %v: %v", after.Mode(), err)
	}
}

// TestFreeBytes: a reader counts the same free pages as a writer.
func TestFreeBytes(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "a.anndb")
	d, err := dbtest.Open(ctx, path, nil)
	dbtest.Must(t, err)
	dbtest.Must(t, dbtest.Create(ctx, d, "c", db.Schema{Dim: 2}))
	for i := range 50 {
		dbtest.Must(t, put1(ctx, d, fmt.Sprint(i)))
	}
	dbtest.Must(t, dbtest.Closed(d, d.Drop(ctx, "c")))
	var free []int64
	for _, readOnly := range []bool{false, true} {
		d, err := dbtest.Open(ctx, path, &db.Options{ReadOnly: readOnly})
		dbtest.Must(t, err)
		st, err := d.Stats()
		dbtest.Must(t, dbtest.Closed(d, err))
		free = append(free, st.FreeBytes, st.LiveBytes)
	}
	if free[0] == 0 || free[0] != free[2] || free[1] != free[3] {
		t.Errorf("free and live bytes for a writer and a reader: %d", free)
	}
}

// TestEmptyPath: an empty path is an argument that is missing.
func TestEmptyPath(t *testing.T) {
	if _, err := dbtest.Open(t.Context(), "", nil); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}
