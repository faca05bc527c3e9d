package store_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// copyFile makes a copy of a database that is open and idle.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	dbtest.Must(t, err)
	dbtest.Must(t, os.WriteFile(to, data, 0o600))
}

// put1 writes a row to the collection "c".
func put1(ctx context.Context, d *db.DB, key string) error {
	return d.Update(ctx, func(w *db.Tx) error {
		return w.Collection("c").Put(db.Row{Key: []byte(key), Vector: []float32{1, 2}})
	})
}

// replacements take the path of an open database from it; undo gives it back.
var replacements = map[string]func(t *testing.T, path string) (undo func()){
	"another file renamed over it": func(t *testing.T, path string) func() {
		copyFile(t, path, path+".new")
		dbtest.Must(t, os.Link(path, path+".old"))
		dbtest.Must(t, os.Rename(path+".new", path))
		return func() { dbtest.Must(t, os.Rename(path+".old", path)) }
	},
	"moved": func(t *testing.T, path string) func() {
		dbtest.Must(t, os.Rename(path, path+".old"))
		return func() { dbtest.Must(t, os.Rename(path+".old", path)) }
	},
	"its folder moved": func(t *testing.T, path string) func() {
		dir := filepath.Dir(path)
		dbtest.Must(t, os.Rename(dir, dir+".old"))
		return func() { dbtest.Must(t, os.Rename(dir+".old", dir)) }
	},
	"a link to it changed": func(t *testing.T, path string) func() {
		real, err := filepath.EvalSymlinks(path)
		dbtest.Must(t, err)
		copyFile(t, path, real+".new")
		dbtest.Must(t, os.Remove(path))
		dbtest.Must(t, os.Symlink(real+".new", path))
		return func() {
			dbtest.Must(t, os.Remove(path))
			dbtest.Must(t, os.Symlink(real, path))
		}
	},
	"the target of a link moved": func(t *testing.T, path string) func() {
		real, err := filepath.EvalSymlinks(path)
		dbtest.Must(t, err)
		dbtest.Must(t, os.Rename(real, real+".old"))
		return func() { dbtest.Must(t, os.Rename(real+".old", real)) }
	},
}

// TestReplaced: once the path of an open database leads elsewhere, all writes fail and all reads
// succeed, until it leads there again.
func TestReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename open files")
	}
	for name, replace := range replacements {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			dir := filepath.Join(t.TempDir(), "d")
			dbtest.Must(t, os.MkdirAll(dir, 0o700))
			path := filepath.Join(dir, "link.anndb")
			dbtest.Must(t, os.Symlink(filepath.Join(dir, "x.anndb"), path))
			if name != "a link to it changed" && name != "the target of a link moved" {
				path = filepath.Join(dir, "x.anndb")
			}
			d, err := dbtest.Open(ctx, filepath.Join(dir, "x.anndb"), &db.Options{NoSync: true})
			dbtest.Must(t, err)
			dbtest.Must(t, errors.Join(dbtest.Create(ctx, d, "c", db.Schema{Dim: 2}), put1(ctx, d, "a"), d.Close()))
			d, err = dbtest.Open(ctx, path, &db.Options{NoSync: true})
			dbtest.Must(t, err)
			defer d.Close()
			undo := replace(t, path)
			c := d.Collection("c")
			rows := func() iter.Seq2[db.Row, error] {
				return func(yield func(db.Row, error) bool) { yield(db.Row{Key: []byte("l"), Vector: []float32{1, 2}}, nil) }
			}
			for what, write := range map[string]func() error{
				"update":   func() error { return put1(ctx, d, "b") },
				"load":     func() error { _, err := c.Load(ctx, rows(), nil); return err },
				"create":   func() error { return dbtest.Create(ctx, d, "e", db.Schema{Dim: 2}) },
				"drop":     func() error { return d.Drop(ctx, "c") },
				"rename":   func() error { return d.Rename(ctx, "c", "e") },
				"build":    func() error { _, err := c.Build(ctx, "x", nil, nil); return err },
				"compact":  func() error { return d.Compact(ctx, nil) },
				"reorder":  func() error { return d.Compact(ctx, &db.CompactOptions{Reorder: true}) },
				"repair":   func() error { _, err := d.Repair(ctx, nil); return err },
				"maintain": func() error { _, err := d.Maintain(ctx, 0, nil); return err },
			} {
				if err := write(); !errors.Is(err, db.ErrReplaced) || errors.Is(err, db.ErrUnknownState) {
					t.Errorf("%s: %v", what, err)
				}
			}
			reads := func(when string) {
				t.Helper()
				_, err1 := c.Get([]byte("a"))
				_, err2 := c.Search(ctx, db.Query{Vector: []float32{1, 2}}, nil)
				st, err3 := d.Stats()
				n, err4 := d.Backup(ctx, io.Discard)
				err5 := d.Check(ctx, nil, nil)
				if err := errors.Join(err1, err2, err3, err4, err5); err != nil || st.FileBytes == 0 || n == 0 {
					t.Errorf("%s: reading: %d, %d bytes, %v", when, st.FileBytes, n, err)
				}
				if n, err := c.Count(ctx, nil); n != 1 || err != nil {
					t.Errorf("%s: %d rows, %v", when, n, err)
				}
			}
			reads("replaced")
			undo()
			reads("undone")
			dbtest.Must(t, put1(ctx, d, "b"))
			dbtest.Must(t, d.Compact(ctx, nil))
			dbtest.Must(t, put1(ctx, d, "b2"))
			dbtest.Must(t, d.Close())
		})
	}
}

