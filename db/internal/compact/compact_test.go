package compact

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
)

func compactorOf(m *txn.Manager, path string) *Compactor {
	return &Compactor{
		Txn: m, Target: path, Path: path, Store: txntest.Options, Log: slog.New(slog.DiscardHandler),
	}
}

// TestCopyFollows: a copy has the rows of the file after each round of changes, with the same numbers
// in collections that it does not renumber.
func TestCopyFollows(t *testing.T) {
	for _, n := range []Numbers{KeepNumbers, DropDeleted, NearOrder} {
		m, path := txntest.Open(t)
		m.File().Samples = sample.New(sample.Default)
		txntest.Put(t, m, "dense", 0, 40)
		txntest.Put(t, m, "sparse", 0, 40)
		txntest.Delete(t, m, "dense", 0, 20)
		name := filepath.Join(t.TempDir(), "copy.anndb")
		f, err := compactorOf(m, path).Copy(t.Context(), name, n)
		txntest.Must(t, err)
		defer f.End()
		if kept := len(f.Kept()); kept+len(f.Moved) != 2 || (kept == 2) != (n == KeepNumbers) {
			t.Errorf("numbers %d: %d collections keep their numbers, %d do not", n, kept, len(f.Moved))
		}
		copied := txntest.Manage(t, name, f.File)
		rng := rand.New(rand.NewPCG(uint64(n), 4))
		for round := range 4 {
			for _, coll := range []string{"dense", "sparse"} {
				for range 20 { // rows that are replaced, changed and deleted several times, or never in the copy
					i := rng.IntN(60)
					switch rng.IntN(3) {
					case 0:
						txntest.Put(t, m, coll, i, i+1+rng.IntN(3))
					case 1:
						txntest.Delete(t, m, coll, i, i+1)
					default:
						txntest.Relabel(t, m, coll, i, fmt.Sprint("round-", round))
					}
				}
			}
			for _, want := range []bool{true, false} {
				if bytes, _, err := f.Follow(t.Context()); err != nil || (bytes > 0) != want {
					t.Fatalf("round %d: %d bytes, %v", round, bytes, err)
				}
			}
			// The changes did not come through this manager. A transaction makes it see them.
			txntest.Must(t, copied.Exclusive(t.Context(), func(*bbolt.Tx, *layout.Catalog) error { return nil }))
			for _, coll := range []string{"dense", "sparse"} {
				want, got := txntest.Rows(t, m, coll), txntest.Rows(t, copied, coll)
				same := maps.Equal(want, got)
				if coll == "dense" && n != KeepNumbers {
					same = slices.Equal(slices.Sorted(maps.Values(want)), slices.Sorted(maps.Values(got)))
				}
				if !same {
					t.Errorf("numbers %d, round %d: the copy of %s has %v, want %v", n, round, coll, got, want)
				}
			}
		}
		txntest.Check(t, copied, name)
		for _, x := range f.Moved {
			if m.File().Samples.Of(x.to, nil) != nil {
				t.Errorf("numbers %d: the file has a sample of collection %d of the copy", n, x.to)
			}
		}
	}
}

// TestRun: a compaction replaces the file and leaves nothing next to it; one that is cancelled
// changes nothing.
func TestRun(t *testing.T) {
	m, path := txntest.Open(t)
	txntest.Put(t, m, "dense", 0, 300)
	txntest.Delete(t, m, "dense", 0, 200)
	rows := txntest.Rows(t, m, "dense")
	c, before := compactorOf(m, path), m.File()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Run(ctx, DropDeleted); !errors.Is(err, context.Canceled) || m.File() != before {
		t.Errorf("a cancelled compaction: %v", err)
	}
	st, err := c.Run(t.Context(), DropDeleted)
	if err != nil || m.File() == before || st.After <= 0 || st.After > st.Before {
		t.Errorf("%+v, %v", st, err)
	}
	now := txntest.Rows(t, m, "dense")
	for row := range now {
		if row >= 100 {
			t.Errorf("row %d of 100 rows", row)
		}
	}
	if want, got := slices.Sorted(maps.Values(rows)), slices.Sorted(maps.Values(now)); !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	txntest.Put(t, m, "dense", 300, 310) // goes to the new file
	txntest.Check(t, m, path)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}
