package txn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/vector"
)

// openTemp returns a manager of a new file with the dense collection "c" of one coordinate.
func openTemp(t *testing.T, o Options) *Manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	so := store.Options{
		NoSync: true, Timeout: time.Second, Reserve: 1 << 32, Logger: slog.New(slog.DiscardHandler),
		Layout: &layout.OfFile,
	}
	if err := store.Create(path, so, layout.Init); err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(t.Context(), path, so)
	if err != nil {
		t.Fatal(err)
	}
	if o.Backlog == 0 {
		o.Backlog = 1 << 20
	}
	m := New(path, state.NewFile(f, func(string) kind.Kind { return nil }), o)
	t.Cleanup(func() {
		m.BeginClose()
		if err := m.Close(time.After(time.Second), nil); err != nil {
			t.Error(err)
		}
	})
	err = m.Restructure(t.Context(), func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		cat.Object++
		cat.Collections = append(cat.Collections, &layout.Collection{
			ID: cat.Object, Name: "c", Dim: 1, Metric: vector.L2,
		})
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// put adds a row to a transaction.
func put(t *Tx, key string, payload int) error {
	return t.Add("c", func(*layout.Collection) (apply.Op, error) {
		r := rows.Row{Key: []byte(key), Vector: []float32{1}, Cold: rows.Cold{Payload: make([]byte, payload)}}
		return apply.Op{Row: r, Bytes: payload + len(key)}, nil
	})
}

// live returns the number of rows of the latest state.
func live(t *testing.T, m *Manager) (n int) {
	t.Helper()
	err := m.View(func(g *state.Generation) error {
		n = int(g.Collections["c"].Entry.Live)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestGroupCommit fills transactions in many goroutines: those that wait share one commit.
func TestGroupCommit(t *testing.T) {
	m := openTemp(t, Options{})
	m.write <- struct{}{} // all wait for this writer
	before := m.Commits()
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = m.Update(context.Background(), func(x *Tx) error { return put(x, fmt.Sprint(i), 0) })
		})
	}
	waitFor(t, "64 waiting transactions", func() bool {
		m.queueMu.Lock()
		defer m.queueMu.Unlock()
		return len(m.queue) == 64
	})
	<-m.write
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if n := m.Commits() - before; n != 1 {
		t.Errorf("64 waiting transactions took %d commits", n)
	}
	if n := live(t, m); n != 64 {
		t.Errorf("%d rows", n)
	}
}

// TestFailsAlone: a transaction that cannot be applied does not fail the others of its commit.
func TestFailsAlone(t *testing.T) {
	m := openTemp(t, Options{})
	m.write <- struct{}{}
	before := m.Commits()
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			errs[i] = m.Update(context.Background(), func(x *Tx) error {
				return x.Add("c", func(*layout.Collection) (apply.Op, error) {
					r := rows.Row{Key: []byte("same"), Vector: []float32{1}}
					return apply.Op{Row: r, Insert: true}, nil
				})
			})
		})
	}
	waitFor(t, "3 waiting transactions", func() bool {
		m.queueMu.Lock()
		defer m.queueMu.Unlock()
		return len(m.queue) == 3
	})
	<-m.write
	wg.Wait()
	exist := 0
	for _, err := range errs {
		if errors.Is(err, fail.ErrExists) {
			exist++
		} else if err != nil {
			t.Error(err)
		}
	}
	if n := m.Commits() - before; n != 1 || exist != 2 || live(t, m) != 1 {
		t.Errorf("%d commits, %d of 3 insertions of a key fail, %d rows", n, exist, live(t, m))
	}
}

