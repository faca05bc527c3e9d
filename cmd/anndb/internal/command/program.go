package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	// Remote runs a command in the process of the server that has a file open. It reports false if
	// there is none.
	Remote func(ctx context.Context, p *Program, file string, args []string, g Globals) (code int, served bool)
	Host   *Host // nil in a process of its own
}

// RunCommand runs a command that has been parsed and returns the exit code.
func (p *Program) RunCommand(ctx context.Context, k *kong.Context, g Globals) int {
	if p.Remote != nil {
		if file := fileOf(k); file != "" {
			if code, served := p.Remote(ctx, p, file, k.Args, g); served {
				return code
			}
		}
	}
	tuner := &tunerStop{Stop: make(chan struct{})}
	ctx, stop := p.Interruptible(ctx, tuner.interrupt)
	defer stop()
	out := p.Out
	if IsTerminal(out) {
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

// fileOf returns the database of a command that can run in the process that has it open; empty for others.
func fileOf(k *kong.Context) string {
	if n := k.Selected(); len(n.Positional) > 0 {
		if v := n.Positional[0]; v.Name == "file" && v.Target.Kind() == reflect.String {
			return v.Target.String()
		}
	}
	return ""
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
