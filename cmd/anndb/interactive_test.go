//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
)

// screen is a shell on a pseudo-terminal.
type screen struct {
	t   *testing.T
	tty *os.File
	cmd *exec.Cmd
	// moves is set where the terminal can move the cursor, by sequences that tests do not see.
	moves bool

	mu   sync.Mutex
	text string // what has been written since the last look
}

// escapes are the control sequences of terminals.
var escapes = regexp.MustCompile(`\x1b(\[[0-9;?]*[ -/]*[@-~]|[=>])`)

// prompt is the end of what a shell writes that waits for a command.
var prompt = regexp.MustCompile(`(anndb> )+\s*$`)

// openShell opens the shell on a file, with flags behind it, in a terminal of 80 columns and 24 lines.
func openShell(t *testing.T, dir, args string, env ...string) *screen {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, strings.Fields(args)...)
	cmd.Args[0], cmd.Dir = "anndb", dir // see TestMain
	cmd.Env = append(os.Environ(), "TERM=xterm", "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	cmd.Env = append(cmd.Env, env...)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t: t, tty: tty, cmd: cmd, moves: !slices.Contains(env, "TERM=dumb") && !slices.Contains(env, "TERM=")}
	go s.read()
	t.Cleanup(func() {
		_ = tty.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	s.prompts("Ctrl-D leaves")
	return s
}

// read collects what the shell writes.
func (s *screen) read() {
	b := make([]byte, 1<<16)
	for {
		n, err := s.tty.Read(b)
		s.mu.Lock()
		s.text += string(b[:n])
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// types sends keys.
func (s *screen) types(keys string) {
	s.t.Helper()
	s.mu.Lock()
	s.text = ""
	s.mu.Unlock()
	if _, err := io.WriteString(s.tty, keys); err != nil {
		s.t.Fatal(err)
	}
}

// sees waits for a text and returns all that has been written since the last keys.
func (s *screen) sees(want string) string {
	s.t.Helper()
	return s.waits(want, func(text string) bool { return strings.Contains(text, want) })
}

// prompts is sees that also waits for the next prompt: what is typed earlier is lost.
func (s *screen) prompts(want string) string {
	s.t.Helper()
	return s.waits(want, func(text string) bool {
		_, behind, found := strings.Cut(text, want)
		return found && prompt.MatchString(behind)
	})
}

// runs types a line and waits for a text in its result.
func (s *screen) runs(line, want string) string {
	s.t.Helper()
	s.types(line + "\r")
	return s.prompts("\n" + want)
}

// waits waits until what has been written is as it should be.
func (s *screen) waits(want string, done func(text string) bool) string {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		s.mu.Lock()
		text := s.text
		if s.moves {
			text = escapes.ReplaceAllString(text, "")
		}
		text = strings.ReplaceAll(text, "\r", "")
		s.mu.Unlock()
		if done(text) {
			return text
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("no %q in\n%s", want, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestShell: what a user types is run, completed, kept and cancelled.
func TestShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.anndb")
	s := openShell(t, dir, file)
	s.runs("create points --dim 2", "collection  kind   dim")
	s.types("put points first [1,\r")
	s.runs("2] --label red", "collection  key    replaced") // continued on a second line
	s.runs("put points 'second row' [3, 4] --attribute price=5", "collection  key         replaced")
	s.types("search \t")
	s.sees("points ")
	s.types("\x15\r")
	s.prompts("")
	s.runs("cou\tpoi\t", "collection  rows\npoints         2")
	s.runs("rows points --pre\tf\t", "key    labels  attributes\nfirst  red")
	s.runs("search points like f\t-k 1", "query  rank  key         distance")
	s.runs("rows points where label in (red) --lim\t1", "key    labels  attributes\nfirst  red")
	s.types("get points \t\t")
	s.sees("first  second\\ row  \nanndb> get points ")
	s.types("\x03")
	s.prompts("^C")
	s.runs("serach points", "anndb: there is no command serach, did you mean \"search\"?\nTry: help\n")
	s.runs("search", "anndb: missing: <collection>\nTry: help search\n")
	s.runs("get points s\t", "key         second row")
	s.runs("count points", "collection  rows\npoints         2")
	s.runs("get points none", "anndb: no such row")
	s.runs("\x10\x15count points", "collection  rows\npoints         2") // the line before, deleted
	s.runs("\x12points no", "anndb: no such row")                        // found in the history
	s.types("half a line\x03")                                           // Ctrl-C leaves the line
	s.prompts("half a line^C")
	s.runs("count points", "collection  rows\npoints         2")
	s.types("\x04")
	if err := s.cmd.Wait(); err != nil {
		t.Error(err)
	}
	if text := read(t, filepath.Join(dir, "state", "anndb", "history")); !strings.Contains(text, `get points none`) {
		t.Errorf("history: %s", text)
	}
	s = openShell(t, dir, file)
	s.runs("\x10", "collection  rows\npoints         2") // the last command of the shell before
}

// TestShellCancels: Ctrl-C ends a command and not the shell, which SIGTERM ends.
func TestShellCancels(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := openShell(t, f.dir, f.file)
	texts, begun := filepath.Join(f.dir, "texts.csv"), filepath.Join(f.dir, "begun")
	if err := os.WriteFile(texts, []byte("body\nhello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.types(fmt.Sprintf("import notes %s --text body --embed 'echo > %s; sleep 3600'\r", texts, begun))
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(10 * time.Millisecond)
	}
	s.types("\x03")
	s.prompts("^C")
	s.runs("count things", fmt.Sprintf("collection  rows\nthings       %d", testRows))
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != command.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// fits checks that a wide table of the fixture fits the terminal.
func (s *screen) fits() {
	s.t.Helper()
	text := s.runs("rows things --limit 30 --vectors", "key")
	for line := range strings.Lines(text[strings.Index(text, "\nkey"):]) {
		if strings.HasPrefix(line, "row-") && (len([]rune(line)) > 81 || !strings.Contains(line, "…")) {
			s.t.Errorf("a line of %d: %s", len([]rune(line)), line)
		}
	}
}

// TestShellFits: tables fit the terminal.
func TestShellFits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := openShell(t, f.dir, f.file)
	s.fits()
}

// TestInterruptedTuner: Ctrl-C during tuning builds with the best setting so far.
func TestInterruptedTuner(t *testing.T) {
	t.Parallel()
	f := newDocs(t)
	s := openShell(t, f.dir, f.file)
	costs := "1"
	for c := 2; c <= 900; c++ { // equal ones would be measured once
		costs += fmt.Sprint(",", c)
	}
	s.types("tune docs trees --kind at --budgets 5 --costs " + costs + "\r")
	s.sees("settings")
	s.types("\x03")
	s.prompts("\"trees\" has the best of the settings measured until then")
	s.runs("predict docs trees like row-1", "")
}

// TestShellServed: a shell on a file that a server has open completes, fits its terminal and cancels as any
// other.
func TestShellServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	server := serve(t, f.file)
	s := openShell(t, f.dir, f.file)
	s.runs("cou\tthi\t", fmt.Sprintf("collection  rows\nthings       %d", testRows))
	s.runs("get things row-00\t1\t", "key")
	s.fits()
	begun := filepath.Join(f.dir, "begun")
	write(t, filepath.Join(f.dir, "texts.csv"), "body\nhello\n")
	s.types("import notes texts.csv --text body --embed 'echo > begun; sleep 3600'\r")
	for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
		time.Sleep(10 * time.Millisecond)
	}
	s.types("\x03")
	s.prompts("^C")
	if code, errs := server.end(); code != command.ExitOK { // as no command is left
		t.Errorf("exit code %d: %s", code, errs)
	}
	s.runs("count things", fmt.Sprintf("collection  rows\nthings       %d", testRows)) // in its own process
}
