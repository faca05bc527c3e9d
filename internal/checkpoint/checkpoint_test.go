package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func open(t testing.TB, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// kept is what the tests keep.
type kept struct {
	a []uint32
	b []uint64
	c []float32
}

var some = kept{[]uint32{1, 2, 3}, []uint64{1 << 40}, []float32{-1.5, 2}}

func save(t testing.TB, f *Folder, name string, k kept) {
	t.Helper()
	if err := f.Save(name, k.a, k.b, k.c); err != nil {
		t.Fatal(err)
	}
}

// check fails unless the folder has what is wanted under the name, nothing if want is nil.
func check(t testing.TB, what string, f *Folder, name string, want *kept) {
	t.Helper()
	var got kept
	found, err := f.Load(name, &got.a, &got.b, &got.c)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if found != (want != nil) {
		t.Fatalf("%s: found is %v", what, found)
	}
	if found && !(slices.Equal(got.a, want.a) && slices.Equal(got.b, want.b) && slices.Equal(got.c, want.c)) {
		t.Fatalf("%s: got %v, want %v", what, got, *want)
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	f := open(t, dir)
	check(t, "an empty folder", f, "x", nil)
	save(t, f, "x", some)
	check(t, "a result", f, "x", &some)
	check(t, "another name", f, "y", nil)
	check(t, "a folder that is opened again", open(t, dir), "x", &some)

	one, other := f.For([]byte("one")), f.For([]byte("other"))
	check(t, "another key", one, "x", nil)
	save(t, one, "x", kept{})
	check(t, "empty slices", one, "x", &kept{})
	check(t, "the key of what was replaced", f, "x", nil)
	check(t, "a third key", other, "x", nil)
	check(t, "a key made of two parts", f.For([]byte("o")).For([]byte("ne")), "x", nil)

	var few kept
	if found, err := one.Load("x", &few.a, &few.b); found || err != nil {
		t.Errorf("fewer slices than were saved: %v, %v", found, err)
	}
	if info, err := os.Stat(one.path("x")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// A folder is removed unless something else is in it.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	f := open(t, dir)
	save(t, f, "x", some)
	save(t, f.For([]byte("1")), "y", some)
	note := filepath.Join(dir, "note.txt")
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("left: %v, %v", files, err)
	}
	if err := errors.Join(os.Remove(note), f.Remove()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// A nil folder keeps nothing.
func TestNilFolder(t *testing.T) {
	f := open(t, "")
	if f != nil {
		t.Fatal("no path gives a folder")
	}
	save(t, f.For([]byte("x")), "x", some)
	check(t, "no folder", f, "x", nil)
	if err := f.Remove(); err != nil {
		t.Error(err)
	}
}

// Nothing that is damaged is found, whichever byte is changed and wherever the file ends.
func TestDamage(t *testing.T) {
	f := open(t, t.TempDir())
	save(t, f, "x", some)
	whole, err := os.ReadFile(f.path("x"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(f.path("x"), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range whole {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 4
		write(damaged)
		check(t, "a changed byte", f, "x", nil)
		write(whole[:i])
		check(t, "a shorter file", f, "x", nil)
	}
	write(append(bytes.Clone(whole), 0))
	check(t, "a longer file", f, "x", nil)
	write(whole)
	check(t, "the file itself", f, "x", &some)
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var path *fs.PathError
	if _, err := Open(file); !errors.As(err, &path) || path.Path != file {
		t.Errorf("a file as a folder: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	folder := open(f, f.TempDir())
	save(f, folder, "x", some)
	whole, err := os.ReadFile(folder.path("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headBytes])
	f.Fuzz(func(t *testing.T, data []byte) {
		var got kept
		found, err := folder.read(bytes.NewReader(data), int64(len(data)), []any{&got.a, &got.b, &got.c})
		if err != nil {
			t.Fatal(err)
		}
		if n := 4*len(got.a) + 8*len(got.b) + 4*len(got.c); found && n > len(data) {
			t.Errorf("%d bytes of a file of %d", n, len(data))
		}
	})
}
