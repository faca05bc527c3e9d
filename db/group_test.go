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

	"github.com/anndb/anndb/db/internal/rows"
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
	d, err := Open(context.Background(), path, &Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	found := make([]bool, n)
	err = d.View(func(s *Snapshot) error {
		for r, err := range s.Collection("c").Rows(context.Background(), nil) {
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
	d, err := Open(b.Context(), path, nil)
	must(b, err)
	if _, err := d.Create(context.Background(), "c", Schema{Dim: 4}); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	must(b, groupRows(d, 0, b.N, 16))
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "batches/s")
	b.ReportMetric(float64(b.N)/float64(d.txn.Commits()), "batches/commit")
	must(b, d.Close())
	if missing, err := present(path, b.N); err != nil || missing > 0 {
		b.Fatalf("%d of %d batches are missing, %v", missing, b.N, err)
	}
}

// TestOutgrown: a batch that outgrows a small reservation of address space must
// not wait for a state that nobody holds any more.
func TestOutgrown(t *testing.T) {
	for _, reserve := range []int64{1 << 18, 1 << 20, 1 << 23} {
		d := openTemp(t, &Options{NoSync: true, MapReserve: reserve})
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		if _, err := d.Create(ctx, "c", Schema{Dim: 1}); err != nil {
			t.Fatal(err)
		}
		for round := range 4 {
			done := make(chan error, 1)
			go func() {
				done <- d.Update(ctx, func(b *Tx) error {
					for i := range 6 {
						r := Row{Key: fmt.Appendf(nil, "%d-%d", round, i), Vector: []float32{1}, Payload: make([]byte, rows.MaxPayload)}
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
				must(t, err)
			case <-ctx.Done():
				t.Fatalf("reserve %d, round %d: the batch hangs", reserve, round)
			}
			must(t, d.View(func(s *Snapshot) error { _, err := s.Collection("c").Count(t.Context(), nil); return err }))
		}
	}
}
