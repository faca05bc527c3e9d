// Package command has what every command works with: the database file, output in all formats, messages and
// exit codes, files to write, and interrupts.
package command

import (
	"context"
	"fmt"
	"io"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// App is what commands work with.
type App struct {
	table.Output
	Flags    Globals
	Ctx      context.Context
	Program  *Program
	Errs     io.Writer // for messages
	Progress *progress.Line
	Tuner    *tunerStop
}

// Run returns how a long call of the command runs.
func (a *App) Run() *db.Run { return &db.Run{Workers: a.Flags.Workers, Progress: a.Progress.Update} }

// Shown returns a path as the user has given it.
func (a *App) Shown(path string) string { return a.Program.Host.Shown(path) }

// Note writes a line about the work to standard error.
func (a *App) Note(format string, args ...any) {
	a.Progress.End()
	fmt.Fprintln(a.Errs, table.PrintableText(fmt.Sprintf(format, args...)))
}

// Summary writes what a command has done to standard error, for people who did not ask for
// quiet, so that standard output has nothing but results.
func (a *App) Summary(format string, args ...any) {
	if a.People() && !a.Flags.Quiet {
		a.Note(format, args...)
	}
}

// Done writes what a command that writes has done, unless the user asked for quiet.
func (a *App) Done(t *table.Table) error {
	if a.Flags.Quiet {
		return nil
	}
	return a.Print(t)
}