// TestReplacedWhileCompacted: a compaction does not replace a file that has taken the path meanwhile,
// and loses nothing that was written to it.
func TestReplacedWhileCompacted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace open files")
	}
	b := dbtest.NewBed(t, vector.L2, 2)
	ctx := t.Context()
	b.Put("row", dbtest.Mixture(1, 300, 2))
	dbtest.Must(t, put1(ctx, b.D, "a"))
	_, err := b.D.Collection("c").Build(ctx, "x", &index.Forest{NoTune: true}, nil)
	dbtest.Must(t, err)
	copied := b.Path + ".new"
	copyFile(t, b.Path, copied)
	var other *db.DB
	open := func() {
		dbtest.Must(t, os.Rename(copied, b.Path))
		var err error
		other, err = dbtest.Open(ctx, b.Path, &db.Options{NoSync: true})
		dbtest.Must(t, err)
		dbtest.Must(t, put1(ctx, other, "theirs"))
	}
	run := dbtest.Reporting(func(dbtest.Progress) {
		if other == nil {
			open()
		}
	})
	err = b.D.Compact(ctx, &db.CompactOptions{Reorder: true, Run: *run})
	if other == nil {
		t.Fatal("the compaction has reported nothing")
	}
	defer other.Close()
	if !errors.Is(err, db.ErrReplaced) {
		t.Errorf("compaction: %v", err)
	}
	dbtest.Must(t, put1(ctx, other, "theirs too"))
	dbtest.Must(t, other.Close())
	d, err := dbtest.Open(ctx, b.Path, &db.Options{ReadOnly: true})
	dbtest.Must(t, err)
	defer d.Close()
	for _, key := range []string{"a", "theirs", "theirs too"} {
		if _, err := d.Collection("c").Get([]byte(key)); err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(b.Path), ".*")); len(left) > 0 || err != nil {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestHardLink: a file with several names is written to, but not replaced under one of them.
func TestHardLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not compact")
	}
	b := dbtest.NewBed(t, vector.L2, 2)
	ctx := t.Context()
	link := filepath.Join(t.TempDir(), "link.anndb")
	if err := os.Link(b.Path, link); err != nil {
		t.Skip(err)
	}
	dbtest.Must(t, put1(ctx, b.D, "a"))
	for _, o := range []*db.CompactOptions{nil, {Reorder: true}} {
		if err := b.D.Compact(ctx, o); !errors.Is(err, db.ErrLinked) {
			t.Errorf("compaction: %v", err)
		}
	}
	if _, err := dbtest.Open(ctx, link, nil); !errors.Is(err, db.ErrLocked) {
		t.Errorf("opened by the other name: %v", err)
	}
	dbtest.Must(t, put1(ctx, b.D, "b"))
	dbtest.Must(t, os.Remove(link))
	dbtest.Must(t, b.D.Compact(ctx, nil))
	dbtest.Must(t, put1(ctx, b.D, "c"))
}

// TestWorkingDirectory: a database that was opened by a relative path is found after a change of the
// working directory.
func TestWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	d, err := dbtest.Open(t.Context(), "x.anndb", &db.Options{NoSync: true})
	dbtest.Must(t, err)
	defer d.Close()
	ctx := context.Background()
	dbtest.Must(t, dbtest.Create(ctx, d, "c", db.Schema{Dim: 2}))
	t.Chdir(t.TempDir())
	dbtest.Must(t, put1(ctx, d, "a"))
	if runtime.GOOS != "windows" {
		dbtest.Must(t, d.Compact(ctx, nil))
	}
	dbtest.Must(t, put1(ctx, d, "b"))
	if _, err := d.Stats(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("x.anndb"); err == nil {
		t.Error("a file was made in the new working directory")
	}
}
