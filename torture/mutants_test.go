package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMutantsApply puts every seeded bug into its file, which must have the
// place, and names a layer that exists.
func TestMutantsApply(t *testing.T) {
	bolt, err := moduleDir(context.Background(), "go.etcd.io/bbolt")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range seeded {
		dir := ".."
		if m.bolt {
			dir = bolt
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(m.file)))
		if err != nil {
			t.Fatal(err)
		}
		copied := t.TempDir()
		path := filepath.Join(copied, filepath.FromSlash(m.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := m.apply(copied); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) == string(text) {
			t.Errorf("%s changes nothing: %v", m.name, err)
		}
		if !slices.ContainsFunc(layers, func(l layer) bool { return l.name == m.caughtBy }) {
			t.Errorf("%s: there is no layer %q", m.name, m.caughtBy)
		}
	}
}

// TestTotals checks the line that a run prints and a reader searches.
func TestTotals(t *testing.T) {
	var x totals
	x.add("cuts", 2)
	x.add("lost", 0)
	x.add("cuts", 3)
	x.skip("%s: no mkfs", "xfs")
	if got := x.String(); strings.TrimSpace(got) != "cuts=5 lost=0" || len(x.skipped) != 1 {
		t.Errorf("%q, skipped %q", got, x.skipped)
	}
}

// TestTooFew checks that a layer fails by counts that prove nothing.
func TestTooFew(t *testing.T) {
	var x totals
	x.add("cuts", 8)
	x.add("batches", 0)
	for want, least := range map[string]map[string]int{
		"":                                    nil,
		"too few batches: 0, want at least 1": {"cuts": 8, "batches": 1},
		"too few cuts: 8, want at least 9":    {"cuts": 9},
		"too few builds: none":                {"builds": 1},
	} {
		if err := x.tooFew(least); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v: %v, want %q", least, err, want)
		}
	}
	for _, l := range layers {
		if l.least == nil && l.name != "resources" {
			t.Errorf("layer %s has no least counts", l.name)
		}
	}
}

// TestMoment checks at which acknowledgement a moment comes.
func TestMoment(t *testing.T) {
	acks := []bool{false, false, true, false, true} // steps
	for at, m := range map[int]moment{0: {acks: 1}, 2: {acks: 1, step: true}, 3: {acks: 4}, 4: {acks: 4, step: true}} {
		got := -1
		for i, step := range acks {
			if m.passed(step) && got < 0 {
				got = i
			}
		}
		if got != at {
			t.Errorf("%v: at %d, want %d", m, got, at)
		}
	}
}
