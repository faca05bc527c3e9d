package txn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/txntest"
	"github.com/anndb/anndb/query"
)

// looping runs functions in goroutines until stop is called, or one fails.
type looping struct {
	t    *testing.T
	end  atomic.Bool
	wait sync.WaitGroup
}

func (l *looping) run(f func(i int) error) {
	l.wait.Go(func() {
		for i := 0; !l.end.Load(); i++ {
			if err := f(i); errors.Is(err, db.ErrClosed) {
				return
			} else if err != nil {
				l.t.Error(err)
				return
			}
		}
	})
}

func (l *looping) stop() {
	l.end.Store(true)
	l.wait.Wait()
}

// TestConcurrent: writers, readers, builds, compactions and checks at the same time. Every writer owns keys and
// writes them in pairs of equal payload: a reader that sees half a transaction, or a state that changes under
// a held snapshot, has found a fault.
func TestConcurrent(t *testing.T) {
	const writers, batches, dim = 8, 10, 1024 // 128 rows a chunk
	d, ctx := dbtest.OpenTemp(t, &db.Options{NoSync: true}), t.Context()
	c, err := d.Create(ctx, "c", db.Schema{Dim: dim})
	dbtest.Must(t, err)
	var rows []db.Row
	for i := range 30 {
		rows = append(rows, db.Row{Key: fmt.Append(nil, "base-", i), Vector: dbtest.Vector(uint64(i), dim)})
	}
	dbtest.Must(t, dbtest.Put(d, "c", rows...))
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range batches {
				var rows []db.Row
				for _, key := range []string{"left", "right", fmt.Sprint("left-", i), fmt.Sprint("right-", i)} {
					rows = append(rows, db.Row{Key: fmt.Append(nil, w, "-", key), Vector: dbtest.Vector(uint64(i), dim), Payload: fmt.Append(nil, i)})
				}
				if err := dbtest.Put(d, "c", rows...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	pair := func(s *db.Snapshot, w int) (string, error) {
		l, err1 := s.Collection("c").Get(fmt.Append(nil, w, "-left"))
		r, err2 := s.Collection("c").Get(fmt.Append(nil, w, "-right"))
		if string(l.Payload) != string(r.Payload) || !errors.Is(err1, db.ErrNotFound) && err1 != nil {
			return "", fmt.Errorf("writer %d: half a transaction: %q and %q, %w", w, l.Payload, r.Payload, errors.Join(err1, err2))
		}
		return string(l.Payload), nil
	}
	others := &looping{t: t}
	for range 2 {
		others.run(func(i int) error {
			return d.View(func(s *db.Snapshot) error {
				w := rand.N(writers)
				first, err1 := pair(s, w)
				n, err2 := s.Collection("c").Count(ctx, nil)
				q := db.Query{Vector: dbtest.Vector(uint64(i), dim)}
				hits, _, err3 := dbtest.Nearest(ctx, s.Collection("c"), q, 10, &db.SearchOptions{Index: db.Flat})
				if err := errors.Join(err1, err2, err3); err != nil || len(hits) != 10 {
					return fmt.Errorf("%d hits: %w", len(hits), err)
				}
				_, err1 = s.Collection("c").GetRow(hits[0].Row)
				if info, err := s.Collection("c").Info(); err == nil && len(info.Indexes) > 0 {
					_, _, err2 = dbtest.Nearest(ctx, s.Collection("c"), q, 10, &db.SearchOptions{Index: "x", Params: &query.Params{}})
				}
				again, err3 := pair(s, w)
				if m, err := s.Collection("c").Count(ctx, nil); err != nil || m != n || again != first {
					return fmt.Errorf("a snapshot changed: %d rows then %d, payload %q then %q, %w", n, m, first, again, err)
				}
				return errors.Join(err1, err2, err3)
			})
		})
	}
	others.run(func(i int) error {
		o := &index.Forest{Learner: "rp", Trees: 2, NoRotation: true, NoSketches: true, NoTune: true, Seed: uint64(i)}
		_, err := c.Build(ctx, "x", o, nil)
		if err == nil && i%2 == 1 {
			err = c.DropIndex(ctx, "x")
		}
		return err
	})
	others.run(func(int) error { return d.Compact(ctx, nil) })
	others.run(func(int) error { _, err := d.Stats(); return errors.Join(err, dbtest.Check(d)) })
	writing.Wait()
	others.stop()
	if n, err := c.Count(ctx, nil); err != nil || n != 30+2*writers*(batches+1) {
		t.Errorf("%d rows, want %d: %v", n, 30+2*writers*(batches+1), err)
	}
	dbtest.Must(t, errors.Join(dbtest.Check(d), dbtest.LeavesNothing(d)))
}

// TestHeldSnapshots: a writer is not blocked by held snapshots. Close is, and reports it in time; then it
// can be called again.
func TestHeldSnapshots(t *testing.T) {
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true, CloseTimeout: 30 * time.Millisecond})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "c", db.Schema{Dim: 1}))
	put := func(i int) error {
		return dbtest.Put(d, "c", db.Row{Key: fmt.Append(nil, i), Vector: []float32{1}})
	}
	var held []*db.Snapshot
	for i := range 20 {
		s, err := d.Snapshot()
		dbtest.Must(t, errors.Join(err, put(i)))
		held = append(held, s)
	}
	if st, err := d.Stats(); err != nil || st.Snapshots != 20 {
		t.Errorf("stats count %d held snapshots, want 20: %v", st.Snapshots, err)
	}
	if err := d.Close(); !errors.Is(err, db.ErrLocked) {
		t.Errorf("close with held snapshots: %v, want ErrLocked", err)
	}
	for i, s := range held {
		if n, err := s.Collection("c").Count(t.Context(), nil); err != nil || n != i {
			t.Errorf("snapshot %d after the refused close has %d rows: %v", i, n, err)
		}
	}
	if _, err := d.Snapshot(); !errors.Is(err, db.ErrClosed) {
		t.Errorf("snapshot after the refused close: %v, want ErrClosed", err)
	}
	if err := put(20); !errors.Is(err, db.ErrClosed) {
		t.Errorf("update after the refused close: %v, want ErrClosed", err)
	}
	for _, s := range held {
		s.Release()
		s.Release()
	}
	dbtest.Must(t, errors.Join(d.Close(), d.Close()))
	if _, err := held[0].Collection("c").Count(t.Context(), nil); !errors.Is(err, db.ErrClosed) {
		t.Errorf("use after release: %v, want ErrClosed", err)
	}
}

