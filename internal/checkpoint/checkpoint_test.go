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

// kept is what the tests keep.
type kept struct {
	a []uint32
	b []uint64
	c []float32
}

func (k *kept) arrays() []Array { return []Array{Of(&k.a), Of(&k.b), Of(&k.c)} }

var some = kept{[]uint32{1, 2, 3}, []uint64{1 << 40}, []float32{-1.5, 2}}

func save(t testing.TB, f *Folder, name string, k kept) {
	t.Helper()
	if err := f.Save(name, k.arrays()...); err != nil {
		t.Fatal(err)
	}
}

// check fails unless the folder has what is wanted under the name, nothing if want is nil.
func check(t testing.TB, what string, f *Folder, name string, want *kept) {
	t.Helper()
	got := kept{make([]uint32, 3), make([]uint64, 0, 3), make([]float32, 200_000)}
	found, err := f.Load(name, got.arrays()...)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if found != (want != nil) {
		t.Fatalf("%s: found is %v", what, found)
	}
	if found && !(slices.Equal(got.a, want.a) && slices.Equal(got.b, want.b) && slices.Equal(got.c, want.c)) {
		t.Fatalf("%s: other numbers", what)
	}
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parent", "a[1*")
	f := New(dir)
	check(t, "a folder that does not exist", f, "x", nil)
	save(t, f, "x", some)
	check(t, "a result", f, "x", &some)
	check(t, "another name", f, "y", nil)
	check(t, "a folder that is opened again", New(dir), "x", &some)

	one, other := f.For([]byte("one")), f.For([]byte("other"))
	check(t, "another key", one, "x", nil)
	save(t, one, "x", kept{})
	check(t, "empty slices", one, "x", &kept{})
	check(t, "the key of what was replaced", f, "x", nil)
	check(t, "a third key", other, "x", nil)
	check(t, "a key made of two parts", f.For([]byte("o")).For([]byte("ne")), "x", nil)

	many := kept{a: some.a, c: make([]float32, 2*pieceNumbers+5)}
	for i := range many.c {
		many.c[i] = float32(i)
	}
	save(t, f, "many", many)
	check(t, "several pieces", f, "many", &many)
	many.a = make([]uint32, 4)
	save(t, f, "many", many)
	check(t, "more numbers than there is room for", f, "many", nil)

	var few kept
	if found, err := one.Load("x", few.arrays()[:2]...); found || err != nil {
		t.Errorf("fewer slices than were saved: %v, %v", found, err)
	}
	if info, err := os.Stat(one.path("x")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// What is left of a Save that was killed is overwritten.
func TestPartial(t *testing.T) {
	f := New(t.TempDir())
	if err := os.WriteFile(f.path("x")+partial, make([]byte, 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, "a part", f, "x", nil)
	save(t, f, "x", some)
	check(t, "a result", f, "x", &some)
	if files, err := os.ReadDir(f.dir); err != nil || len(files) != 1 {
		t.Errorf("files: %v, %v", files, err)
	}
}

// A folder is removed unless something else is in it.
func TestRemove(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	f := New(dir)
	save(t, f, "x", some)
	save(t, f.For([]byte("1")), "y", some)
	other := filepath.Join(dir, "z"+suffix)
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	New(dir).Remove()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Fatalf("removed by a folder that was not used: %v, %v", files, err)
	}
	f.Remove()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 || files[0].Name() != "z"+suffix {
		t.Fatalf("left: %v, %v", files, err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	f.Remove()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// A nil folder keeps nothing.
func TestNilFolder(t *testing.T) {
	f := New("")
	if f != nil {
		t.Fatal("no path gives a folder")
	}
	save(t, f.For([]byte("x")), "x", some)
	check(t, "no folder", f, "x", nil)
	f.Remove()
}

// Nothing that is damaged is found, whichever byte is changed and wherever the file ends.
func TestDamage(t *testing.T) {
	f := New(t.TempDir())
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

// What is no file is not found, and a folder that cannot be made is an error.
func TestNoFile(t *testing.T) {
	f := New(t.TempDir())
	if err := os.MkdirAll(f.path("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	check(t, "a folder", f, "x", nil)

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var path *fs.PathError
	if err := New(file).Save("x"); !errors.As(err, &path) || path.Path != file {
		t.Errorf("a file as a folder: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	folder := New(f.TempDir())
	save(f, folder, "x", some)
	whole, err := os.ReadFile(folder.path("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:50])
	f.Fuzz(func(t *testing.T, data []byte) {
		got := kept{make([]uint32, 8), make([]uint64, 8), make([]float32, 8)}
		found, err := folder.read(bytes.NewReader(data), got.arrays())
		if found && err != nil {
			t.Fatal(err)
		}
		if n := 4*len(got.a) + 8*len(got.b) + 4*len(got.c); found && n > len(data) {
			t.Errorf("%d bytes of a file of %d", n, len(data))
		}
	})
}
