package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepairAndRestore damages a block of an index and repairs it, damages a
// row and saves the others, and restores a backup.
func TestRepairAndRestore(t *testing.T) {
	dir := t.TempDir()
	file, backup := filepath.Join(dir, "docs.anndb"), filepath.Join(dir, "backup.anndb")
	must(t, "import", file, "docs", writeTopics(t, filepath.Join(dir, "a.jsonl"), "jsonl", 120, 1))
	must(t, "build", file, "docs", "x")
	must(t, "backup", file, backup)
	// The last byte of blocks of a kind is damaged where their header says so.
	// Compacted, the file has no other copies of them in free pages.
	damage := func(kind byte) {
		t.Helper()
		must(t, "compact", file)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte{'A', 'N', 'N', 'B', 1, 0, kind, 0})
		if at < 0 {
			t.Fatalf("no block of kind %d", kind)
		}
		data[at+64] ^= 1
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage(20) // postings
	fails(t, exitError, "damaged", "check", file)
	if got := mustJSON[rows](t, "repair", file); len(got) != 1 || got[0]["index"] != "x" || got[0]["rebuilt"] != true {
		t.Errorf("repaired %v", got)
	}
	must(t, "check", file)
	damage(5) // a row that no chunk holds yet
	fails(t, exitError, "--to", "repair", file)
	saved := filepath.Join(dir, "saved.anndb")
	got := mustJSON[map[string]rows](t, "repair", file, "--to", saved)
	if got["saved"][0]["rows"] != float64(119) || got["saved"][0]["indexes"] != float64(1) || len(got["lost"]) != 1 || got["lost"][0]["key"] == "" {
		t.Errorf("saved %v", got)
	}
	must(t, "check", saved)
	fails(t, exitUsage, "--force", "restore", backup, file)
	must(t, "restore", backup, file, "--force")
	must(t, "check", file)
	fails(t, exitError, "backup", "restore", filepath.Join(dir, "a.jsonl"), file, "--force")
	must(t, "check", file)
	fails(t, exitUsage, "--no-indexes", "repair", file, "--no-indexes")
}

// fails runs a command that must end with an exit code and say something.
func fails(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	if got := run(t.Context(), args, &out, &errs); got != code || !strings.Contains(errs.String()+out.String(), want) {
		t.Errorf("%v: exit code %d, want %d and %q\n%s%s", args, got, code, want, out.String(), errs.String())
	}
}
