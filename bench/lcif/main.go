// Command lcif repeats the experiments of Feremans et al. (LCIF, 2020) on public data
// sets: quality and times of label models, next to the figures of the paper.
//
//	go run ./bench/lcif ../shared/data
//	go run ./bench/lcif ../shared/data --sets medical,corel5k --only search --format csv
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/internal/progress"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query/lcif"
)

// extremeSet is the set that the paper's tables of extreme sets are compared
// with.
const extremeSet = "eurlex57k"

// config is the command line.
type config struct {
	Data string `arg:"" help:"Folder of the data sets, one folder each."`

	Sets       []string `help:"Data sets. If not given: for quality those of the paper's Table 2 and eurlex57k, for searches all there are."`
	Only       string   `help:"Measure only quality (Tables 2, 3, 6 and 7), only search (Tables 4 and 5), or only what stored models of fixed parameters take." enum:",quality,search,stored" default:"" placeholder:"PART"`
	Objectives []string `help:"Measures to tune for, each on its own: micro-f1, macro-f1, accuracy, hamming-loss, p@1, p@3, p@5. If not given, those of Table 2, and for eurlex57k of Table 3."`
	Folds      int      `help:"Folds of the cross-validation; 0 for 10." default:"0"`
	TuneRows   int      `help:"Rows tried at most in tuning a large set; 0 for 10,000." default:"0"`
	Paper      bool     `help:"Tune as the paper does (section 5.1): one pass over the parameters and a threshold in steps, instead of the tuner's own search."`
	Seed       uint64   `help:"Seed of the folds." default:"0"`
	K          int      `short:"k" help:"Neighbours that searches ask for." default:"100"`
	Queries    int      `help:"Test rows that searches ask for; 0 for 1,000." default:"0"`
	Rounds     int      `help:"Times to ask every query; 0 for 3." default:"0"`

	JSON    bool   `help:"Write results as JSON."`
	Format  string `help:"How to write results: table, markdown, csv or json." enum:"table,markdown,csv,json" default:"table"`
	Quiet   bool   `short:"q" help:"Show no progress."`
	Workers int    `help:"Goroutines for parallel work; 0 for all processors." default:"0"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program
	var c config
	kong.Parse(&c, kong.Name("lcif"),
		kong.Description("Quality and times of label models on public data sets, next to the paper's."))
	if err := c.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lcif:", err)
		os.Exit(1)
	}
}

// options are the flags as package lcifbench takes them.
func (c *config) options() (lcifbench.Options, error) {
	o := lcifbench.Options{Folds: c.Folds, TuneRows: c.TuneRows, Seed: c.Seed, Workers: c.Workers}
	switch {
	case c.Folds < 0 || c.Folds == 1 || c.TuneRows < 0:
		return o, fmt.Errorf("--folds must be 0 or at least 2, --tune-rows not negative")
	case c.Paper && (c.Only == "search" || c.Only == "stored"):
		return o, fmt.Errorf("--paper is for tuning, which --only %s leaves out", c.Only)
	case c.K < 1:
		return o, fmt.Errorf("-k must be at least 1")
	case c.Queries < 0 || c.Rounds < 0 || c.Workers < 0:
		return o, fmt.Errorf("--queries, --rounds and --workers must not be negative")
	}
	if c.Paper {
		o.Tune.Paper = true
	}
	for _, name := range c.Objectives {
		var objective lcif.Objective
		if err := objective.UnmarshalText([]byte(name)); err != nil {
			return o, fmt.Errorf("--objectives: %v", err)
		}
		if objective > lcif.PrecisionAt5 {
			return o, fmt.Errorf("--objectives %s: the papers have no figures of it", name)
		}
		o.Objectives = append(o.Objectives, objective)
	}
	for _, n := range c.Sets {
		if !slices.Contains(lcifbench.Names(false), n) {
			return o, fmt.Errorf("--sets %q (want some of %s)", n, strings.Join(lcifbench.Names(false), ", "))
		}
	}
	return o, nil
}

// quality reports whether the quality on a set is measured.
func (c *config) quality(set string) bool {
	if c.Only == "search" || c.Only == "stored" || !lcifbench.Labelled(set) {
		return false
	}
	return len(c.Sets) > 0 || set == extremeSet || slices.Contains(lcifbench.Names(true), set)
}

// run makes the measurements and writes them to w, progress to errs.
func (c *config) run(ctx context.Context, w, errs io.Writer) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	line := progress.New(errs, c.Quiet)
	o.Progress = line.Update
	names := c.Sets
	if len(names) == 0 {
		names = lcifbench.Names(false)
	}
	out := table.Output{W: w, Format: table.Format(c.Format)}
	if c.JSON {
		out.Format = table.JSON
	}
	r := &report{
		Output: out, ctx: ctx, progress: line, quality: qualityTable(), times: timesTable(),
		stored: storedTable(), searches: searchTable(), notes: table.New("set", "note"),
	}
	for _, name := range names {
		if c.Only == "quality" && !c.quality(name) || c.Only == "stored" && !lcifbench.Labelled(name) {
			continue
		}
		if err := c.measure(r, name, o); err != nil {
			return err
		}
	}
	line.End()
	const (
		ofTimes = "Seconds: tuning for all measures together, training, the feature–label similarities among " +
			"it, neighbours of all test rows, and predicting them all; paper: what it says of train and test " +
			"(Table 6), for eurlex57k of neighbours, similarities and predictions (Table 7)"
		ofStored = "The same models in a file, opened again: bytes of their parts and of the training rows as " +
			"pairs of feature and value; milliseconds to the first prediction, opening included; seconds for all " +
			"test rows; microseconds of a prediction on one goroutine, one by one and as a batch; test rows " +
			"whose scores differ from those in memory"
	)
	times, stored := r.times.As("times", ofTimes), r.stored.As("stored", ofStored)
	if r.People() {
		return r.Report(times, stored)
	}
	return r.Report(r.quality.As("quality", ""), times, stored, r.searches.As("searches", ""), r.notes.As("notes", ""))
}

// measure measures the chosen parts on one set.
func (c *config) measure(r *report, name string, o lcifbench.Options) error {
	r.progress.Update("read "+name, 0, 0)
	set, err := lcifbench.Load(r.ctx, c.Data, name)
	if err != nil {
		return err
	}
	r.progress.End()
	r.Title("%s: %d rows to train, %d to test. %s", name, set.Train.Rows.Rows(), set.Test.Rows.Rows(), set.Note)
	if set.Note != "" {
		r.notes.Add(name, set.Note)
	}
	if c.quality(name) {
		if err := r.measureQuality(set, o); err != nil {
			return err
		}
	}
	if c.Only == "stored" {
		if err := r.measureStored(set, &lcifbench.StoredParams, o); err != nil {
			return err
		}
	}
	if c.Only == "" || c.Only == "search" {
		return r.measureSearches(set, lcifbench.SearchOptions{
			K: c.K, Queries: c.Queries, Rounds: c.Rounds, Progress: o.Progress,
		})
	}
	return nil
}

// report gathers the tables. People see those of a set as soon as they are
// there, since the whole takes minutes.
type report struct {
	table.Output
	ctx                                     context.Context
	progress                                *progress.Line
	quality, times, stored, searches, notes *table.Table
}

func (r *report) show(t *table.Table) error {
	r.progress.End()
	if !r.People() {
		return nil
	}
	if err := r.Print(t); err != nil {
		return err
	}
	r.Title("")
	return nil
}

func (r *report) measureQuality(set *lcifbench.Set, o lcifbench.Options) error {
	if set.Name == extremeSet && len(o.Objectives) == 0 {
		o.Objectives = lcifbench.ExtremeObjectives
	}
	res, err := lcifbench.Evaluate(r.ctx, set, o)
	if err != nil {
		return err
	}
	addTimes(r.times, res.Times)
	if err := r.measureStored(set, &res.Choice.Curve.Params, o); err != nil {
		return err
	}
	addQuality(r.quality, res.Rows)
	one := qualityTable()
	addQuality(one, res.Rows)
	return r.show(one)
}

func (r *report) measureStored(set *lcifbench.Set, p *lcif.Params, o lcifbench.Options) error {
	dir, err := os.MkdirTemp("", "anndb-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	kept, err := lcifbench.Store(r.ctx, dir, set, p, o)
	if err != nil {
		return err
	}
	addStored(r.stored, kept)
	return nil
}

func (r *report) measureSearches(set *lcifbench.Set, o lcifbench.SearchOptions) error {
	rows, err := lcifbench.Search(r.ctx, set, o)
	if err != nil {
		return err
	}
	addSearches(r.searches, rows)
	one := searchTable()
	addSearches(one, rows)
	r.progress.End()
	r.Title("Searches, one thread; faster: than TAAT by a hash map; wrong: answers that differ from brute force.")
	return r.show(one)
}