// TestBackPressure stops the writer and lets many transactions come: those in memory stay within
// the bound plus what was being put when it was reached; a waiting one can be cancelled; all others
// are written once the writer continues.
func TestBackPressure(t *testing.T) {
	const payload, limit, writers = 64 << 10, 1 << 20, 100
	m := openTemp(t, Options{Backlog: limit})
	ctx := context.Background()
	update := func(ctx context.Context, w int) error {
		return m.Update(ctx, func(x *Tx) error {
			for i := range 8 {
				if err := put(x, fmt.Sprintf("%d-%d", w, i), payload); err != nil {
					return err
				}
			}
			return nil
		})
	}
	held := func() (bytes int64, moves int) {
		m.backlog.mu.Lock()
		defer m.backlog.mu.Unlock()
		return m.backlog.bytes, m.backlog.moves
	}
	m.write <- struct{}{}
	errs := make(chan error, writers)
	for w := range writers {
		// The first ones fill the backlog before any other comes.
		go func() { errs <- update(ctx, w) }()
		if w < 2 {
			waitFor(t, "a waiting transaction", func() bool { _, n := held(); return n == w+1 })
		}
	}
	time.Sleep(20 * time.Millisecond)
	if bytes, _ := held(); bytes < limit || bytes > limit+writers*(payload+100) {
		t.Errorf("%d bytes wait, want about %d", bytes, limit)
	}
	short, stop := context.WithTimeout(ctx, 5*time.Millisecond)
	defer stop()
	if err := update(short, writers); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting transaction after its deadline: %v", err)
	}
	<-m.write
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if bytes, moves := held(); bytes != 0 || moves != 0 {
		t.Errorf("%d bytes of %d transactions are left", bytes, moves)
	}
	if n := live(t, m); n != 8*writers {
		t.Errorf("%d rows", n)
	}
}

// TestBackPressureNested fills a transaction inside another one that is larger than the bound:
// waiting for room would be waiting for itself.
func TestBackPressureNested(t *testing.T) {
	m := openTemp(t, Options{Backlog: 1})
	err := m.Update(t.Context(), func(x *Tx) error {
		if err := put(x, "outer", 10); err != nil {
			return err
		}
		return m.Update(t.Context(), func(x *Tx) error { return put(x, "inner", 10) })
	})
	if err != nil || live(t, m) != 2 {
		t.Errorf("%d rows, %v", live(t, m), err)
	}
}

// TestHold: all shares exclude one share, a call that has to wait reports it, and closing cancels
// the holders and the waiting.
func TestHold(t *testing.T) {
	m := openTemp(t, Options{})
	waits := make(chan struct{}, 2)
	m.OnWait = func() { waits <- struct{}{} }
	ctx, release, err := m.Hold(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok := m.TryHold(t.Context(), AllShares); ok {
		t.Fatal("all shares are free while one is held")
	}
	waiting := make(chan error)
	go func() {
		_, _, err := m.Hold(t.Context(), AllShares)
		waiting <- err
	}()
	<-waits
	m.BeginClose()
	<-ctx.Done()
	err = ctx.Err()
	if release(&err); !errors.Is(err, fail.ErrClosed) {
		t.Errorf("the holder: %v", err)
	}
	if err := <-waiting; err != nil && !errors.Is(err, fail.ErrClosed) {
		t.Errorf("the waiting: %v", err)
	}
	if err := m.Writable(t.Context()); !errors.Is(err, fail.ErrClosed) {
		t.Errorf("a write after closing began: %v", err)
	}
}

// TestReplacedDuringCommit: a commit to a file that another one has replaced meanwhile is not
// acknowledged, and none follows.
func TestReplacedDuringCommit(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	m := openTemp(t, Options{})
	path := m.path
	err := m.Exclusive(t.Context(), func(tx *bbolt.Tx, _ *layout.Catalog) error {
		tx.OnCommit(func() {
			if err := os.Rename(path, path+".old"); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if !errors.Is(err, fail.ErrReplaced) || !errors.Is(err, fail.ErrUnknownState) {
		t.Errorf("the commit: %v", err)
	}
	if err := os.Rename(path+".old", path); err != nil {
		t.Fatal(err)
	}
	if err := m.Writable(t.Context()); !errors.Is(err, fail.ErrUnknownState) {
		t.Errorf("the next one: %v", err)
	}
}

// TestPanicInCommit: nothing is written after a panic in a commit. The file would lack pages that the
// transaction had taken from the list of free pages, and could not be opened.
func TestPanicInCommit(t *testing.T) {
	m := openTemp(t, Options{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		_ = m.Exclusive(t.Context(), func(tx *bbolt.Tx, _ *layout.Catalog) error {
			tx.OnCommit(func() { panic("in the commit") })
			return nil
		})
	}()
	if err := m.Writable(t.Context()); !errors.Is(err, fail.ErrUnknownState) {
		t.Errorf("the next write: %v", err)
	}
	if err := m.Sweep([]uint64{1}); !errors.Is(err, fail.ErrUnknownState) {
		t.Errorf("removing an object: %v", err)
	}
}
