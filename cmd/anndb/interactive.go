package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/reeflective/readline"

	"github.com/anndb/anndb/cmd/anndb/internal/script"
)

// interactive reads commands from the terminal until the user leaves.
func (s *session) interactive(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	// A Ctrl-C that comes too late for a command must not end the shell.
	late := make(chan os.Signal, 1)
	signal.Notify(late, os.Interrupt)
	defer signal.Stop(late)
	rl := readline.NewShell()
	rl.Prompt.Primary(func() string { return "anndb> " })
	rl.Prompt.Secondary(func() string { return "  ...> " })
	rl.AcceptMultiline = func(line []rune) bool {
		_, err := script.Split(string(line))
		return err == nil
	}
	fmt.Fprintf(s.out, "%s. %s for help, Ctrl-D to leave.\n", s.file, `\help`)
	for !s.ended && ctx.Err() == nil {
		text, err := rl.Readline()
		switch {
		case errors.Is(err, readline.ErrInterrupt):
			continue
		case errors.Is(err, io.EOF):
			return exitOK
		case err != nil:
			return s.fail(s.globals, err, "")
		}
		s.script(ctx, text)
	}
	return exitOK
}
