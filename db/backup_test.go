package db_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/layout"
)

// TestRestore puts a backup in the place of a database, but no damaged one, not over a file unless asked to,
// and not under a writer. It follows a link, and leaves the file as private as it was.
func TestRestore(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	path, backup, bad := filepath.Join(dir, "db"), filepath.Join(dir, "backup"), filepath.Join(dir, "bad")
	link := filepath.Join(dir, "link")
	row := func(key string) db.Row { return db.Row{Key: []byte(key), Vector: []float32{1}} }
	d, err := dbtest.Open(ctx, path, nil)
	dbtest.Must(t, err)
	dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "c", db.Schema{Dim: 1}), dbtest.Put(d, "c", row("old"))))
	f, err := os.Create(backup)
	dbtest.Must(t, err)
	_, err = d.Backup(ctx, f)
	dbtest.Must(t, errors.Join(err, f.Close(), dbtest.Put(d, "c", row("new"))))
	if err := db.Restore(ctx, backup, path, true); !errors.Is(err, db.ErrLocked) {
		t.Errorf("under a writer: %v", err)
	}
	dbtest.Must(t, d.Close())
	data, err := os.ReadFile(backup)
	dbtest.Must(t, errors.Join(err, os.WriteFile(bad, data, 0o600), os.Chmod(path, 0o640), os.Symlink(path, link)))
	p := dbtest.Block(t, bad, layout.BucketTail, "c", "", codec.KindTail, 0)
	dbtest.Flip(t, bad, p.At+int64(len(p.Value))-20)
	if err := db.Restore(ctx, bad, path, true); !errors.Is(err, db.ErrCorrupt) {
		t.Errorf("a damaged backup: %v", err)
	}
	if err := db.Restore(ctx, backup, path, false); !errors.Is(err, db.ErrExists) {
		t.Errorf("over a file: %v", err)
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if err := db.Restore(stopped, backup, path, true); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	holds := func(what, path string, want int) {
		t.Helper()
		dbtest.WithFile(t, path, func(_ *db.DB, s *db.Snapshot) {
			if n, err := s.Collection("c").Count(ctx, nil); n != want || err != nil {
				t.Errorf("%s: %d rows, want %d, %v", what, n, want, err)
			}
		})
	}
	linked := func(what string) {
		t.Helper()
		l, err1 := os.Lstat(link)
		at, err2 := os.Readlink(link)
		info, err3 := os.Stat(path)
		dbtest.Must(t, errors.Join(err1, err2, err3))
		if l.Mode()&os.ModeSymlink == 0 || at != path || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: link %v to %q, file %v", what, l.Mode(), at, info.Mode())
		}
	}
	holds("after restores that failed", path, 2)
	dbtest.WithFile(t, link, func(d *db.DB, _ *db.Snapshot) {
		dbtest.Must(t, errors.Join(dbtest.Put(d, "c", row("more")), d.Compact(ctx, nil)))
	})
	linked("compact")
	holds("compacted", path, 3)
	for _, to := range []string{link, filepath.Join(dir, "another")} {
		dbtest.Must(t, db.Restore(ctx, backup, to, true))
		holds("restored", to, 1)
	}
	linked("restore")
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
