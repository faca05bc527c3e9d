package main

import (
	"context"
	"fmt"
	"io"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
)

// app is what commands work with.
type app struct {
	table.Output
	flags    globals
	ctx      context.Context
	program  *program
	errs     io.Writer // for messages
	progress *progress.Line
	tuner    *tunerStop
}

// run returns how a long call of the command runs.
func (a *app) run() *db.Run { return &db.Run{Workers: a.flags.Workers, Progress: a.progress.Update} }

// note writes a line about the work to standard error.
func (a *app) note(format string, args ...any) {
	a.progress.End()
	fmt.Fprintln(a.errs, table.PrintableText(fmt.Sprintf(format, args...)))
}

// summary writes what a command has done to standard error, for people who did not ask for
// quiet, so that standard output has nothing but results.
func (a *app) summary(format string, args ...any) {
	if a.People() && !a.flags.Quiet {
		a.note(format, args...)
	}
}

// done writes what a command that writes has done, unless the user asked for quiet.
func (a *app) done(t *table.Table) error {
	if a.flags.Quiet {
		return nil
	}
	return a.Print(t)
}
