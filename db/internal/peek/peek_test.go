package peek_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/peek"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txntest"
)

// TestRead: the catalog, the number and the free pages are those of the latest state of the open file.
func TestRead(t *testing.T) {
	m, path := txntest.Open(t)
	for round := range 5 {
		txntest.Put(t, m, "dense", 10*round, 10*round+20)
		txntest.Delete(t, m, "dense", 10*round, 10*round+5)
		seen, err := peek.Read(t.Context(), path)
		txntest.Must(t, err)
		err = m.View(func(g *state.Generation) error {
			want, err := json.Marshal(g.Catalog)
			if err != nil {
				return err
			}
			if got, err := json.Marshal(seen.Catalog); err != nil || string(got) != string(want) {
				t.Errorf("catalog %s, %v, want %s", got, err, want)
			}
			free, err := g.File.FreePages()
			if seen.Generation != g.Number() || seen.FreeBytes != int64(free)*int64(seen.PageSize) {
				t.Errorf("generation %d, want %d; %d free bytes, want %d pages",
					seen.Generation, g.Number(), seen.FreeBytes, free)
			}
			return err
		})
		txntest.Must(t, err)
	}
}

// TestReadDuringCommits: what is read while transactions commit is one of the committed states.
func TestReadDuringCommits(t *testing.T) {
	m, path := txntest.Open(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			txntest.Put(t, m, "dense", 10*i, 10*i+10) // ten rows in each transaction
		}
	}()
	last := uint64(0)
	for range 100 {
		seen, err := peek.Read(t.Context(), path)
		if errors.Is(err, fail.ErrLocked) {
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		if c := seen.Catalog.Collections[0]; c.Rows%10 != 0 || c.Live != c.Rows || seen.Generation < last {
			t.Errorf("%d of %d rows in generation %d after %d", c.Live, c.Rows, seen.Generation, last)
		}
		last = seen.Generation
	}
	stop()
	<-done
}

// TestReadOther: other files are no databases.
func TestReadOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	txntest.Must(t, os.WriteFile(path, make([]byte, 1<<16), 0o600))
	_, err := peek.Read(t.Context(), path)
	if !errors.Is(err, fail.ErrNotDatabase) && !errors.Is(err, fail.ErrCorrupt) {
		t.Errorf("a file of zeros: %v", err)
	}
	if _, err := peek.Read(t.Context(), path+"-missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}
