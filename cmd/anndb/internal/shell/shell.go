// Package shell runs lines of commands on one file: scripts, and an interactive shell with history and
// completion.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/shell/script"
)

// Command runs commands on one file.
type Command struct {
	File     string   `arg:""`
	Commands []string `arg:"" optional:""`
}

// Start runs the commands and returns the exit code, that of the first one that fails.
func (c *Command) Start(ctx context.Context, p *command.Program, g command.Globals, l Language) int {
	if !command.Exists(c.File) && !strings.ContainsAny(c.File, `./\`) { // a mistyped command
		_, _, code := l.Parse(p, []string{c.File}, c.File)
		return code
	}
	s := &session{Program: *p, Language: l, file: c.File, Globals: g}
	switch {
	case len(c.Commands) == 0 && command.IsTerminal(p.In) && command.IsTerminal(p.Out):
		return s.interactive(ctx)
	case len(c.Commands) == 0, len(c.Commands) == 1 && c.Commands[0] == command.Standard:
		text, err := io.ReadAll(p.In)
		if err != nil {
			return p.Fail(g, fmt.Errorf("standard input: %w", err), "")
		}
		s.named = true
		return s.script(ctx, string(text))
	}
	return s.script(ctx, strings.Join(c.Commands, "\n"))
}

// Language is what the shell knows of commands.
type Language struct {
	// Parse parses a line on a file. It returns nil and the exit code if that was all.
	Parse func(p *command.Program, words []string, file string) (*kong.Context, command.Globals, int)
	Model *kong.Application // of lines
}

// session runs commands on one file.
type session struct {
	command.Program
	command.Globals
	Language
	file  string
	named bool // messages name the line of the script
	ended bool // by quit
}

// script runs commands and stops at the first that fails, with its exit code. Nothing runs of a
// script that ends inside of quotes or is not UTF-8.
func (s *session) script(ctx context.Context, text string) int {
	text = strings.TrimPrefix(text, "\ufeff") // the mark that some editors begin files with
	if !utf8.ValidString(text) {
		good := strings.ToValidUTF8(text, "\n\xff")
		good, _, _ = strings.Cut(good, "\n\xff")
		return s.Fail(s.Globals, command.Usagef("line %d is not UTF-8", 1+strings.Count(good, "\n")), "")
	}
	commands, err := script.Split(text)
	if errors.Is(err, script.ErrOpen) {
		last := commands[len(commands)-1]
		return s.Fail(s.Globals, command.Usagef("line %d: %v", last.Line, err), "")
	}
	if len(commands) == 0 && !s.Typed && !command.Exists(s.file) { // no command will complain
		return s.Fail(s.Globals, command.Explain(s.file, fs.ErrNotExist), "")
	}
	for _, c := range commands {
		if s.ended {
			break
		}
		if code := s.run(ctx, c); code != command.ExitOK {
			if s.named && len(commands) > 1 {
				fmt.Fprintf(s.Errs, "stopped at line %d\n", c.Line)
			}
			return code
		}
	}
	return command.ExitOK
}

// run runs one command and returns its exit code.
func (s *session) run(ctx context.Context, c script.Command) int {
	if word := c.Words[0]; word == "quit" || word == "exit" {
		s.ended = true
		return command.ExitOK
	}
	k, g, code := s.Parse(&s.Program, c.Words, s.file)
	if k == nil {
		return code
	}
	return s.RunCommand(ctx, k, g.Over(s.Globals))
}
