package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/db"
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

// cli is the grammar of the command line.
type cli struct {
	JSON    bool   `help:"Write results as JSON."`
	Format  string `help:"How to write results: text, markdown, csv or json." enum:",text,markdown,csv,json" default:"" placeholder:"text"`
	Quiet   bool   `short:"q" help:"Show no progress."`
	Workers int    `help:"Goroutines for parallel work; 0 for all processors." default:"0"`

	Version kong.VersionFlag `help:"Show the version."`

	Import   importCmd   `cmd:"" help:"Read vectors from a file into a collection."`
	Export   exportCmd   `cmd:"" help:"Write a collection's rows to a file."`
	Count    countCmd    `cmd:"" help:"Count a collection's rows."`
	Build    buildCmd    `cmd:"" help:"Learn an index over a collection."`
	Tune     tuneCmd     `cmd:"" help:"Tune and learn a label model, and show all settings that were measured."`
	Drop     dropCmd     `cmd:"" help:"Remove an index, or a collection with all its rows."`
	Search   searchCmd   `cmd:"" help:"Find the nearest rows of queries."`
	Predict  predictCmd  `cmd:"" help:"Predict the labels of queries with a label model."`
	Explain  explainCmd  `cmd:"" help:"Predict labels and show the rows and features that carried them, or the decisions of a tree."`
	Evaluate evaluateCmd `cmd:"" help:"Measure recall and latency of indexes, or the quality of label models, on a file of queries."`
	Stats    statsCmd    `cmd:"" help:"Describe the file, its collections and its indexes."`
	Maintain maintainCmd `cmd:"" help:"Make all indexes cover the rows written since and forget those deleted."`
	Check    checkCmd    `cmd:"" help:"Verify every checksum and cross-reference of the file."`
	Repair   repairCmd   `cmd:"" help:"Rebuild damaged indexes from their rows, or save the rows of a damaged file."`
	Restore  restoreCmd  `cmd:"" help:"Check a backup and put a copy of it in the place of a database."`
	Bench    benchCmd    `cmd:"" help:"Recall-time curves of every forest and method on a collection; writes nothing to the file."`
	Plot     plotCmd     `cmd:"" help:"Draw the curves of a bench CSV, or a stored tree."`
	Report   reportCmd   `cmd:"" help:"Write an HTML page about the file: collections, indexes, recall, charts, sizes, health."`
	Backup   backupCmd   `cmd:"" help:"Copy the database, as of now, to another file."`
	Compact  compactCmd  `cmd:"" help:"Rewrite the file without its free pages, and without deleted rows where these are many."`
	Demo     demoCmd     `cmd:"" help:"Index Go's own standard library, search it, and predict what its files import."`
}

// defaults are values that several commands share and some set otherwise.
var defaults = kong.Vars{"limit": "0"}

// app is what commands work with.
type app struct {
	table.Output
	ctx      context.Context
	errs     io.Writer // for messages
	progress *progress.Line
	workers  int
}

// stream begins a result that is written row by row.
func (a *app) stream(columns ...string) (*table.Stream, error) {
	return table.NewStream(a.W, a.Format, columns...)
}

// building takes the reports of db.Build.
func (a *app) building(stage string, done, total int) { a.progress.Update(stage, done, total) }

// note writes a line about the work to standard error.
func (a *app) note(format string, args ...any) {
	a.progress.End()
	fmt.Fprintln(a.errs, table.PrintableText(fmt.Sprintf(format, args...)))
}

// run is the whole program: it parses args, runs one command and returns the
// exit code. Results go to out, messages and progress to errs.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	var c cli
	ended, endCode := false, exitOK
	parser, err := kong.New(&c,
		kong.Name("anndb"),
		kong.Description("One file of vectors, dense and sparse, learned indexes over them, "+
			"nearest neighbours and labels from the memory map."),
		defaults, kong.Vars{"version": version()},
		kong.Writers(out, errs),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true}),
		kong.Exit(func(code int) { ended, endCode = true, code }),
	)
	if err != nil {
		fmt.Fprintf(errs, "anndb: %v\n", err)
		return exitError
	}
	args = plainArgs(args)
	k, err := parser.Parse(args)
	if ended { // --help has been printed
		return endCode
	}
	if err != nil {
		// Flags that need not be given have an empty value, which nobody has to give.
		text := strings.Replace(err.Error(), `one of "",`, "one of ", 1)
		return fail(errs, usagef("%s", text), commandOf(args))
	}
	format, err := c.format()
	if err == nil && c.Workers < 0 {
		err = usagef("--workers must not be negative")
	}
	if err != nil {
		return fail(errs, err, k.Command())
	}
	a := &app{
		Output: table.Output{W: out, Format: format}, ctx: db.WithWorkers(ctx, c.Workers), errs: errs,
		progress: progress.New(errs, c.Quiet), workers: c.Workers,
	}
	err = k.Run(a)
	a.progress.End()
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil { // whatever an interrupted part made of it
		err = ctx.Err()
	}
	return fail(errs, err, k.Command())
}

