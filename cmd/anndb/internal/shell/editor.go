package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	screen := s.Out.(*os.File)
	fmt.Fprintf(s.Out, "anndb on %s. %s lists what the shell does, help the commands. Ctrl-D leaves.\n",
		s.file, `\help`)
	e := newEditor(s.Errs)
	defer e.close()
	e.complete(func(text string) menu { return completion{ctx, s.Model, s.file}.menu(text) })
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
		p := newPager(screen)
		s.Out = p
		s.script(ctx, text)
		if err := p.Close(); err != nil {
			return s.Fail(s.Globals, err, "")
		}
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
	history           *history
	before            string // the lines of the command in front of the one that is edited
}

// newEditor returns an editor with the history of former shells.
func newEditor(errs io.Writer) *editor {
	e := &editor{errs: errs}
	e.commands, _ = liner.TerminalMode() // of a terminal, as the caller has checked
	e.line = liner.NewLiner()
	e.editing, _ = liner.TerminalMode()
	e.line.SetCtrlCAborts(true)
	path, err := historyPath()
	if err == nil {
		e.history, err = openHistory(path)
	}
	if err != nil {
		fmt.Fprintf(errs, "anndb: the history is not kept: %v\n", err)
		e.history = &history{}
	}
	for _, text := range e.history.lines {
		e.remember(text)
	}
	return e
}

func (e *editor) close() { _ = e.line.Close() }

// command returns the next command, with a newline for each line end inside of quotes. It ends the
// program when ctx ends, because nothing else interrupts reading from a terminal.
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
		_, err = script.Split(text)
		switch {
		case !errors.Is(err, script.ErrOpen):
			e.keep(text)
			return text, nil
		case script.Parse(text).Quote != 0:
			text += "\n"
		default: // a bracket is open
			text += " "
		}
		e.before, prompt = text, "  ...> "
	}
}

// keep adds a command to the history.
func (e *editor) keep(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	e.remember(text)
	if err := e.history.add(text); err != nil {
		fmt.Fprintf(e.errs, "anndb: the history is not kept: %v\n", err)
		e.history.path = ""
	}
}

// remember offers a command for editing, which is for one line.
func (e *editor) remember(text string) {
	if !strings.Contains(text, "\n") {
		e.line.AppendHistory(text)
	}
}

// complete sets what the tab key shows.
func (e *editor) complete(menuOf func(text string) menu) {
	e.line.SetWordCompleter(func(line string, pos int) (head string, words []string, tail string) {
		runes := []rune(line)
		head, tail = string(runes[:pos]), string(runes[pos:])
		m := menuOf(e.before + head)
		if m.more == "" {
			if m.text == "" {
				return head, nil, tail
			}
			fmt.Printf("\n%s", m.text)
		}
		return head, []string{m.more}, tail // draws the line again
	})
}
