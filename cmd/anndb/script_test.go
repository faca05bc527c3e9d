package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/golden"
	"github.com/anndb/anndb/text"
)

// TestMain makes the test binary the command anndb, or embedder, where a script calls it so.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"anndb": main, "embedder": embedder})
}

// embedder counts letters of the texts that it reads. Its arguments are letters, or "fail", "few", "no-numbers".
func embedder() {
	var texts []string
	for in := json.NewDecoder(os.Stdin); in.More(); {
		var text string
		if err := in.Decode(&text); err != nil {
			panic(err)
		}
		texts = append(texts, text)
	}
	switch letters := os.Args[1:]; letters[0] {
	case "fail":
		fmt.Fprint(os.Stderr, "loading the model\nno such model\n")
		os.Exit(3)
	case "few":
		fmt.Println("[1, 2, 3]")
	case "no-numbers":
		fmt.Println("Welcome!")
	default:
		for _, text := range texts {
			if strings.Contains(text, "broken") {
				fmt.Fprintf(os.Stderr, "a batch of %d texts with a broken one\n", len(texts))
				os.Exit(1)
			}
			var counts []string
			for _, l := range letters {
				counts = append(counts, fmt.Sprint(strings.Count(text, l)))
			}
			fmt.Printf("[%s]\n", strings.Join(counts, ", "))
		}
	}
}

// TestScript runs the scripts of testdata/script, which are those of package testscript
// with the commands of scriptCommands.
func TestScript(t *testing.T) {
	unraced(t)
	testscript.Run(t, scriptParams(t))
}

// scriptParams are the scripts, a few of them under -short, and how they are run.
func scriptParams(t *testing.T) testscript.Params {
	data, err := filepath.Abs(filepath.Join("..", "..", "testdata"))
	if err != nil {
		t.Fatal(err)
	}
	params := testscript.Params{
		Dir: filepath.Join("testdata", "script"), UpdateScripts: *golden.Write, Cmds: scriptCommands,
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("DATA", data)
			e.Setenv("GODEBUG", os.Getenv("GODEBUG")) // which can switch kernels off
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	}
	if testing.Short() { // the sessions in which work goes on in the background
		params.Dir = ""
		for _, name := range []string{"maintain", "replace", "shell"} {
			params.Files = append(params.Files, filepath.Join("testdata", "script", name+".txtar"))
		}
	}
	return params
}