// TestCloseWhileBusy closes under load: every call ends, with what it is for or with ErrClosed, and what was
// acknowledged is in the file.
func TestCloseWhileBusy(t *testing.T) {
	path, ctx := filepath.Join(t.TempDir(), "busy.anndb"), t.Context()
	for round := range 3 {
		d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
		dbtest.Must(t, err)
		if err := dbtest.Create(ctx, d, "c", db.Schema{Dim: 16}); err != nil && !errors.Is(err, db.ErrExists) {
			t.Fatal(err)
		}
		dbtest.Must(t, dbtest.Put(d, "c", db.Row{Key: []byte("first"), Vector: make([]float32, 16)}))
		var acked sync.Map
		calls := &looping{t: t}
		for w := range 4 {
			calls.run(func(i int) error {
				key := fmt.Sprint(round, "-", w, "-", i)
				err := dbtest.Put(d, "c", db.Row{Key: []byte(key), Vector: make([]float32, 16)})
				if err == nil {
					acked.Store(key, true)
				}
				return err
			})
		}
		calls.run(func(int) error {
			_, err := d.Collection("c").Search(ctx, db.Query{Vector: make([]float32, 16)}, &db.SearchOptions{Index: db.Flat})
			return err
		})
		calls.run(func(int) error {
			_, err := d.Collection("c").Build(ctx, "x", &index.Forest{Trees: 1, Depth: 1, LeafNeighbors: 2, NoTune: true}, nil)
			return err
		})
		calls.run(func(int) error { return d.Compact(ctx, nil) })
		time.Sleep(30 * time.Millisecond)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		calls.wait.Wait()
		d, err = dbtest.Open(ctx, path, nil)
		dbtest.Must(t, err)
		acked.Range(func(key, _ any) bool {
			if _, err := d.Collection("c").Get([]byte(key.(string))); err != nil {
				t.Error(err)
			}
			return true
		})
		dbtest.Must(t, dbtest.Closed(d, dbtest.Check(d), dbtest.LeavesNothing(d)))
	}
}

