package db

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// groupRows writes the rows [from, to), one a batch, from many goroutines.
func groupRows(d *DB, from, to, goroutines int) error {
	var next atomic.Int64
	next.Store(int64(from))
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= to {
					return
				}
				errs[g] = d.Update(context.Background(), func(b *Tx) error {
					return b.Collection("c").Put(Row{Key: fmt.Appendf(nil, "row-%d", i), Vector: []float32{float32(i), 1, 2, 3}})
				})
				if errs[g] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// present reopens a database and counts the rows of groupRows below n that are
// missing.
func present(path string, n int) (missing int, err error) {
	d, err := Open(path, &Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	found := make([]bool, n)
	err = d.View(func(s *Snapshot) error {
		for r, err := range s.Collection("c").Rows() {
			if err != nil {
				return err
			}
			i := int(r.Vector[0])
			if i >= n || string(r.Key) != fmt.Sprint("row-", i) || found[i] {
				return fmt.Errorf("row %q of %g should not be there", r.Key, r.Vector[0])
			}
			found[i] = true
		}
		return nil
	})
	for _, ok := range found {
		if !ok {
			missing++
		}
	}
	return missing, errors.Join(err, d.Close())
}

// BenchmarkGroupCommit writes durable batches of one row from 16 goroutines. It
// reports batches a second and batches a transaction. All are looked for after
// reopening.
func BenchmarkGroupCommit(b *testing.B) {
	path := filepath.Join(b.TempDir(), "db")
	d, err := Open(path, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := d.Create(context.Background(), "c", Schema{Dim: 4}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := groupRows(d, 0, b.N, 16); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(b.N)/float64(d.commits.Load()), "batches/commit")
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	if missing, err := present(path, b.N); err != nil || missing > 0 {
		b.Fatalf("%d of %d batches are missing, %v", missing, b.N, err)
	}
}

// TestGroupCommit writes batches from many goroutines: those that wait share one
// transaction, and every one is there after reopening.
func TestGroupCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(path, &Options{Sync: Off})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Create(context.Background(), "c", Schema{Dim: 4}); err != nil {
		t.Fatal(err)
	}
	// All wait for the first one's transaction.
	d.write <- struct{}{}
	before := d.commits.Load()
	done := make(chan error)
	go func() { done <- groupRows(d, 0, 64, 64) }()
	waitFor(t, "64 batches in line", func() bool {
		d.queueMu.Lock()
		defer d.queueMu.Unlock()
		return len(d.queue) == 64
	})
	<-d.write
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := d.commits.Load() - before; n != 1 {
		t.Errorf("64 waiting batches took %d transactions", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if missing, err := present(path, 64); err != nil || missing > 0 {
		t.Errorf("%d batches are missing, %v", missing, err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestBackPressure stops the writer and lets many batches come: those in memory
// stay within the bound plus what was being put when it was reached; a waiting
// Update can be cancelled; all others are written once the writer goes on.
func TestBackPressure(t *testing.T) {
	const payload, limit, writers = 64 << 10, 1 << 20, 100
	path := filepath.Join(t.TempDir(), "db")
	d, err := Open(path, &Options{Sync: Off, BacklogBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx := context.Background()
	if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	put := func(ctx context.Context, w int) error {
		return d.Update(ctx, func(b *Tx) error {
			for i := range 8 {
				r := Row{Key: fmt.Appendf(nil, "%d-%d", w, i), Vector: []float32{1}, Payload: make([]byte, payload)}
				if err := b.Collection("c").Put(r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	held := func() (bytes int64, moves int) {
		d.backlog.mu.Lock()
		defer d.backlog.mu.Unlock()
		return d.backlog.bytes, d.backlog.moves
	}
	d.write <- struct{}{}
	errs := make(chan error, writers)
	for w := range writers {
		// The first ones fill the backlog before any other comes.
		go func() { errs <- put(ctx, w) }()
		if w < 2 {
			waitFor(t, "a batch in line", func() bool { _, n := held(); return n == w+1 })
		}
	}
	time.Sleep(20 * time.Millisecond)
	if bytes, _ := held(); bytes < limit || bytes > limit+writers*(payload+100) {
		t.Errorf("%d bytes wait, want about %d", bytes, limit)
	}
	short, stop := context.WithTimeout(ctx, 5*time.Millisecond)
	defer stop()
	if err := put(short, writers); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting update after its deadline: %v", err)
	}
	<-d.write
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if bytes, moves := held(); bytes != 0 || moves != 0 {
		t.Errorf("%d bytes of %d batches are left", bytes, moves)
	}
	err = d.View(func(s *Snapshot) error {
		if n, err := s.Collection("c").Count(); err != nil || n != 8*writers {
			t.Errorf("%d rows, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestOutgrown: a batch that outgrows a small reservation of address space must
// not wait for a state that nobody holds any more.
func TestOutgrown(t *testing.T) {
	for _, reserve := range []int64{1 << 18, 1 << 20, 1 << 23} {
		d := openTemp(t, &Options{Sync: Off, MapReserve: reserve})
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
			t.Fatal(err)
		}
		for round := range 4 {
			done := make(chan error, 1)
			go func() {
				done <- d.Update(ctx, func(b *Tx) error {
					for i := range 6 {
						r := Row{Key: fmt.Appendf(nil, "%d-%d", round, i), Vector: []float32{1}, Payload: make([]byte, MaxPayload)}
						if _, err := cryptorand.Read(r.Payload); err != nil {
							return err
						}
						if err := b.Collection("c").Put(r); err != nil {
							return err
						}
					}
					return nil
				})
			}()
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			case <-ctx.Done():
				t.Fatalf("reserve %d, round %d: the batch hangs", reserve, round)
			}
			if err := d.View(func(s *Snapshot) error { _, err := s.Collection("c").Count(); return err }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBackPressureNested fills a batch inside another one that is larger than
// the bound: waiting for room would be waiting for itself.
func TestBackPressureNested(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "db"), &Options{Sync: Off, BacklogBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx := context.Background()
	if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
		t.Fatal(err)
	}
	err = d.Update(ctx, func(b *Tx) error {
		if err := b.Collection("c").Put(Row{Key: []byte("outer"), Vector: []float32{1}}); err != nil {
			return err
		}
		return d.Update(ctx, func(b *Tx) error {
			return b.Collection("c").Put(Row{Key: []byte("inner"), Vector: []float32{1}})
		})
	})
	if err != nil {
		t.Error(err)
	}
}
