package compact

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/txntest"
)

func compactorOf(m *txn.Manager, path string) *Compactor {
	return &Compactor{
		Txn: m, Target: path, Path: path, Store: txntest.Options, Log: slog.New(slog.DiscardHandler),
	}
}

// TestCopyFollows: a copy has the rows of the file after each round of changes, with the same numbers
// where it keeps them.
func TestCopyFollows(t *testing.T) {
	for _, n := range []Numbers{KeepNumbers, DropDeleted} {
		m, path := txntest.Open(t)
		for _, coll := range []string{"dense", "sparse"} {
			txntest.Put(t, m, coll, 0, 20)
			txntest.Delete(t, m, coll, 0, 10)
		}
		name := filepath.Join(t.TempDir(), "copy.anndb")
		f, err := compactorOf(m, path).Copy(t.Context(), name, n)
		if err != nil {
			t.Fatal(err)
		}
		defer f.End()
		if moved := len(f.Moved) > 0; moved != (n == DropDeleted) {
			t.Errorf("numbers %d: renumbered: %v", n, moved)
		}
		copied := txntest.Manage(t, name, f.File)
		for round := range 3 {
			for _, coll := range []string{"dense", "sparse"} {
				txntest.Put(t, m, coll, 15+round, 25+round) // replaces rows and adds others
				txntest.Delete(t, m, coll, 12+round, 14+round)
			}
			if bytes, _, err := f.Follow(t.Context()); err != nil || bytes == 0 {
				t.Fatalf("round %d: %d bytes, %v", round, bytes, err)
			}
		}
		for _, coll := range []string{"dense", "sparse"} {
			want, got := txntest.Rows(t, m, coll), txntest.Rows(t, copied, coll)
			same := maps.Equal(want, got)
			if n == DropDeleted {
				same = slices.Equal(slices.Sorted(maps.Values(want)), slices.Sorted(maps.Values(got)))
			}
			if !same {
				t.Errorf("numbers %d: the copy of %s has %v, want %v", n, coll, got, want)
			}
		}
		txntest.Check(t, copied, name)
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
