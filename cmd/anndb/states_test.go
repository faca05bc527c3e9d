package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/golden"
)

// onFile are command lines for every command that has a database file, FILE. DIR is a folder with
// rows.csv and good.anndb.
var onFile = []string{
	"create FILE new --dim 2", "import FILE points DIR/rows.csv --key-prefix x", "export FILE points DIR/out.jsonl --force",
	"put FILE points k 1,2", "get FILE points a", "update FILE points a --label x", "delete FILE points a",
	"rows FILE points", "count FILE points", "copy FILE points other", "rename FILE points other", "drop FILE points main",
	"build FILE points b --kind rp --trees 2 --depth 1 --leaf-neighbors 2 --no-tune", "tune FILE points t --kind sbt --budgets 1,2 --folds 2",
	"maintain FILE", "search FILE points 1,2", "range FILE points 3 1,2", "predict FILE points 1,2",
	"evaluate FILE points --queries DIR/rows.csv --label-column label --index main --method natural " +
		"--no-flat",
	"tree FILE points tree", "report FILE --out DIR/r.html", "stats FILE", "stats FILE points", "check FILE",
	"compact FILE",
	"backup FILE DIR/b.anndb --force", "restore FILE DIR/r.anndb --force", "restore DIR/good.anndb FILE --force",
	"repair FILE", "repair FILE --to DIR/saved.anndb", "shell FILE 'count points'",
}

// states put a file into a state that commands may find it in, given the bytes of a good one.
var states = []struct {
	name string
	make func(t *testing.T, path string, good []byte)
}{
	{"missing", func(*testing.T, string, []byte) {}},
	{"no folder", nil}, // its path is in a folder that does not exist
	{"folder", func(t *testing.T, path string, _ []byte) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}},
	{"empty", func(t *testing.T, path string, _ []byte) { write(t, path, "") }},
	{"text", func(t *testing.T, path string, _ []byte) { write(t, path, "key,x,y\na,1,2\n") }},
	{"sqlite", func(t *testing.T, path string, _ []byte) {
		write(t, path, "SQLite format 3\x00"+strings.Repeat("\x00", 40_000))
	}},
	// Only the two meta pages are left: the order of the others differs from run to run.
	{"cut", func(t *testing.T, path string, good []byte) { write(t, path, string(good[:2*16384])) }},
	{"damaged", func(t *testing.T, path string, good []byte) {
		at := bytes.Index(good, []byte{'A', 'N', 'N', 'B', 1, 0}) // a block
		bad := bytes.Clone(good)
		for at := at; at >= 0 && at < len(bad); { // and all others
			bad[at+40] ^= 1
			next := bytes.Index(bad[at+1:], []byte{'A', 'N', 'N', 'B', 1, 0})
			if next < 0 {
				break
			}
			at += 1 + next
		}
		write(t, path, string(bad))
	}},
	{"locked", func(t *testing.T, path string, good []byte) {
		write(t, path, string(good))
		d, err := db.Open(t.Context(), path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
	}},
	{"read elsewhere", func(t *testing.T, path string, good []byte) {
		write(t, path, string(good))
		d, err := db.Open(t.Context(), path, &db.Options{ReadOnly: true, Maintenance: &maintenance.Policy{Manual: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
	}},
	{"good", func(t *testing.T, path string, good []byte) { write(t, path, string(good)) }},
}

// unstable matches what differs from run to run.
var unstable = regexp.MustCompile(`checksum [\da-f]{8}, stored [\da-f]{8}|0x[\da-f]{4,16}|` +
	`\b(page|offset|byte|need|stored as) \d+|\d+ bytes`)

// unraced skips a test under -short, with which the race detector runs: its commands run one by one.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped with -short: the test command runs it")
	}
}

// TestStates: every command on files in every state gives one clear sentence and the right exit code,
// which testdata/states.txt lists.
func TestStates(t *testing.T) {
	unraced(t)
	t.Parallel()
	good := stateFixture(t)
	var b strings.Builder
	for _, state := range states {
		b.WriteString(stateTable(t, state.name, state.make, good))
	}
	golden.Compare(t, "states.txt", b.String())
}

// stateTable runs all commands on files in a state and returns their exit codes and messages.
func stateTable(t *testing.T, name string, prepare func(*testing.T, string, []byte), good []byte) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "== %s\n", name)
	for _, line := range onFile {
		t.Run(name+"/"+line, func(t *testing.T) {
			code, text := runState(t, prepare, line, good)
			fmt.Fprintf(&b, "%-28s %d %s\n", commandShown(line), code, text)
		})
	}
	return b.String()
}

// commandShown is a command line without its files.
func commandShown(line string) string {
	words := strings.Fields(strings.NewReplacer("FILE", "", "DIR/", "").Replace(line))
	return strings.Join(words[:min(len(words), 3)], " ")
}

// stateFixture returns the bytes of a small database with a forest and a tree.
func stateFixture(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "good.anndb")
	write(t, filepath.Join(dir, "rows.csv"), stateRows)
	must(t, "import", file, "points", filepath.Join(dir, "rows.csv"), "--label-column", "label")
	must(t, "build", file, "points", "--kind", "kd", "--trees", "2", "--depth", "2", "--leaf-neighbors", "2", "--no-tune")
	must(t, "build", file, "points", "tree", "--kind", "sbt", "--budget", "1")
	return []byte(read(t, file))
}

// stateRows are twelve labelled points.
var stateRows = func() string {
	text := "key,x,y,label\n"
	for i, key := range "abcdefghijkl" {
		text += fmt.Sprintf("%c,%d,%d,%c\n", key, i, i*i%7, 'p'+rune(i)/6)
	}
	return text
}()

// runState runs a command line on a file in a state and returns the exit code and the message.
func runState(t *testing.T, prepare func(*testing.T, string, []byte), line string, good []byte) (int, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "f.anndb")
	write(t, filepath.Join(dir, "rows.csv"), stateRows)
	write(t, filepath.Join(dir, "good.anndb"), string(good))
	if prepare == nil {
		file = filepath.Join(dir, "none", "f.anndb")
	} else {
		prepare(t, file, good)
	}
	args := []string{"--wait", "20ms"}
	for _, w := range word.FindAllString(line, -1) {
		args = append(args, strings.NewReplacer("FILE", file, "DIR", dir, "'", "").Replace(w))
	}
	_, errs, code := runArgs(context.Background(), args)
	var lines []string
	for line := range strings.Lines(errs) {
		summary := strings.HasPrefix(line, "queries: ")
		if !summary && !strings.HasPrefix(line, "Try: ") {
			lines = append(lines, strings.TrimSpace(line))
		}
		if internal.MatchString(line) {
			t.Errorf("a message for Go programs: %s", line)
		}
	}
	if len(lines) > 1 || code == command.ExitOK && len(lines) > 0 || code != command.ExitOK && len(lines) == 0 {
		t.Errorf("exit code %d, messages %q", code, lines)
	}
	text := strings.ReplaceAll(strings.Join(lines, " / "), dir+string(filepath.Separator), "")
	return code, unstable.ReplaceAllString(text, "~")
}