var (
	// negative matches a number that the parser would take for a flag.
	negative  = regexp.MustCompile(`^-[.\d]`)
	longFlag  = regexp.MustCompile(`^--[a-z][a-z\d-]*$`)
	shortFlag = regexp.MustCompile(`^-[a-z]$`)
)

// plainArgs makes of help and version, and of no arguments, the flags that do the
// same, and joins flags to a negative number behind them.
func plainArgs(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "version":
		return []string{"--version"}
	}
	out := make([]string, 0, len(args))
	for i, arg := range args {
		switch {
		case i > 0 && negative.MatchString(arg) && longFlag.MatchString(args[i-1]):
			out[len(out)-1] += "=" + arg
		case i > 0 && negative.MatchString(arg) && shortFlag.MatchString(args[i-1]):
			out[len(out)-1] += arg
		case len(arg) > 3 && shortFlag.MatchString(arg[:2]) && arg[2] == '=':
			out = append(out, arg[:2]+arg[3:]) // -k=3 is -k3
		default:
			out = append(out, arg)
		}
	}
	return out
}

// version describes the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "anndb"
	}
	return strings.TrimSpace(fmt.Sprintf("anndb %s %s", info.Main.Version, info.GoVersion))
}

// format is how results are written.
func (c *cli) format() (table.Format, error) {
	switch {
	case c.JSON && c.Format != "" && c.Format != string(table.JSON):
		return "", usagef("--json and --format %s exclude each other", c.Format)
	case c.JSON:
		return table.JSON, nil
	case c.Format == "":
		return table.Text, nil
	}
	return table.Format(c.Format), nil
}

// fail writes the message of an error and chooses the exit code.
func fail(errs io.Writer, err error, command string) int {
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(errs, "anndb: interrupted")
		return exitInterrupted
	}
	fmt.Fprintf(errs, "anndb: %s\n", message(err))
	if !isUsage(err) {
		return exitError
	}
	help := "anndb --help"
	if word, _, _ := strings.Cut(command, " "); word != "" {
		help = "anndb " + word + " --help"
	}
	fmt.Fprintf(errs, "Try: %s\n", help)
	return exitUsage
}

// commandOf guesses the command of arguments that did not parse: the first
// one that names a command.
func commandOf(args []string) string {
	parser, err := kong.New(&cli{}, defaults)
	if err != nil {
		return ""
	}
	for _, a := range args {
		for _, n := range parser.Model.Children {
			if n.Name == a {
				return a
			}
		}
	}
	return ""
}

// inFile is the database file of a command that needs an existing one.
type inFile struct {
	File string `arg:"" help:"Database file."`
}

// open opens the file; it must exist.
func (f inFile) open(a *app, readOnly bool) (*db.DB, error) {
	o := &db.Options{ReadOnly: readOnly, MustExist: true, Maintenance: &db.Maintenance{Manual: true}}
	d, err := db.OpenContext(a.ctx, f.File, o)
	return d, explain(f.File, err)
}

// with opens the file, runs f and closes it; the first error counts.
func (f inFile) with(a *app, readOnly bool, work func(*db.DB) error) (err error) {
	d, err := f.open(a, readOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	err = work(d)
	if errors.Is(err, db.ErrCorrupt) {
		err = explain(f.File, err)
	}
	return err
}

// snapshot opens the file read-only and runs f on its current state.
func (f inFile) snapshot(a *app, work func(*db.Snapshot) error) error {
	return f.with(a, true, func(d *db.DB) error { return d.View(work) })
}

// collection opens the file read-only and runs f on the current state of one of
// its collections.
func (f inFile) collection(a *app, name string, work func(*db.Snapshot, db.CollectionInfo) error) error {
	return f.snapshot(a, func(s *db.Snapshot) error {
		info, err := s.Collection(name).Info()
		if err != nil {
			return err
		}
		return work(s, info)
	})
}
