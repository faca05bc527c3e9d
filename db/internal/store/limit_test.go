package store_test

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rescue"
)

// random returns a row whose payload does not compress.
func random(key string, n int) db.Row {
	r := db.Row{Key: []byte(key), Vector: []float32{1}, Payload: make([]byte, n)}
	_, _ = cryptorand.Read(r.Payload)
	return r
}

// TestMaxSize: a write beyond the bound is refused, and leaves the file and the handle as they were. A
// compaction makes room again.
func TestMaxSize(t *testing.T) {
	const size = 8 << 20
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true, MaxSize: size, MapReserve: 1 << 24})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 1}))
	acked, failure := 0, error(nil)
	for ; failure == nil && acked < 1000; acked++ {
		failure = dbtest.Put(d, "c", random(fmt.Sprint(acked), 1<<16))
	}
	acked-- // the last one
	if !errors.Is(failure, db.ErrNoSpace) || errors.Is(failure, db.ErrUnknownState) {
		t.Fatalf("the write beyond the bound: %v", failure)
	}
	info, err := os.Stat(d.Path())
	if n, err2 := d.Collection("c").Count(t.Context(), nil); errors.Join(err, err2) != nil || info.Size() > size || info.Size() < size*3/4 || n != acked {
		t.Errorf("%d bytes, %d rows, want %d: %v", info.Size(), n, acked, errors.Join(err, err2))
	}
	for i := range acked / 2 {
		dbtest.Must(t, dbtest.Delete(d, "c", fmt.Sprint(i)))
	}
	dbtest.Must(t, d.Compact(t.Context(), nil))
	for i := range 10 {
		dbtest.Must(t, dbtest.Put(d, "c", random(fmt.Sprint("new ", i), 1<<16)))
	}
	dbtest.Must(t, dbtest.Check(d))
}

// TestLeastMaxSize: a bound below which no row fits is refused, the least one leaves room for rows.
func TestLeastMaxSize(t *testing.T) {
	const least = 2 << 20
	path := filepath.Join(t.TempDir(), "x.anndb")
	for _, size := range []int64{-1, 1, 4096, least - 1} {
		if _, err := dbtest.Open(t.Context(), path, &db.Options{MaxSize: size}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%d: %v", size, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true, MaxSize: least})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 1}))
	for i := range 100 {
		dbtest.Must(t, dbtest.Put(d, "c", db.Row{Key: fmt.Append(nil, i), Vector: []float32{1}}))
	}
}

// TestOutgrown: a transaction that outgrows a small reservation of address space does not wait for a state
// that no reader holds.
func TestOutgrown(t *testing.T) {
	for _, reserve := range []int64{1 << 18, 1 << 20, 1 << 23} {
		d := dbtest.OpenTemp(t, &db.Options{NoSync: true, MapReserve: reserve})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		dbtest.Must(t, dbtest.Create(ctx, d, "c", db.Schema{Dim: 1}))
		for round := range 4 {
			done := make(chan error, 1)
			go func() {
				var rows []db.Row
				for i := range 6 {
					rows = append(rows, random(fmt.Sprint(round, "-", i), 1<<20))
				}
				done <- dbtest.Put(d, "c", rows...)
			}()
			select {
			case err := <-done:
				dbtest.Must(t, err)
			case <-ctx.Done():
				t.Fatalf("reserve %d, round %d: the transaction hangs", reserve, round)
			}
			_, err := d.Collection("c").Count(ctx, nil)
			dbtest.Must(t, err)
		}
	}
}

// TestLock: a writer excludes every other handle, readers exclude writers only. An Open that waits for the
// lock while a compaction replaces the file opens the new one.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.anndb")
	open := func(o db.Options, want error) *db.DB {
		t.Helper()
		if o.Timeout == 0 {
			o.Timeout = 20 * time.Millisecond
		}
		d, err := dbtest.Open(t.Context(), path, &o)
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("open, read-only %v: %v, want %v", o.ReadOnly, err, want)
		}
		return d
	}
	writer := open(db.Options{NoSync: true}, nil)
	dbtest.Must(t, errors.Join(dbtest.Create(t.Context(), writer, "c", db.Schema{Dim: 1}), dbtest.Put(writer, "c", random("a", 1))))
	open(db.Options{}, db.ErrLocked)
	open(db.Options{ReadOnly: true}, db.ErrLocked)
	if _, err := rescue.Salvage(t.Context(), path, path+".saved", nil); !errors.Is(err, db.ErrLocked) {
		t.Errorf("salvage under a writer: %v", err)
	}
	ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := dbtest.Open(ended, path, &db.Options{Timeout: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("until the context ends: %v", err)
	}
	second := make(chan *db.DB)
	go func() { second <- open(db.Options{NoSync: true, Timeout: 30 * time.Second}, nil) }()
	time.Sleep(20 * time.Millisecond) // it is waiting for the lock now
	dbtest.Must(t, writer.Compact(t.Context(), nil))
	select {
	case d := <-second:
		t.Fatalf("opened concurrently with the writer: %v", d)
	case <-time.After(50 * time.Millisecond):
	}
	dbtest.Must(t, errors.Join(dbtest.Put(writer, "c", random("b", 1)), writer.Close()))
	d := <-second
	if n, err := d.Collection("c").Count(t.Context(), nil); n != 2 || err != nil {
		t.Errorf("the new file has %d rows, %v", n, err)
	}
	dbtest.Must(t, d.Close())
	reader := open(db.Options{ReadOnly: true}, nil)
	other := open(db.Options{ReadOnly: true}, nil)
	open(db.Options{}, db.ErrLocked)
	if _, err := rescue.Salvage(t.Context(), path, path+".saved", nil); err != nil {
		t.Errorf("salvage next to readers: %v", err)
	}
	dbtest.Must(t, errors.Join(reader.Close(), other.Close()))
}
