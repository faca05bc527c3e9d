package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
)

// TestMain becomes a child process where a test has asked for one, and
// otherwise runs the tests and fails when they leave goroutines behind.
func TestMain(m *testing.M) {
	maintainByDefault = false
	if mode := os.Getenv(envChild); mode != "" {
		os.Exit(childMain(mode))
	}
	goleak.VerifyTestMain(m)
}

// openTemp opens a new database that is closed at the test's end.
func openTemp(t *testing.T, o *Options) *DB {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "test.anndb"), o)
}

// openAt opens a database that is closed at the test's end.
func openAt(t *testing.T, path string, o *Options) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, o)
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestConcurrent has writers, readers, a builder, a compactor and a watcher at
// work on one database at the same time. Every writer owns a range of keys and
// writes them in pairs of equal payload: a reader that ever sees half a batch,
// or a state that changes under a held snapshot, has found a fault.
func TestConcurrent(t *testing.T) {
	const writers, dim = 16, 1024 // 128 rows a chunk
	batches := 20
	if testing.Short() {
		batches = 8
	}
	d := openTemp(t, &Options{NoSync: true})
	ctx := context.Background()
	note := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	note(create(ctx, d, "c", Schema{Dim: dim}))
	note(d.Update(ctx, func(b *Tx) error {
		for i := range 30 {
			if err := b.Collection("c").Put(Row{Key: fmt.Appendf(nil, "base-%d", i), Vector: modelVector(uint64(i), dim)}); err != nil {
				return err
			}
		}
		return nil
	}))
	var stop atomic.Bool
	var writing, others sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range batches {
				note(d.Update(ctx, func(b *Tx) error {
					x := modelVector(uint64(w*1000+i), dim)
					for _, half := range []string{"left", "right"} {
						for _, key := range []string{fmt.Sprintf("w%d-%s-%d", w, half, i), fmt.Sprintf("w%d-%s", w, half)} {
							if err := b.Collection("c").Put(Row{Key: []byte(key), Vector: x, Payload: fmt.Append(nil, i), Labels: []string{half}}); err != nil {
								return err
							}
						}
					}
					return nil
				}))
			}
		})
	}
	loop := func(f func(i int) error) {
		others.Go(func() {
			for i := 0; !stop.Load(); i++ {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	pair := func(s *Snapshot, w int) (string, error) {
		l, err1 := s.Collection("c").Get(fmt.Appendf(nil, "w%d-left", w))
		r, err2 := s.Collection("c").Get(fmt.Appendf(nil, "w%d-right", w))
		if errors.Is(err1, fail.NoRow) && errors.Is(err2, fail.NoRow) {
			return "", nil
		}
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if string(l.Payload) != string(r.Payload) || !slices.Equal(l.Vector, r.Vector) {
			return "", fmt.Errorf("writer %d: half a batch: %q and %q", w, l.Payload, r.Payload)
		}
		return string(l.Payload), nil
	}
	for range 3 {
		loop(func(i int) error {
			return d.View(func(s *Snapshot) error {
				w := rand.N(writers)
				first, err := pair(s, w)
				if err != nil {
					return err
				}
				n, err := s.Collection("c").Count(t.Context(), nil)
				if err != nil {
					return err
				}
				for range 3 {
					q := modelVector(rand.Uint64N(1000), dim)
					hits, _, err := nearest(ctx, s.Collection("c"), Query{Vector: q}, 10, &SearchOptions{Index: Flat})
					if err != nil || len(hits) != 10 {
						return fmt.Errorf("%d hits: %w", len(hits), err)
					}
					if _, err := s.Collection("c").GetRow(hits[0].Row); err != nil {
						return fmt.Errorf("a hit that is no row: %w", err)
					}
					if c, err := s.Collection("c").Info(); err != nil || len(c.Indexes) == 0 {
						continue
					}
					if _, _, err := nearest(ctx, s.Collection("c"), Query{Vector: q}, 10, &SearchOptions{Index: "x", Params: &query.Params{}}); err != nil {
						return err
					}
				}
				again, err := pair(s, w)
				if m, err := s.Collection("c").Count(t.Context(), nil); err != nil || m != n || again != first {
					return fmt.Errorf("a snapshot changed: %d rows then %d, payload %q then %q, %w", n, m, first, again, err)
				}
				return err
			})
		})
	}
	loop(func(i int) error {
		o := &Forest{Learner: "rp", Trees: 2, Depth: 2, LeafNeighbors: 3, ListNeighbors: 2, NoRotation: true, NoSketches: true, NoTune: true, Seed: uint64(i)}
		if _, err := d.Collection("c").Build(ctx, "x", o, &Run{Workers: 1}); err != nil {
			return err
		}
		if i%2 == 1 {
			return d.Collection("c").DropIndex(ctx, "x")
		}
		return nil
	})
	loop(func(int) error {
		err := d.Compact(ctx, nil)
		time.Sleep(20 * time.Millisecond)
		return err
	})
	loop(func(int) error {
		_, err := d.Stats()
		time.Sleep(time.Millisecond)
		return err
	})
	loop(func(int) error {
		time.Sleep(10 * time.Millisecond)
		return mustCheck(d)
	})
	writing.Wait()
	stop.Store(true)
	others.Wait()
	note(d.View(func(s *Snapshot) error {
		if n, err := s.Collection("c").Count(t.Context(), nil); err != nil || n != 30+writers*2*(batches+1) {
			return fmt.Errorf("%d rows, want %d: %w", n, 30+writers*2*(batches+1), err)
		}
		for w := range writers {
			for i := range batches {
				for _, half := range []string{"left", "right"} {
					if _, err := s.Collection("c").Get(fmt.Appendf(nil, "w%d-%s-%d", w, half, i)); err != nil {
						return err
					}
				}
			}
		}
		return nil
	}))
	note(mustCheck(d))
	note(mustLeaveNothing(d))
}

// TestHeldSnapshots: a writer is not blocked by held snapshots, Close is, and
// says so in time; then it can be called again.
func TestHeldSnapshots(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true, CloseTimeout: 50 * time.Millisecond})
	must(t, createKilled(d))
	var held []*Snapshot
	for i := range 20 {
		must(t, putKillBatch(d, i))
		s, err := d.Snapshot()
		must(t, err)
		held = append(held, s)
	}
	if st, err := d.Stats(); err != nil || st.Snapshots != 20 {
		t.Errorf("stats count %d held snapshots, want 20: %v", st.Snapshots, err)
	}
	start := time.Now()
	if err := d.Close(); !errors.Is(err, ErrBusy) {
		t.Errorf("close with held snapshots: %v, want ErrBusy", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("close took %v, its timeout is 50 ms", took)
	}
	for i, s := range held {
		if err := mustHoldBatches(s, i); err != nil {
			t.Errorf("snapshot %d after the refused close: %v", i, err)
		}
	}
	if _, err := d.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("snapshot after the refused close: %v, want ErrClosed", err)
	}
	if err := putKillBatch(d, 20); !errors.Is(err, ErrClosed) {
		t.Errorf("update after the refused close: %v, want ErrClosed", err)
	}
	for _, s := range held {
		s.Release()
		s.Release()
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Errorf("close after the release: %v", err)
		}
	}
	if _, err := held[0].Collection("c").Count(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("use after release: %v, want ErrClosed", err)
	}
}

