package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mutant is a bug put into the source on purpose: in a file, one text takes the
// place of another, which must be there exactly once.
type mutant struct {
	name     string
	bolt     bool // the file is bbolt's
	file     string
	old, new string
	caughtBy string // the layer that must fail
}

// seeded are bugs of the kinds that have cost other stores data: barriers that
// are left out, acknowledgements that come too early, checks that are dropped,
// states that are given up while somebody reads them.
var seeded = []mutant{
	{
		"no fsync", false, "db/internal/store/store.go", "NoSync:          o.NoSync,", "NoSync:          true,", "crashstates",
	}, {
		"meta page before the data", true, "tx.go",
		"// gofail: var beforeSyncDataPages struct{}\n\t\tif err := fdatasync(tx.db); err != nil {",
		"if err := error(nil); err != nil {", "crashstates",
	}, {
		"acknowledged before the meta page is durable", true, "tx.go",
		"// gofail: var beforeSyncMetaPage struct{}\n\t\tif err := fdatasync(tx.db); err != nil {",
		"if err := error(nil); err != nil {", "crashstates",
	}, {
		"compacted copy not synced", false, "db/internal/store/store.go",
		"return f.bolt.Sync()", "return nil", "crashstates",
	}, {
		"compacted file's name not synced", false, "db/internal/txn/replace.go",
		"unsettled := store.SyncDir(filepath.Dir(r.Target))", "var unsettled error\n\t_, _ = filepath.Dir(r.Target), store.SyncDir", "crashstates",
	}, {
		"name of an inherited file not synced", false, "db/open.go",
		"err := store.SyncDir(filepath.Dir(d.compactor.Target))\n\tif errors.Is", "var err error\n\tif errors.Is", "crashstates",
	}, {
		"failed commit acknowledged", false, "db/internal/txn/commit.go",
		"if err := m.commit(s, tx); err != nil {", "if err := m.commit(s, tx); err != nil && s == nil {", "faults",
	}, {
		"tombstones of a batch left out", false, "db/internal/apply/apply.go",
		"if err := layout.EditSets(a.tx, t.c.ID, codec.KindTombstones, t.deletedRows, nil); err != nil {", "if err := error(nil); err != nil {", "kill",
	}, {
		"state given up while it is read", false, "db/internal/txn/manager.go",
		"m.latest = nil\n\tm.mu.Unlock()\n\tif old != nil {", "m.latest = nil\n\tm.mu.Unlock()\n\tif old != nil {\n\t\told.Release()", "kill",
	}, {
		"checksum not compared", false, "codec/block.go",
		"got := checksum(key, b.head[:48], b.Payload); got != want {", "got := checksum(key, b.head[:48], b.Payload); got != want && key == nil {", "damage",
	}, {
		"path not compared", false, "db/internal/store/name.go",
		"if !os.SameFile(info, f.info) {", "if !os.SameFile(info, f.info) && f == nil {", "replace",
	},
}

// seededBugs shows that the layers find bugs: each of the seeded ones, put into
// a copy of the source, must make its layer fail.
func seededBugs(ctx context.Context, e *env) (t totals, err error) {
	t.add("mutants", 0)
	t.add("caught", 0)
	source, err := module(ctx)
	if err != nil {
		return t, skipped("no source to put bugs into: %v", err)
	}
	chosen := seeded
	if !e.full {
		i := e.seed % uint64(len(seeded))
		chosen = seeded[i : i+1]
	}
	for _, m := range chosen {
		caught, by, err := m.try(ctx, e, source)
		var skip skipError
		if errors.As(err, &skip) {
			t.skip("%q: %v", m.name, err)
			continue
		}
		if err != nil {
			return t, fmt.Errorf("seeded bug %q: %w", m.name, err)
		}
		t.add("mutants", 1)
		if !caught {
			return t, fmt.Errorf("seeded bug %q went past the layer %s: %s", m.name, m.caughtBy, by)
		}
		t.add("caught", 1)
		e.log.Printf("%q: %s", m.name, by)
	}
	if t.counts["mutants"] == 0 {
		return t, skipped("no layer could run that catches one")
	}
	return t, nil
}

// try builds this program with the bug and runs the layer that must catch it.
// It returns that layer's line.
func (m mutant) try(ctx context.Context, e *env, source string) (caught bool, line string, err error) {
	dir, err := e.sub("mutant")
	if err != nil {
		return false, "", err
	}
	if err := empty(dir); err != nil {
		return false, "", err
	}
	name, from := "github.com/anndb/anndb", filepath.Dir(source)
	if m.bolt {
		name = "go.etcd.io/bbolt"
		if from, err = moduleDir(ctx, name); err != nil {
			return false, "", err
		}
	}
	copied := filepath.Join(dir, "source")
	err = copyTree(from, copied, func(path string) bool {
		switch filepath.Base(path) {
		case ".git", "torture", "bench", "docs", "testdata":
			return true
		}
		return false
	})
	if err != nil {
		return false, "", err
	}
	if err := m.apply(copied); err != nil {
		return false, "", err
	}
	binary := filepath.Join(dir, "torture")
	if err := buildWith(ctx, source, dir, binary, map[string]string{name: copied}); err != nil {
		return false, "", err
	}
	c := exec.CommandContext(ctx, binary, "-layers", m.caughtBy, "-scale", "sample", "-seed", fmt.Sprint(e.seed), "-dir", dir)
	c.Dir = dir // outside of the module, so that it builds nothing itself
	out, err := c.Output()
	for l := range strings.Lines(string(out)) {
		if strings.HasPrefix(l, m.caughtBy+" ") {
			line = strings.TrimSpace(l)
		}
	}
	switch {
	case strings.Contains(line, tooFewCounts):
		return false, "", fmt.Errorf("the layer proved nothing: %s", line)
	case strings.Contains(line, " FAILED: ") && err != nil:
		return true, line, nil
	case strings.Contains(line, " OK") && err == nil:
		return false, line, nil
	case strings.Contains(line, " SKIPPED: ") && err == nil:
		_, why, _ := strings.Cut(line, " SKIPPED: ")
		return false, "", skipped("the layer %s that catches it was skipped: %s", m.caughtBy, why)
	}
	return false, "", fmt.Errorf("the run ended without a line of the layer: %w: %s", err, out)
}

// apply puts the bug into a copy of the source.
func (m mutant) apply(dir string) error {
	path := filepath.Join(dir, filepath.FromSlash(m.file))
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return fmt.Errorf("the text to replace is in %s %d times: the source has changed, and the bug must follow", m.file, n)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600)
}