// TestCancel cancels everything that takes a context at random moments: an error of the context leaves the
// rows and indexes as they were.
func TestCancel(t *testing.T) {
	d, bg := dbtest.OpenTemp(t, &db.Options{NoSync: true}), context.Background()
	c, err := d.Create(bg, "c", db.Schema{Dim: 64})
	dbtest.Must(t, err)
	var rows []db.Row
	for i := range 200 {
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: dbtest.Vector(uint64(i), 64)})
	}
	dbtest.Must(t, dbtest.Put(d, "c", rows...))
	content := func() string {
		rows, err1 := dbtest.AllRows(d)
		indexes, err2 := c.Indexes()
		dbtest.Must(t, errors.Join(err1, err2))
		for i := range indexes {
			indexes[i].Given, indexes[i].Options = nil, nil // printed as addresses
		}
		return fmt.Sprint(rows, indexes)
	}
	cancelled := 0
	for i := range 60 {
		before := content()
		ctx, cancel := context.WithTimeout(bg, rand.N(8*time.Millisecond))
		var err error
		switch i % 6 {
		case 0:
			_, err = c.Build(ctx, "x", &index.Forest{Trees: 8, LeafNeighbors: 20, NoTune: true, Members: true}, nil)
		case 1:
			err = d.Update(ctx, func(tx *db.Tx) error {
				time.Sleep(rand.N(2 * time.Millisecond))
				return tx.Collection("c").Put(db.Row{Key: []byte("7"), Vector: dbtest.Vector(uint64(i), 64)})
			})
		case 2:
			err = d.Compact(ctx, &db.CompactOptions{Reorder: i%12 == 2})
		case 3:
			err = d.Check(ctx, nil, nil)
		case 4:
			_, err = d.Backup(ctx, io.Discard)
		case 5:
			if infos, _ := c.Indexes(); len(infos) > 0 {
				err = c.DropIndex(ctx, "x")
			}
		}
		cancel()
		switch {
		case err == nil:
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("call %d: %v", i, err)
		default:
			if cancelled++; content() != before {
				t.Fatalf("the cancelled call %d has changed something", i)
			}
		}
	}
	t.Logf("%d of 60 calls were cancelled", cancelled)
	dbtest.Must(t, errors.Join(dbtest.Check(d), dbtest.LeavesNothing(d)))
}

// TestCancelWaiting: writes that wait for their turn end with their context, and have changed nothing.
func TestCancelWaiting(t *testing.T) {
	m, _ := txntest.Open(t)
	held, end := make(chan struct{}), make(chan struct{})
	go func() {
		_ = m.Locked(context.Background(), func() error {
			close(held)
			<-end
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { errs <- txntest.PutIn(ctx, m, "dense", 0, 5) }()
	go func() { errs <- m.Locked(ctx, func() error { return nil }) }()
	time.Sleep(10 * time.Millisecond)
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait: %v", err)
		}
	}
	close(end)
	if rows := txntest.Rows(t, m, "dense"); len(rows) != 0 {
		t.Errorf("rows %v", rows)
	}
}

// BenchmarkGroupCommit commits durable transactions of one row from 16 goroutines. It reports transactions a
// second and transactions a commit.
func BenchmarkGroupCommit(b *testing.B) {
	d, err := dbtest.Open(b.Context(), filepath.Join(b.TempDir(), "db"), nil)
	dbtest.Must(b, err)
	dbtest.Must(b, dbtest.Create(b.Context(), d, "c", db.Schema{Dim: 4}))
	before, err := d.Stats()
	dbtest.Must(b, err)
	b.SetParallelism(8) // on two processors
	var n atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := n.Add(1)
			if err := dbtest.Put(d, "c", db.Row{Key: fmt.Append(nil, i), Vector: []float32{float32(i), 1, 2, 3}}); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	st, err := d.Stats()
	dbtest.Must(b, dbtest.Closed(d, err))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "transactions/s")
	b.ReportMetric(float64(b.N)/float64(st.Commits-before.Commits), "transactions/commit")
}
