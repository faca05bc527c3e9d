package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/vector"
)

// TestPeek looks at a file beside its writer: what it tells is what the writer
// does of the same state, before and after batches, builds, maintenance and
// compaction.
func TestPeek(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "a.anndb")
	if _, err := Peek(ctx, path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	d, err := Open(ctx, path, nil)
	must(t, err)
	defer d.Close()
	put := func(from, to int) func() error {
		return func() error {
			return d.Update(ctx, func(b *Tx) error {
				for i := from; i < to; i++ {
					x := vector.Sparse{Index: []uint32{uint32(i % 7), 9}, Value: []float32{1, 2}}
					if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, i), Sparse: x}); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	steps := []func() error{
		func() error { return create(ctx, d, "s", Schema{Sparse: true}) },
		put(0, 300),
		func() error { _, err := d.Collection("s").Build(ctx, "x", nil, nil); return err },
		put(300, 310),
		func() error { _, err := d.Maintain(ctx, 0, nil); return err },
		put(310, 330),
	}
	for i, step := range steps {
		must(t, step())
		want, err1 := d.Stats()
		got, err2 := Peek(ctx, path)
		must(t, errors.Join(err1, err2))
		want.MapReserve, want.Commits, want.Snapshots, want.OldestSnapshot, want.Maintenance = 0, 0, 0, 0, MaintenanceStats{}
		// Pages of free pages' list are not counted alike.
		want.FreeBytes, want.LiveBytes, got.FreeBytes, got.LiveBytes = 0, 0, 0, 0
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after step %d: %+v, want %+v", i, got, want)
		}
	}
	must(t, d.Compact(ctx, nil))
	if got, err := Peek(ctx, path); err != nil || len(got.Indexes) != 1 || got.Indexes[0].Rows != 310 || got.Indexes[0].Fresh != 20 {
		t.Errorf("after compaction: %+v, %v", got, err)
	}
	data, err := os.ReadFile(path)
	must(t, err)
	w := surveyed(t, path)
	data[w.blocks[string(layout.BucketMeta)+string(layout.CatalogKey[:])].at+70] ^= 1
	if _, err := Peek(ctx, write(t, data)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged catalog: %v", err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := Peek(stopped, path); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestPeekBesideCommits looks again and again while batches are written and
// indexes maintained: every look is at a state that was committed, each at the
// same or a later one.
func TestPeekBesideCommits(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d, err := Open(ctx, path, &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	// Both collections get the same rows in a batch.
	put := func(i int) error {
		return d.Update(ctx, func(b *Tx) error {
			row := Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{uint32(i % 50)}, Value: []float32{1}}}
			return errors.Join(b.Collection("a").Put(row), b.Collection("b").Put(row))
		})
	}
	err = errorsOf(
		func() error { return create(ctx, d, "a", Schema{Sparse: true}) },
		func() error { return create(ctx, d, "b", Schema{Sparse: true}) },
		func() error { return put(0) },
		func() error { _, err := d.Collection("a").Build(ctx, "x", nil, nil); return err },
	)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		for i := 1; i < 300; i++ {
			err := put(i)
			if err == nil && i%10 == 0 {
				_, err = d.Maintain(ctx, 0, nil)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	looks, last := 0, Stats{}
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Fatal(err)
			}
		default:
		}
		st, err := Peek(ctx, path)
		if errors.Is(err, fail.Changing) {
			continue
		}
		must(t, err)
		looks++
		x := st.Indexes[0]
		if st.Generation < last.Generation || st.Collections[0].Rows != st.Collections[1].Rows || x.Error != "" || x.Rows+x.Fresh != st.Collections[0].Rows {
			t.Fatalf("%+v", st)
		}
		last = st
	}
	if looks == 0 || last.Collections[0].Rows != 300 {
		t.Errorf("%d looks, the last at %+v", looks, last)
	}
}

// TestFreePagesReadOnly opens a file with free pages for reading: they are counted
// as they are for a writer, though bbolt does not load their list then.
func TestFreePagesReadOnly(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "a.anndb")
	stats := func(o *Options, work func(d *DB)) Stats {
		t.Helper()
		d, err := Open(ctx, path, o)
		must(t, err)
		defer d.Close()
		if work != nil {
			work(d)
		}
		st, err := d.Stats()
		must(t, err)
		return st
	}
	stats(nil, func(d *DB) {
		if _, err := d.Create(ctx, "v", Schema{Dim: 1024, Metric: vector.L2}); err != nil {
			t.Fatal(err)
		}
		err := d.Update(ctx, func(b *Tx) error {
			for i := range 200 {
				if err := b.Collection("v").Put(Row{Key: fmt.Append(nil, i), Vector: make([]float32, 1024)}); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = d.Drop(ctx, "v")
		}
		must(t, err)
	})
	want, got := stats(nil, nil), stats(&Options{ReadOnly: true}, nil)
	if want.FreeBytes == 0 || got.FreeBytes != want.FreeBytes || got.LiveBytes != want.LiveBytes {
		t.Errorf("%d bytes free for a reader, %d for a writer", got.FreeBytes, want.FreeBytes)
	}
}
