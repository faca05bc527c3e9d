package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// limited writes batches until one fails, and checks what must then hold: the
// error is ErrNoSpace, the handle refuses writes if a commit was under way and
// goes on reading, and the reopened file holds what was acknowledged.
func limited(path string, o Options) (acked int, failure error, err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, &o)
	if err != nil {
		return 0, nil, err
	}
	if err := createKilled(d); err != nil {
		return 0, nil, errors.Join(err, d.Close())
	}
	for acked = 0; failure == nil; acked++ {
		if acked > 5000 {
			return 0, nil, errors.Join(errors.New("nothing ever failed"), d.Close())
		}
		failure = putKillBatch(d, acked)
	}
	acked--
	err = func() error {
		if !errors.Is(failure, ErrNoSpace) {
			return fmt.Errorf("batch %d: %w, want ErrNoSpace", acked, failure)
		}
		// There are free pages enough for a small write, which is refused all
		// the same when nobody knows what the file holds.
		again := d.Update(ctx, func(b *Tx) error { return b.Collection("c").Delete([]byte("row-0-0")) })
		if errors.Is(failure, ErrUnknownState) && !errors.Is(again, ErrUnknownState) {
			return fmt.Errorf("a write after %w: %w", failure, again)
		}
		return d.View(func(s *Snapshot) error {
			last, err := lastBatch(s)
			if err != nil || last < acked-1 {
				return fmt.Errorf("read after the failure: batch %d of %d, %v", last, acked, err)
			}
			return mustHoldBatches(s, last)
		})
	}()
	return acked, failure, errors.Join(err, d.Close())
}

// survived checks the file after limited, with room again.
func survived(path string, acked int) error {
	d, err := Open(context.Background(), path, nil)
	if err != nil {
		return err
	}
	err = d.View(func(s *Snapshot) error {
		last, err := lastBatch(s)
		if err != nil || last < acked-1 || last > acked {
			return fmt.Errorf("reopened: batch %d, %d were acknowledged, %v", last, acked, err)
		}
		if err := mustHoldBatches(s, last); err != nil {
			return err
		}
		acked = last + 1
		return nil
	})
	if err == nil {
		err = putKillBatch(d, acked)
	}
	return errors.Join(err, mustCheck(d), d.Close())
}

// TestMaxSize fills a file up to Options.MaxSize.
func TestMaxSize(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "full.anndb")
	acked, failure, err := limited(path, Options{NoSync: true, MaxSize: 20 << 20, MapReserve: 1 << 24})
	must(t, err)
	t.Logf("%d batches, then: %v", acked, failure)
	if errors.Is(failure, ErrUnknownState) {
		t.Errorf("the write that was refused: %v", failure)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > 20<<20 {
		t.Errorf("the file has %d bytes: %v", info.Size(), err)
	}
	if err != nil || info.Size() < 17<<20 {
		t.Errorf("the file has %d bytes of %d: %v", info.Size(), 20<<20, err)
	}
	if err := survived(path, acked); err != nil {
		t.Error(err)
	}
}

// TestMaxSizeGoesOn: after a write that was refused the handle goes on: it reads,
// compacts, and has room for writes again.
func TestMaxSizeGoesOn(t *testing.T) {
	t.Parallel()
	d := openTemp(t, &Options{NoSync: true, MaxSize: 8 << 20})
	ctx := t.Context()
	payload := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	put := func(i int) error {
		for j := range payload {
			payload[j] = byte(rng.Uint32())
		}
		return d.Update(ctx, func(b *Tx) error {
			return b.Collection("c").Put(Row{Key: fmt.Appendf(nil, "k%d", i%4), Vector: []float32{float32(i), 1}, Payload: payload})
		})
	}
	if _, err := d.Create(ctx, "c", Schema{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = put(i)
	}
	if !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrUnknownState) {
		t.Fatalf("the write beyond the bound: %v", err)
	}
	must(t, d.Compact(ctx, nil))
	for i := range 10 {
		if err := put(i); err != nil {
			t.Fatalf("a write after the compaction: %v", err)
		}
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// TestLeastMaxSize: a bound below which no row fits is refused, the least one leaves room for rows.
func TestLeastMaxSize(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "x.anndb")
	for _, size := range []int64{-1, 1, 4096, leastMaxSize - 1} {
		if _, err := Open(ctx, path, &Options{MaxSize: size}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d: %v", size, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
	d := openTemp(t, &Options{NoSync: true, MaxSize: leastMaxSize})
	must(t, create(ctx, d, "c", Schema{Dim: 1}))
	for i := range 100 {
		must(t, d.Update(ctx, func(tx *Tx) error {
			return tx.Collection("c").Put(Row{Key: fmt.Append(nil, i), Vector: []float32{1}})
		}))
	}
}
