package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// TestWait: with --wait commands continue as soon as the other process closes the file.
func TestWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, args := range [][]string{
		{"count", f.file, "things"},
		{"import", f.file, "more", f.rows},
		{"create", f.file, "new", "--dim", "2"},
		{"backup", f.file, filepath.Join(f.dir, "b.anndb")},
	} {
		d, err := db.Open(t.Context(), f.file, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
		if err != nil {
			t.Fatal(err)
		}
		if _, errs, code := anndb(t, append(args, "--wait", "10ms")...); code != command.ExitError || !strings.Contains(errs, "--wait") {
			t.Errorf("%s: exit code %d, %s", args[0], code, errs)
		}
		closed := make(chan error)
		go func() {
			time.Sleep(1500 * time.Millisecond) // longer than without the flag
			closed <- d.Close()
		}()
		must(t, append(args, "--wait", "1m")...)
		if err := <-closed; err != nil {
			t.Fatal(err)
		}
	}
}
