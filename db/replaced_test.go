package db_test

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
	"github.com/anndb/anndb/vector"
)

// copyFile makes a copy of a database that is open and idle.
func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o600))
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
		must(t, os.Link(path, path+".old"))
		must(t, os.Rename(path+".new", path))
		return func() { must(t, os.Rename(path+".old", path)) }
	},
	"moved": func(t *testing.T, path string) func() {
		must(t, os.Rename(path, path+".old"))
		return func() { must(t, os.Rename(path+".old", path)) }
	},
	"its folder moved": func(t *testing.T, path string) func() {
		dir := filepath.Dir(path)
		must(t, os.Rename(dir, dir+".old"))
		return func() { must(t, os.Rename(dir+".old", dir)) }
	},
	"a link to it changed": func(t *testing.T, path string) func() {
		real, err := filepath.EvalSymlinks(path)
		must(t, err)
		copyFile(t, path, real+".new")
		must(t, os.Remove(path))
		must(t, os.Symlink(real+".new", path))
		return func() {
			must(t, os.Remove(path))
			must(t, os.Symlink(real, path))
		}
	},
	"the target of a link moved": func(t *testing.T, path string) func() {
		real, err := filepath.EvalSymlinks(path)
		must(t, err)
		must(t, os.Rename(real, real+".old"))
		return func() { must(t, os.Rename(real+".old", real)) }
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
			must(t, os.MkdirAll(dir, 0o700))
			path := filepath.Join(dir, "link.anndb")
			must(t, os.Symlink(filepath.Join(dir, "x.anndb"), path))
			if name != "a link to it changed" && name != "the target of a link moved" {
				path = filepath.Join(dir, "x.anndb")
			}
			d, err := db.Open(ctx, filepath.Join(dir, "x.anndb"), &db.Options{NoSync: true})
			must(t, err)
			must(t, errors.Join(create(ctx, d, "c", db.Schema{Dim: 2}), put1(ctx, d, "a"), d.Close()))
			d, err = db.Open(ctx, path, &db.Options{NoSync: true})
			must(t, err)
			defer d.Close()
			undo := replace(t, path)
			c := d.Collection("c")
			rows := func() iter.Seq2[db.Row, error] {
				return func(yield func(db.Row, error) bool) { yield(db.Row{Key: []byte("l"), Vector: []float32{1, 2}}, nil) }
			}
			for what, write := range map[string]func() error{
				"update":   func() error { return put1(ctx, d, "b") },
				"load":     func() error { _, err := c.Load(ctx, rows(), nil); return err },
				"create":   func() error { return create(ctx, d, "e", db.Schema{Dim: 2}) },
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
			must(t, put1(ctx, d, "b"))
			must(t, d.Compact(ctx, nil))
			must(t, put1(ctx, d, "b2"))
			must(t, d.Close())
		})
	}
}

// TestReplacedWhileCompacted: a compaction does not replace a file that has taken the path meanwhile,
// and loses nothing that was written to it.
func TestReplacedWhileCompacted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not replace open files")
	}
	b := newBed(t, vector.L2, 2)
	ctx := t.Context()
	b.put("row", mixture(1, 300, 2))
	must(t, put1(ctx, b.d, "a"))
	_, err := b.d.Collection("c").Build(ctx, "x", &db.Forest{NoTune: true}, nil)
	must(t, err)
	copied := b.path + ".new"
	copyFile(t, b.path, copied)
	var other *db.DB
	open := func() {
		must(t, os.Rename(copied, b.path))
		var err error
		other, err = db.Open(ctx, b.path, &db.Options{NoSync: true})
		must(t, err)
		must(t, put1(ctx, other, "theirs"))
	}
	run := reporting(func(progress) {
		if other == nil {
			open()
		}
	})
	err = b.d.Compact(ctx, &db.CompactOptions{Reorder: true, Run: *run})
	if other == nil {
		t.Fatal("the compaction has reported nothing")
	}
	defer other.Close()
	if !errors.Is(err, db.ErrReplaced) {
		t.Errorf("compaction: %v", err)
	}
	must(t, put1(ctx, other, "theirs too"))
	must(t, other.Close())
	d, err := db.Open(ctx, b.path, &db.Options{ReadOnly: true})
	must(t, err)
	defer d.Close()
	for _, key := range []string{"a", "theirs", "theirs too"} {
		if _, err := d.Collection("c").Get([]byte(key)); err != nil {
			t.Error(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(b.path), ".*")); len(left) > 0 || err != nil {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestHardLink: a file with several names is written to, but not replaced under one of them.
func TestHardLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not compact")
	}
	b := newBed(t, vector.L2, 2)
	ctx := t.Context()
	link := filepath.Join(t.TempDir(), "link.anndb")
	if err := os.Link(b.path, link); err != nil {
		t.Skip(err)
	}
	must(t, put1(ctx, b.d, "a"))
	for _, o := range []*db.CompactOptions{nil, {Reorder: true}} {
		if err := b.d.Compact(ctx, o); !errors.Is(err, db.ErrLinked) {
			t.Errorf("compaction: %v", err)
		}
	}
	if _, err := db.Open(ctx, link, nil); !errors.Is(err, db.ErrLocked) {
		t.Errorf("opened by the other name: %v", err)
	}
	must(t, put1(ctx, b.d, "b"))
	must(t, os.Remove(link))
	must(t, b.d.Compact(ctx, nil))
	must(t, put1(ctx, b.d, "c"))
}

// TestWorkingDirectory: a database that was opened by a relative path is found after a change of the
// working directory.
func TestWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	d, err := db.Open(t.Context(), "x.anndb", &db.Options{NoSync: true})
	must(t, err)
	defer d.Close()
	ctx := context.Background()
	must(t, create(ctx, d, "c", db.Schema{Dim: 2}))
	t.Chdir(t.TempDir())
	must(t, put1(ctx, d, "a"))
	if runtime.GOOS != "windows" {
		must(t, d.Compact(ctx, nil))
	}
	must(t, put1(ctx, d, "b"))
	if _, err := d.Stats(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("x.anndb"); err == nil {
		t.Error("a file was made in the new working directory")
	}
}
