package peek_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/vector"
)

// TestPeek looks at a file next to its writer: the statistics are those of the writer, before and after
// transactions, builds, maintenance and a compaction. A reader has the same free pages.
func TestPeek(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "a.anndb")
	if _, err := db.Peek(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	d, err := dbtest.Open(ctx, path, nil)
	dbtest.Must(t, err)
	put := func(from, to int) func() error {
		return func() error {
			var rows []db.Row
			for i := from; i < to; i++ {
				x := vector.Sparse{Index: []uint32{uint32(i % 7), 9}, Value: []float32{1, 2}}
				rows = append(rows, db.Row{Key: fmt.Append(nil, i), Sparse: x})
			}
			return dbtest.Put(d, "s", rows...)
		}
	}
	for i, step := range []func() error{
		func() error { return dbtest.Create(ctx, d, "s", db.Schema{Sparse: true}) },
		put(0, 300),
		func() error { _, err := d.Collection("s").Build(ctx, "x", nil, nil); return err },
		put(300, 310),
		func() error { _, err := d.Maintain(ctx, 0, nil); return err },
		put(310, 330),
	} {
		dbtest.Must(t, step())
		want, err1 := d.Stats()
		got, err2 := db.Peek(ctx, path)
		dbtest.Must(t, errors.Join(err1, err2))
		want.MapReserve, want.Commits, want.Snapshots, want.OldestSnapshot, want.Maintenance = 0, 0, 0, 0, maintenance.Stats{}
		// Pages of the list of free pages are not counted alike.
		want.FreeBytes, want.LiveBytes, got.FreeBytes, got.LiveBytes = 0, 0, 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after step %d: %+v, want %+v", i, got, want)
		}
	}
	dbtest.Must(t, d.Compact(ctx, nil))
	if got, err := db.Peek(ctx, path); err != nil || len(got.Indexes) != 1 || got.Indexes[0].Rows != 310 || got.Indexes[0].Fresh != 20 {
		t.Errorf("after compaction: %+v, %v", got, err)
	}
	dbtest.Must(t, dbtest.Closed(d, d.Drop(ctx, "s")))
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
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := db.Peek(stopped, path); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	f, err := dbtest.ReadFile(path)
	dbtest.Must(t, err)
	p, _ := f.Find(layout.BucketMeta, layout.CatalogKey)
	dbtest.Flip(t, path, p.At+70)
	if _, err := db.Peek(ctx, path); !errors.Is(err, db.ErrCorrupt) {
		t.Errorf("damaged catalog: %v", err)
	}
}
