package crash

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/torture/internal/faultfs"
)

// TestSubset rebuilds states of a record whose outcome is plain: what a barrier
// covers is there in all of them, and what none covers in some, part by part.
func TestSubset(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte{1}, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	base, err := Read(dir, map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	ops := []faultfs.Op{
		{Kind: faultfs.Write, File: 1, Off: 100, Data: []byte("durable")},
		{Kind: faultfs.Sync, File: 1},
		{Kind: faultfs.Create, File: 2, Name: "b"},
		{Kind: faultfs.Write, File: 2, Data: bytes.Repeat([]byte{2}, 1024)},
		{Kind: faultfs.Sync, File: 2},
		{Kind: faultfs.Rename, File: 2, Name: "b", To: "a"},
		{Kind: faultfs.SyncDir},
		{Kind: faultfs.Truncate, File: 2, Off: 3000},
		{Kind: faultfs.Write, File: 2, Off: 1024, Data: bytes.Repeat([]byte{3}, 1024)},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 600 {
		s := Subset(base, ops, 512, rng)
		out := t.TempDir()
		if err := s.Write(out); err != nil {
			t.Fatal(err)
		}
		a, err := os.ReadFile(filepath.Join(out, "a"))
		if err != nil {
			t.Fatalf("%s: %v", s.What, err)
		}
		old := a[0] == 1
		switch {
		case s.Ops >= 2 && old && !bytes.Equal(a[100:107], []byte("durable")):
			t.Fatalf("%s: the synced write is lost", s.What)
		case s.Ops >= 7 && old:
			t.Fatalf("%s: the synced rename is lost", s.What)
		case !old && !bytes.Equal(a[:1024], bytes.Repeat([]byte{2}, 1024)):
			t.Fatalf("%s: the renamed file is not what was synced", s.What)
		case old:
			seen["old"]++
		case len(a) == 1024:
			seen["renamed"]++
		case len(a) == 3000 && a[1024] == 0 && a[1536] == 3:
			seen["second sector only"]++
		case len(a) == 3000 && a[1024] == 3 && a[1536] == 0:
			seen["first sector only"]++
		case len(a) == 3000 && a[1024] == 3 && a[1536] == 3:
			seen["all"]++
		case len(a) == 2048:
			seen["write without truncation"]++
		}
	}
	for _, want := range []string{"old", "renamed", "first sector only", "second sector only", "all", "write without truncation"} {
		if seen[want] == 0 {
			t.Errorf("no state is %q: %v", want, seen)
		}
	}
	n := 0
	err = Prefixes(base, ops, []int{512}, rng, func(s State) error { n++; return nil })
	if want := 1 + 6 + 2; err != nil || n != want {
		t.Errorf("%d prefixes, want %d: %v", n, want, err)
	}
}
