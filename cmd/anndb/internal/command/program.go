package command

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
	ExitOK    = 0
	ExitError = 1
	ExitUsage = 2
	// ExitInterrupted is what shells give a program that SIGINT ends.
	ExitInterrupted = 130
)

// Program is what all commands of a process share.
type Program struct {
	In        io.Reader
	Out, Errs io.Writer // results; messages and progress
	Typed     bool      // the commands are typed in a shell
	// Interruptible returns a context that ends when the user interrupts, unless used takes the
	// interrupt for itself.
	Interruptible func(ctx context.Context, used func() bool) (context.Context, context.CancelFunc)
}

// RunCommand runs a command that has been parsed and returns the exit code.
func (p *Program) RunCommand(ctx context.Context, k *kong.Context, g Globals) int {
	tuner := &tunerStop{Stop: make(chan struct{})}
	ctx, stop := p.Interruptible(ctx, tuner.interrupt)
	defer stop()
	out := p.Out
	if Terminal(out) != nil {
		out = quoting{out}
	}
	a := &App{
		Output: table.Output{W: out, Format: g.OutputFormat(), Width: WidthOf(out)},
		Flags:  g, Ctx: ctx, Program: p, Errs: p.Errs,
		Progress: progress.New(p.Errs, g.Quiet), Tuner: tuner,
	}
	err := k.Run(a)
	a.Progress.End()
	if err == nil {
		return ExitOK
	}
	if ctx.Err() != nil { // whatever an interrupted part made of it
		err = ctx.Err()
	}
	return p.Fail(g, err, k.Command())
}

// Fail writes the message of an error and chooses the exit code.
func (p *Program) Fail(g Globals, err error, command string) int {
	code, text := ExitError, Message(err)
	switch {
	case errors.Is(err, context.Canceled):
		code, text = ExitInterrupted, "interrupted"
	case isUsage(err):
		code = ExitUsage
	}
	if f := g.OutputFormat(); f == table.JSON || f == table.JSONL {
		e := json.NewEncoder(p.Errs)
		e.SetEscapeHTML(false)
		_ = e.Encode(map[string]any{"error": text, "exit": code}) // there is nowhere left to report to
		return code
	}
	fmt.Fprintf(p.Errs, "anndb: %s\n", text)
	if code == ExitUsage {
		word, _, _ := strings.Cut(command, " ")
		if word == "shell" {
			word = ""
		}
		help := strings.Join(strings.Fields("anndb "+word+" --help"), " ")
		if p.Typed {
			help = strings.TrimSpace("help " + word)
		}
		fmt.Fprintf(p.Errs, "Try: %s\n", help)
	}
	return code
}
