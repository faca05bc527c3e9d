package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// TestForceSparesOpenDatabase: --force replaces no database that another process writes.
func TestForceSparesOpenDatabase(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	open := filepath.Join(f.dir, "open.anndb")
	must(t, "backup", f.file, open)
	d, err := db.Open(t.Context(), open, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before, err := os.Stat(open)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"backup", f.file, open},
		{"restore", f.file, open},
		{"repair", f.file, "--to", open},
		{"export", f.file, "things", open, "--as", "jsonl"},
		{"report", f.file, "--out", open},
	} {
		_, errs, code := anndb(t, append(args, "--force")...)
		if code != command.ExitError || !strings.Contains(errs, "in use: "+open) {
			t.Errorf("%s: exit code %d, %s", args[0], code, errs)
		}
		if after, err := os.Stat(open); err != nil || !os.SameFile(before, after) {
			t.Fatalf("%s has replaced the file: %v", args[0], err)
		}
	}
}
