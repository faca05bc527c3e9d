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
