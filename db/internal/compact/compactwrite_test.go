package compact_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/store"
)

// awaited is a context that closes asked when a call begins to wait for it.
type awaited struct {
	context.Context
	once  *sync.Once
	asked chan struct{}
}

func (a awaited) Done() <-chan struct{} {
	a.once.Do(func() { close(a.asked) })
	return a.Context.Done()
}

// TestWriteDuringReplacement: a write that begins after a compaction has renamed its copy, and before the
// handle uses the copy, waits for the compaction. It fails if the path leads to another file afterwards.
func TestWriteDuringReplacement(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace open files")
	}
	ctx := t.Context()
	writes := map[string]func(ctx context.Context, d *db.DB) error{
		"update": func(ctx context.Context, d *db.DB) error {
			return d.Update(ctx, func(b *db.Tx) error {
				return b.Collection("c").Put(db.Row{Key: []byte("new"), Vector: []float32{1}})
			})
		},
		"create":  func(ctx context.Context, d *db.DB) error { return dbtest.Create(ctx, d, "e", db.Schema{Dim: 1}) },
		"build":   func(ctx context.Context, d *db.DB) error { return built(d.Collection("c").Build(ctx, "x", nil, nil)) },
		"compact": func(ctx context.Context, d *db.DB) error { return d.Compact(ctx, nil) },
	}
	for name, write := range writes {
		for _, other := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "a.anndb")
			d, err := dbtest.Open(ctx, path, &db.Options{NoSync: true})
			dbtest.Must(t, errors.Join(err, dbtest.Create(ctx, d, "c", db.Schema{Dim: 1}), writes["update"](ctx, d)))
			done := make(chan error, 1)
			restore := onSyncDir(func() {
				waiting := awaited{ctx, &sync.Once{}, make(chan struct{})}
				go func() { done <- write(waiting, d) }()
				select {
				case <-waiting.asked:
				case err := <-done:
					done <- err // it has not waited
				}
				if other {
					dbtest.Must(t, os.Rename(path, path+".old"))
				}
			})
			err = d.Compact(ctx, nil)
			written := <-done
			restore() // nothing compacts any more
			dbtest.Must(t, err)
			switch err := written; {
			case !other && err != nil:
				t.Errorf("%s: %v", name, err)
			case other && (!errors.Is(err, db.ErrReplaced) || errors.Is(err, db.ErrUnknownState)):
				t.Errorf("%s to a file without a name: %v", name, err)
			}
			dbtest.Must(t, d.Close())
		}
	}
}

func built(_ index.Info, err error) error { return err }

// onSyncDir calls f once, when the next directory is to be made durable, until restore is called.
func onSyncDir(f func()) (restore func()) {
	old, once := store.SyncDir, sync.Once{}
	store.SyncDir = func(dir string) error {
		once.Do(f)
		return old(dir)
	}
	return func() { store.SyncDir = old }
}