// registerLetters registers an analyzer that the command does not have, once for all sessions.
var registerLetters = sync.OnceValue(func() error {
	return text.Register("letters", func(s string, emit func(text.Token)) {
		for i, r := range s {
			emit(text.Token{Term: string(r), Start: i, End: i + utf8.RuneLen(r), Position: i})
		}
	})
})

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// session FILE runs the lines of the file that begin with "$ " and writes the session
	// that results to its standard output: comments, commands and what they wrote. Lines of
	// standard error begin with "! ", and an exit code other than 0 is in brackets. The
	// next line of a script compares: cmp stdout FILE.
	"session": func(ts *testscript.TestScript, _ bool, args []string) {
		var b strings.Builder
		for line := range strings.Lines(ts.ReadFile(args[0])) {
			if strings.HasPrefix(line, "# ") {
				b.WriteString(line)
			} else if command, ok := strings.CutPrefix(line, "$ "); ok {
				b.WriteString(line)
				stop := func() {}
				if ts.Value(servedKey{}) != nil {
					stop = serveWords(ts, words(command))
				}
				runLine(ts, &b, command)
				stop()
			}
		}
		fmt.Fprint(ts.Stdout(), b.String())
	},
	// lock FILE holds a database open for writing until the script ends.
	"lock": func(ts *testscript.TestScript, _ bool, args []string) {
		d, err := db.Open(context.Background(), ts.MkAbs(args[0]), nil)
		ts.Check(err)
		ts.Defer(func() { _ = d.Close() })
	},
	// badtexts writes files of texts that no collection can hold.
	"badtexts": func(ts *testscript.TestScript, _ bool, _ []string) {
		words := func(n int) string {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, "w%x ", i)
			}
			return b.String()
		}
		long := strings.Repeat("word ", 2<<20)
		for name, text := range map[string]string{
			"latin.csv": "id,text\na,fine\nb,caf\xe9\n", "nul.csv": "id,text\na,fine\nb,one\x00two\n",
			"nul.txt": "fine\none\x00two\n", "broken/a.md": "fine", "broken/b.jpg": "\xff\xd8\xff", "broken/c.bin": "a\x00b",
			"broken/d.txt": long, "nothing/.hidden": "no",
			"long.csv": "id,text\na,fine\nb," + long + "\n", "longer.csv": "id,text\na,fine\nb," + long + long + "\n",
			"many.csv":    "id,text\na,fine\nb," + words(100_000) + "\n",
			"million.csv": "id,text\na,fine\nb," + words(1_000_000) + "\n",
		} {
			ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(name)), 0o700))
			ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
		}
	},
	// foreign FILE makes a collection of texts with an analyzer that the command does not have, and one of
	// vectors and texts.
	"foreign": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(registerLetters())
		d, err := db.Open(context.Background(), ts.MkAbs(args[0]), nil)
		ts.Check(err)
		defer d.Close()
		schema := db.Schema{Text: &text.Schema{Analyzer: "letters"}}
		_, err = d.Create(context.Background(), "letters", schema)
		ts.Check(err)
		_, err = d.Create(context.Background(), "both", db.Schema{Dim: 2, Text: &text.Schema{}})
		ts.Check(err)
		ts.Check(d.Update(context.Background(), func(tx *db.Tx) error {
			both := db.Row{Key: []byte("k"), Text: "a text", Vector: []float32{1, 2}}
			return errors.Join(tx.Collection("letters").Put(db.Row{Key: []byte("k"), Text: "abc"}),
				tx.Collection("both").Put(both))
		}))
	},
	// many FILE N WORD writes texts, one a line; the last one has the word.
	"many": func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "text number %d of one and others", i)
			if i == n-1 {
				fmt.Fprint(&b, " ", strings.Join(args[2:], " "))
			}
			b.WriteString("\n")
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
	},
	// damage FILE KIND flips a bit of the first block of the kind (codec/FORMAT.md), or of
	// a meta page of bbolt for "meta".
	"damage": func(ts *testscript.TestScript, _ bool, args []string) {
		path := ts.MkAbs(args[0])
		data, err := os.ReadFile(path)
		ts.Check(err)
		at := 40
		if args[1] != "meta" {
			kind, err := strconv.Atoi(args[1])
			ts.Check(err)
			at = bytes.Index(data, []byte{'A', 'N', 'N', 'B', 1, 0, byte(kind), 0})
			if at < 0 {
				ts.Fatalf("no block of kind %d in %s", kind, args[0])
			}
			at += 64
		}
		data[at] ^= 1
		ts.Check(os.WriteFile(path, data, 0o600))
	},
}

// runLine runs one command of a session and appends what it wrote. Words are separated
// by blanks; single quotes keep them together.
func runLine(ts *testscript.TestScript, b *strings.Builder, line string) {
	args := words(line)
	err := ts.Exec(args[0], args[1:]...)
	out, errs := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	b.WriteString(stable(out))
	for line := range strings.Lines(stable(errs)) {
		if internal.MatchString(line) {
			ts.Fatalf("a message for Go programs: %s", line)
		}
		b.WriteString("! " + line)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		fmt.Fprintf(b, "[exit %d]\n", exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%s: %v", line, err)
	}
	b.WriteString("\n")
}

// words are the words of a line, without quotes.
func words(line string) (words []string) {
	for _, w := range word.FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(w, "'", ""))
	}
	return words
}

// internal matches what only Go programs know: packages, classes of errors, fields.
var internal = regexp.MustCompile(`\b(db|dataset|codec|forest): |(bad|invalid) option|Accept[A-Z]|panic`)

var word = regexp.MustCompile(`(?:[^\s']|'[^']*')+`)

// varying are the columns of tables that depend on the machine and on the moment.
var varying = []string{
	"seconds", "rows/s", "micros", "p50", "p95", "p99", "per_second", "memory", "size", "bytes", "before",
	"after", "free", "live", "map_reserve", "time", "page", "offset",
}