// TestCloseWhileBusy closes under load: every call ends, with what it asked for
// or with ErrClosed, and what was acknowledged is in the file.
func TestCloseWhileBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.anndb")
	ctx := context.Background()
	for round := range 5 {
		d, err := Open(ctx, path, &Options{NoSync: true})
		must(t, err)
		if _, err := d.Create(ctx, "c", Schema{Dim: 16}); err != nil && !errors.Is(err, ErrExists) {
			t.Fatal(err)
		}
		var acked sync.Map
		var wg sync.WaitGroup
		work := func(f func(i int) error) {
			wg.Go(func() {
				for i := 0; ; i++ {
					if err := f(i); errors.Is(err, ErrClosed) {
						return
					} else if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for w := range 4 {
			work(func(i int) error {
				key := fmt.Sprintf("%d-%d-%d", round, w, i)
				err := d.Update(ctx, func(b *Tx) error {
					return b.Collection("c").Put(Row{Key: []byte(key), Vector: make([]float32, 16)})
				})
				if err == nil {
					acked.Store(key, true)
				}
				return err
			})
		}
		work(func(int) error {
			return d.View(func(s *Snapshot) error {
				_, _, err := nearest(ctx, s.Collection("c"), Query{Vector: make([]float32, 16)}, 1, &SearchOptions{Index: Flat})
				return err
			})
		})
		work(func(i int) error {
			_, err := d.Collection("c").Build(ctx, "x", &Forest{Trees: 1, Depth: 1, LeafNeighbors: 2, NoTune: true}, nil)
			if errors.Is(err, fail.Empty) {
				return nil
			}
			if err == nil && i%2 == 0 {
				err = d.Collection("c").DropIndex(ctx, "x")
			}
			return err
		})
		work(func(int) error { return d.Compact(ctx, nil) })
		work(func(int) error { _, err := d.Stats(); return err })
		time.Sleep(30 * time.Millisecond)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if d, err = Open(ctx, path, nil); err != nil {
			t.Fatal(err)
		}
		err = d.View(func(s *Snapshot) error {
			acked.Range(func(key, _ any) bool {
				if _, err := s.Collection("c").Get([]byte(key.(string))); err != nil {
					t.Error(err)
				}
				return true
			})
			return nil
		})
		must(t, errors.Join(err, mustCheck(d), mustLeaveNothing(d), d.Close()))
	}
}

// TestCancel cancels everything that takes a context at random moments: an
// error of the context leaves the database as it was.
func TestCancel(t *testing.T) {
	d := openTemp(t, &Options{NoSync: true})
	bg := context.Background()
	if _, err := d.Create(bg, "c", Schema{Dim: 64}); err != nil {
		t.Fatal(err)
	}
	m := model{"c": {opts: Schema{Dim: 64, Metric: 1}, rows: map[string]modelRow{}, indexes: map[string]string{}}}
	c := m["c"]
	for i := range 200 {
		c.put(fmt.Sprint(i), modelRow{vec: modelVector(uint64(i), 64)})
	}
	must(t, d.Update(bg, func(b *Tx) error {
		for _, key := range c.byRow() {
			if err := b.Collection("c").Put(Row{Key: []byte(key), Vector: c.rows[key].vec}); err != nil {
				return err
			}
		}
		return nil
	}))
	cancelled := 0
	for i := range 60 {
		ctx, cancel := context.WithTimeout(bg, rand.N(8*time.Millisecond))
		var err error
		done := func() {} // what the call does to the model
		switch i % 6 {
		case 0:
			_, err = d.Collection("c").Build(ctx, "x", &Forest{Trees: 8, Depth: 4, LeafNeighbors: 20, NoTune: true, Members: true}, nil)
			done = func() { c.indexes["x"] = string(forest.KD) }
		case 1:
			err = d.Update(ctx, func(b *Tx) error {
				time.Sleep(rand.N(2 * time.Millisecond))
				return b.Collection("c").Put(Row{Key: []byte("7"), Vector: modelVector(uint64(i), 64)})
			})
			done = func() { c.put("7", modelRow{vec: modelVector(uint64(i), 64)}) }
		case 2:
			err = d.Compact(ctx, nil)
		case 3:
			err = d.Check(ctx, nil, nil)
		case 4:
			var f *os.File
			if f, err = os.Create(filepath.Join(t.TempDir(), "copy")); err == nil {
				_, err = d.Backup(ctx, f)
				err = errors.Join(err, f.Close())
			}
		case 5:
			if c.indexes["x"] != "" {
				err = d.Collection("c").DropIndex(ctx, "x")
				done = func() { delete(c.indexes, "x") }
			}
		}
		cancel()
		switch {
		case err == nil:
			done()
		case errors.Is(err, context.DeadlineExceeded):
			cancelled++
		default:
			t.Errorf("call %d: %v", i, err)
		}
		if err := d.View(func(s *Snapshot) error { return mustEqual(s, m, uint64(i)) }); err != nil {
			t.Fatalf("call %d (cancelled: %v): %v", i, err != nil, err)
		}
	}
	t.Logf("%d of 60 calls were cancelled", cancelled)
	if err := errors.Join(mustCheck(d), mustLeaveNothing(d)); err != nil {
		t.Error(err)
	}
}

// TestCancelWaiting: a write that waits for its turn gives up when its context
// ends, and has changed nothing.
func TestCancelWaiting(t *testing.T) {
	d := openTemp(t, &Options{NoSync: true})
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	release := holdWriter(d) // a writer that takes its time
	errs := make(chan error)
	put := func(b *Tx) error { return b.Collection("c").Put(Row{Key: []byte("k"), Vector: []float32{1}}) }
	go func() { errs <- d.Update(ctx, put) }()
	go func() { errs <- create(ctx, d, "other", Schema{Dim: 1}) }()
	go func() { err := d.Compact(ctx, nil); errs <- err }()
	time.Sleep(10 * time.Millisecond)
	cancel()
	for range 3 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled wait: %v", err)
		}
	}
	release()
	must(t, d.View(func(s *Snapshot) error {
		n, err := s.Collection("c").Count(t.Context(), nil)
		if n != 0 || len(s.Collections()) != 1 {
			t.Errorf("%d rows, collections %v", n, s.Collections())
		}
		return err
	}))
}

// childHold holds a database open until its input ends.
func childHold(path string) error {
	d, err := Open(context.Background(), path, &Options{ReadOnly: os.Getenv("ANNDB_TEST_RO") != ""})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // its end is what counts
	return d.Close()
}

// TestLock: a writer keeps everybody else out, readers keep writers out and
// one another not; in other processes and in this one.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock.anndb")
	must(t, damageDB(path))
	open := func(readOnly bool, want error) {
		t.Helper()
		d, err := Open(t.Context(), path, &Options{ReadOnly: readOnly, Timeout: 20 * time.Millisecond})
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("open, read-only %v: %v, want %v", readOnly, err, want)
		}
		if err == nil {
			if err := errors.Join(mustCheck(d), d.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	for _, ro := range []bool{false, true} {
		c := child(t, "hold", path)
		if ro {
			c.Env = append(c.Env, "ANNDB_TEST_RO=1")
		}
		in, err1 := c.StdinPipe()
		out, err2 := c.StdoutPipe()
		must(t, errors.Join(err1, err2, c.Start()))
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("child: %q, %v", line, err)
		}
		open(false, ErrLocked)
		if ro {
			open(true, nil)
		} else {
			open(true, ErrLocked)
		}
		if err := errors.Join(in.Close(), c.Wait()); err != nil {
			t.Error(err)
		}
		open(false, nil)
	}
	a, err := Open(t.Context(), path, &Options{ReadOnly: true})
	must(t, err)
	open(true, nil)
	open(false, ErrLocked)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	b, err := Open(t.Context(), path, nil)
	must(t, err)
	open(true, ErrLocked)
	open(false, ErrLocked)
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestOpenDuringCompact: an Open that waits for the lock of a file while a compaction
// replaces it must open the new file, not write into the old one, which has no name
// any more.
func TestOpenDuringCompact(t *testing.T) {
	ctx := context.Background()
	a := openTemp(t, &Options{NoSync: true})
	must(t, createKilled(a))
	must(t, putKillBatch(a, 0))
	type opened struct {
		d   *DB
		err error
	}
	second := make(chan opened)
	go func() {
		d, err := Open(ctx, a.Path(), &Options{NoSync: true, Timeout: 30 * time.Second})
		second <- opened{d, err}
	}()
	time.Sleep(50 * time.Millisecond) // it is waiting for the lock now
	must(t, a.Compact(ctx, nil))
	select {
	case o := <-second:
		t.Fatalf("opened beside the writer: %v, %v", o.d, o.err)
	case <-time.After(200 * time.Millisecond):
	}
	must(t, putKillBatch(a, 1))
	must(t, a.Close())
	o := <-second
	if o.err != nil {
		t.Fatal(o.err)
	}
	if err := o.d.View(func(s *Snapshot) error { return mustHoldBatches(s, 1) }); err != nil {
		t.Error(err)
	}
	if err := o.d.Close(); err != nil {
		t.Error(err)
	}
}

// TestVerify flips a bit of a vector and looks at who notices when.
func TestVerify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verify.anndb")
	must(t, damageDB(path))
	ctx := context.Background()
	q := modelVector(8001, 8192)
	ask := func(d *DB) error {
		return d.View(func(s *Snapshot) error {
			_, _, err := nearest(ctx, s.Collection("floats"), Query{Vector: q}, 3, nil)
			return err
		})
	}
	open := func() *DB {
		t.Helper()
		d, err := Open(ctx, path, &Options{NoSync: true})
		must(t, err)
		return d
	}
	touch := func(d *DB) {
		t.Helper()
		must(t, d.Update(ctx, func(b *Tx) error {
			return b.Collection("small").Put(Row{Key: damageKey(5), Vector: make([]float32, 8)})
		}))
	}
	d := open()
	must(t, ask(d))
	flipRow(t, d)
	touch(d)
	if err := ask(d); err != nil { // a block is verified once
		t.Errorf("damage after the first read: %v", err)
	}
	must(t, d.Close())
	d = open()
	for range 2 { // an error must not be forgotten
		if err := ask(d); !errors.Is(err, ErrCorrupt) {
			t.Errorf("damaged file: %v, want ErrCorrupt", err)
		}
	}
	if err := d.Check(ctx, nil, nil); !errors.Is(err, ErrCorrupt) {
		t.Errorf("check: %v, want ErrCorrupt", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// flipRow flips a bit of a sealed row of an open database, through another
// descriptor; the map shows it at once.
func flipRow(t *testing.T, d *DB) {
	t.Helper()
	f, err := os.OpenFile(d.Path(), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	err = viewTx(d, func(tx *bbolt.Tx) error {
		cat, err := layout.ReadCatalog(tx)
		if err != nil {
			return err
		}
		c, err := cat.Find("floats")
		if err != nil {
			return err
		}
		key := codec.Key(c.ID, codec.KindRows, 0)
		v := tx.Bucket(layout.BucketBlocks).Get(key[:])
		at := d.txn.File().Offset(uintptr(unsafe.Pointer(&v[codec.HeaderSize+1000])))
		_, err = f.WriteAt([]byte{v[codec.HeaderSize+1000] ^ 1}, at)
		return err
	})
	must(t, err)
}

// viewTx calls f with the read transaction of the latest state.
func viewTx(d *DB, f func(tx *bbolt.Tx) error) error {
	return d.View(func(s *Snapshot) error { return f(s.gen.Tx) })
}

// holdWriter keeps transactions from being written until release is called.
func holdWriter(d *DB) (release func()) {
	held, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- d.txn.Locked(context.Background(), func() error {
			close(held)
			<-end
			return nil
		})
	}()
	<-held
	return func() {
		close(end)
		<-done
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
