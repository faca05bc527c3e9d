package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/script"
)

// shellCmd runs commands on one file.
type shellCmd struct {
	File     string   `arg:"" help:"Database file; create and import make one."`
	Commands []string `arg:"" optional:"" help:"Commands, with newlines or semicolons between; - reads them from standard input. Without any the shell opens on a terminal."`
}

// run runs the commands and returns the exit code, that of the first one that fails.
func (c *shellCmd) run(ctx context.Context, p *program, g globals, l language) int {
	if !exists(c.File) && !strings.ContainsAny(c.File, `./\`) {
		more := instead(c.File, l.names)
		return p.fail(g, usagef("there is no command and no file %q%s", c.File, more), "")
	}
	s := &session{program: *p, language: l, file: c.File, globals: g}
	defer s.close()
	switch {
	case len(c.Commands) == 0 && terminal(p.in) != nil && terminal(p.out) != nil:
		return s.interactive(ctx)
	case len(c.Commands) == 0, len(c.Commands) == 1 && c.Commands[0] == standard:
		text, err := io.ReadAll(p.in)
		if err != nil {
			return p.fail(g, fmt.Errorf("standard input: %w", err), "")
		}
		s.named = true
		return s.script(ctx, string(text))
	}
	return s.script(ctx, strings.Join(c.Commands, "\n"))
}

// language is what the shell knows of commands.
type language struct {
	// parse parses a line on a file. It returns nil and the exit code if that was all.
	parse func(p *program, words []string, file string) (*kong.Context, globals, int)
	model *kong.Application // of lines
	names []string          // of commands on the command line
}

// session runs commands on one file and has what backslash commands set.
type session struct {
	program
	globals
	language
	file    string
	timing  bool
	output  *os.File // of \output, nil for standard output
	named   bool     // messages name the line of the script
	reading int      // files of \read that are being read
	ended   bool     // \quit
}

// close closes the file of \output.
func (s *session) close() {
	if s.output != nil {
		_ = s.output.Close()
	}
}

// script runs commands and stops at the first that fails, with its exit code. Nothing runs of a
// script that ends inside of quotes or is not UTF-8.
func (s *session) script(ctx context.Context, text string) int {
	text = strings.TrimPrefix(text, "\ufeff") // the mark that some editors begin files with
	if !utf8.ValidString(text) {
		good := strings.ToValidUTF8(text, "\n\xff")
		good, _, _ = strings.Cut(good, "\n\xff")
		return s.fail(s.globals, usagef("line %d is not UTF-8", 1+strings.Count(good, "\n")), "")
	}
	commands, err := script.Split(text)
	if errors.Is(err, script.ErrOpen) {
		last := commands[len(commands)-1]
		return s.fail(s.globals, usagef("line %d: %v", last.Line, err), "")
	}
	if len(commands) == 0 && !s.typed && !exists(s.file) { // no command will complain
		return s.fail(s.globals, explain(s.file, fs.ErrNotExist), "")
	}
	for _, c := range commands {
		if s.ended {
			break
		}
		if code := s.timed(func() int { return s.run(ctx, c) }); code != exitOK {
			if s.named && len(commands) > 1 {
				fmt.Fprintf(s.errs, "stopped at line %d\n", c.Line)
			}
			return code
		}
	}
	return exitOK
}

// run runs one command and returns its exit code.
func (s *session) run(ctx context.Context, c script.Command) int {
	if strings.HasPrefix(c.Words[0], `\`) {
		if err := s.backslash(ctx, c.Words); err != nil {
			if code := exitCode(0); errors.As(err, &code) { // of a script, which has reported it
				return int(code)
			}
			return s.fail(s.globals, err, "")
		}
		return exitOK
	}
	if word := c.Words[0]; word == "quit" || word == "exit" {
		s.ended = true
		return exitOK
	}
	p := s.program
	if s.output != nil {
		p.out = s.output
	}
	k, g, code := s.parse(&p, c.Words, s.file)
	if k == nil {
		return code
	}
	g = g.over(s.globals)
	if err := g.verify(); err != nil {
		return p.fail(g, err, k.Command())
	}
	return p.runCommand(ctx, k, g)
}
