package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
	// exitInterrupted is what shells give a program that SIGINT ends.
	exitInterrupted = 130
)

// program is what all commands of a process share.
type program struct {
	in        io.Reader
	out, errs io.Writer // results; messages and progress
	typed     bool      // the commands are typed in a shell
	// interruptible returns a context that ends when the user interrupts, unless used takes the
	// interrupt for itself.
	interruptible func(ctx context.Context, used func() bool) (context.Context, context.CancelFunc)
}

// runCommand runs a command that has been parsed and returns the exit code.
func (p *program) runCommand(ctx context.Context, k *kong.Context, g globals) int {
	tuner := &tunerStop{stop: make(chan struct{})}
	ctx, stop := p.interruptible(ctx, tuner.interrupt)
	defer stop()
	out := p.out
	if terminal(out) != nil {
		out = quoting{out}
	}
	a := &app{
		Output: table.Output{W: out, Format: g.outputFormat(), Width: widthOf(out)},
		flags:  g, ctx: ctx, program: p, errs: p.errs,
		progress: progress.New(p.errs, g.Quiet), tuner: tuner,
	}
	err := k.Run(a)
	a.progress.End()
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil { // whatever an interrupted part made of it
		err = ctx.Err()
	}
	return p.fail(g, err, k.Command())
}

// fail writes the message of an error and chooses the exit code.
func (p *program) fail(g globals, err error, command string) int {
	code, text := exitError, message(err)
	switch {
	case errors.Is(err, context.Canceled):
		code, text = exitInterrupted, "interrupted"
	case isUsage(err):
		code = exitUsage
	}
	if f := g.outputFormat(); f == table.JSON || f == table.JSONL {
		e := json.NewEncoder(p.errs)
		e.SetEscapeHTML(false)
		_ = e.Encode(map[string]any{"error": text, "exit": code}) // there is nowhere left to report to
		return code
	}
	fmt.Fprintf(p.errs, "anndb: %s\n", text)
	if code == exitUsage {
		word, _, _ := strings.Cut(command, " ")
		if word == "shell" {
			word = ""
		}
		help := strings.Join(strings.Fields("anndb "+word+" --help"), " ")
		if p.typed {
			help = strings.TrimSpace("help " + word)
		}
		fmt.Fprintf(p.errs, "Try: %s\n", help)
	}
	return code
}