// phrases are texts that do, each with what takes its place. In tables it is as wide.
var phrases = []struct {
	text *regexp.Regexp
	with string
}{
	{dear, ""},
	{regexp.MustCompile(`(?m)^time: \S+$`), "time: ~"},
	{regexp.MustCompile(`(?m)^[a-z -]+:(?: [^\n]+,)? (?:\d+m)?\d+s(?:, \S+ left)?\n`), ""}, // progress after 10 s
	{regexp.MustCompile(`(queries: [^\n]*, )[\d.]+ [µm]?s( each)?`), "$1~$2"},
	{regexp.MustCompile(`checksum [\da-f]{8}, stored [\da-f]{8}`), "checksum ~~~~~~~~, stored ~~~~~~~~"},
	{regexp.MustCompile(`0x[\da-f]{16}`), "0x~"},
	{regexp.MustCompile(`The system cannot find the (?:file|path) specified\.`), "no such file or directory"},
	{regexp.MustCompile(`(?m)^(stage +seconds\n)(?:.+\n)+`), "$1~\n"}, // slow stages come first
}

// rowTime is the one row of a table whose value is a time.
var rowTime = regexp.MustCompile(`µs a row(?: +[\d.]+)+`)

// stable returns an output with ~ in the place of what is measured.
func stable(out string) string {
	for _, p := range phrases {
		out = p.text.ReplaceAllString(out, p.with)
	}
	out = rowTime.ReplaceAllStringFunc(out, func(row string) string {
		return fmt.Sprintf("µs a row%*s", len(row)-len("µs a row"), "~")
	})
	lines := strings.Split(out, "\n")
	for lo := 0; lo < len(lines); lo++ {
		hi := lo
		for hi < len(lines) && lines[hi] != "" {
			hi++
		}
		hideColumns(lines[lo:hi])
		lo = max(lo, hi)
	}
	return strings.Join(lines, "\n")
}

// cell matches a cell of a table: words with single blanks between them.
var cell = regexp.MustCompile(`\S+(?: \S+)*`)

// hideColumns hides the measured columns of an aligned table, below any lines that are
// no heading.
func hideColumns(lines []string) {
	type column struct {
		lo, hi int
		hidden bool
	}
	var columns []column
	span := func(line string, at []int) (lo, hi int) {
		return utf8.RuneCountInString(line[:at[0]]), utf8.RuneCountInString(line[:at[1]])
	}
	for len(lines) > 0 {
		columns = columns[:0]
		for _, at := range cell.FindAllStringIndex(lines[0], -1) {
			lo, hi := span(lines[0], at)
			columns = append(columns, column{lo, hi, slices.Contains(varying, lines[0][at[0]:at[1]])})
		}
		if slices.ContainsFunc(columns, func(c column) bool { return c.hidden }) || strings.HasPrefix(lines[0], "measure ") {
			break
		}
		lines = lines[1:]
	}
	// A cell is below a part of its heading and of no other: first the widths, then the text.
	heads := slices.Clone(columns)
	of := func(lo, hi int) int {
		return slices.IndexFunc(heads, func(c column) bool { return lo < c.hi && hi > c.lo })
	}
	for _, line := range lines {
		for _, at := range cell.FindAllStringIndex(line, -1) {
			lo, hi := span(line, at)
			if i := of(lo, hi); i >= 0 {
				columns[i].lo, columns[i].hi = min(columns[i].lo, lo), max(columns[i].hi, hi)
			}
		}
	}
	for n, line := range lines {
		runes := []rune(line)
		var parts []string
		for i, c := range columns {
			text, width := string(runes[min(c.lo, len(runes)):min(c.hi, len(runes))]), c.hi-c.lo
			if c.hidden {
				text, width = strings.TrimSpace(text), heads[i].hi-heads[i].lo
				if n > 0 && text != "" {
					text = "~"
				}
			}
			text += strings.Repeat(" ", width-utf8.RuneCountInString(text))
			parts = append(parts, text)
		}
		lines[n] = strings.TrimRight(strings.Join(parts, "  "), " ")
	}
}
