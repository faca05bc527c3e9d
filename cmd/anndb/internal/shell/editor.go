package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/peterh/liner"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
)

// interactive reads commands from the terminal until the user leaves.
func (s *session) interactive(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// A Ctrl-C that comes too late for a command must not end the shell.
	late := make(chan os.Signal, 1)
	signal.Notify(late, os.Interrupt)
	defer signal.Stop(late)
	s.Typed = true
	fmt.Fprintf(s.Out, "anndb on %s. help lists the commands, which need no file here. Ctrl-D leaves.\n",
		s.file)
	e := newEditor(s.Errs)
	defer e.close()
	e.line.SetTabCompletionStyle(liner.TabPrints)
	e.line.SetWordCompleter(func(line string, pos int) (head string, all []string, tail string) {
		head, tail = string([]rune(line)[:pos]), string([]rune(line)[pos:])
		words, at := script.Typed(e.before + head)
		if at -= len(e.before); at < 0 || len(words) == 0 { // a word of several lines, or a filter
			return head, nil, tail
		}
		if words[0] == "help" {
			words = words[1:]
		}
		c := completion{ctx: ctx, model: s.Model, file: s.file, program: &s.Program}
		for _, x := range c.complete(words) {
			word := script.Escape(x.word)
			if !strings.HasSuffix(word, "/") && !strings.HasSuffix(word, "=") {
				word += " "
			}
			all = append(all, word)
		}
		return head[:at], all, tail
	})
	for !s.ended && ctx.Err() == nil {
		text, err := e.command(ctx)
		switch {
		case errors.Is(err, liner.ErrPromptAborted):
			continue
		case errors.Is(err, io.EOF):
			return command.ExitOK
		case err != nil:
			return s.Fail(s.Globals, err, "")
		case strings.ContainsRune(text, utf8.RuneError):
			_ = s.Fail(s.Globals, command.Usagef("the line has a character that is not UTF-8: nothing was run"), "")
			continue
		}
		s.script(ctx, text)
	}
	return command.ExitOK
}

// editor reads commands from the terminal. Where TERM names one without cursor movement it writes
// plain prompts.
type editor struct {
	line *liner.State
	errs io.Writer
	// commands and editing are the modes of the terminal while commands run and while lines are read.
	commands, editing liner.ModeApplier
	history           *os.File // nil if it is not kept
	before            string   // the lines of the command in front of the one that is edited
}

// newEditor returns an editor with the history of former shells.
func newEditor(errs io.Writer) *editor {
	e := &editor{errs: errs}
	e.commands, _ = liner.TerminalMode() // of a terminal, as the caller has checked
	e.line = liner.NewLiner()
	e.editing, _ = liner.TerminalMode()
	e.line.SetCtrlCAborts(true)
	var err error
	if e.history, err = openHistory(e.line); err != nil {
		fmt.Fprintf(errs, "anndb: the history is not kept: %v\n", err)
	}
	return e
}

// openHistory reads the commands of former shells, one a line, and returns the file to add others to.
func openHistory(line *liner.State) (*os.File, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	path := filepath.Join(dir, "anndb", "history")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	text, _ := os.ReadFile(path) // opening it has the error as well
	for command := range strings.Lines(string(text)) {
		line.AppendHistory(strings.TrimSuffix(command, "\n"))
	}
	if bytes.Count(text, []byte("\n")) > 2*liner.HistoryLimit {
		err := command.WriteFile(path, 0o600, func(w io.Writer) error {
			_, err := line.WriteHistory(w)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
}

func (e *editor) close() {
	_ = e.line.Close()
	_ = e.history.Close() // of a history that is not kept, too
}

// command returns the next command, which may have several lines. It ends the program when ctx ends,
// because nothing else interrupts reading from a terminal.
func (e *editor) command(ctx context.Context) (string, error) {
	_ = e.editing.ApplyMode()
	defer e.commands.ApplyMode()
	read := context.AfterFunc(ctx, func() {
		e.close()
		os.Exit(command.ExitInterrupted)
	})
	defer read()
	prompt := "anndb> "
	e.before = ""
	for {
		text, err := e.line.Prompt(prompt)
		switch {
		case errors.Is(err, io.EOF) && e.before != "":
			return "", liner.ErrPromptAborted
		case err != nil:
			return "", err
		}
		text = e.before + text
		if _, err = script.Split(text); !errors.Is(err, script.ErrOpen) {
			e.keep(text)
			return text, nil
		}
		e.before, prompt = text+"\n", "  ...> "
	}
}

// keep adds a command to the history, whose commands have one line.
func (e *editor) keep(text string) {
	if strings.TrimSpace(text) == "" || strings.Contains(text, "\n") {
		return
	}
	e.line.AppendHistory(text)
	if e.history == nil {
		return
	}
	if _, err := fmt.Fprintln(e.history, text); err != nil {
		fmt.Fprintf(e.errs, "anndb: the history is not kept: %v\n", err)
		e.history = nil
	}
}
