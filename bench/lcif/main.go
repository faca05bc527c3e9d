// Command lcif repeats the experiments of Feremans et al. (LCIF, 2020) on public data
// sets: the quality of label models, next to the figures of the paper.
//
//	go run ./bench/lcif ../shared/data
//	go run ./bench/lcif ../shared/data --sets medical,corel5k --format csv
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

	Sets       []string `help:"Data sets. If not given, those of the paper's Table 2 and eurlex57k."`
	Objectives []string `help:"Measures to tune for, each on its own: micro-f1, macro-f1, accuracy, hamming-loss, p@1, p@3, p@5. If not given, those of Table 2, and for eurlex57k of Table 3."`
	Folds      int      `help:"Folds of the cross-validation; 0 for 10." default:"0"`
	TuneRows   int      `help:"Rows tried at most in tuning a large set; 0 for 10,000." default:"0"`
	Paper      bool     `help:"Tune as the paper does (section 5.1): one pass over the parameters and a threshold in steps, instead of the tuner's own search."`
	Seed       uint64   `help:"Seed of the folds." default:"0"`

	Format  string `help:"How to write results: table, markdown, csv or json." enum:"table,markdown,csv,json" default:"table"`
	Quiet   bool   `short:"q" help:"Show no progress."`
	Workers int    `help:"Goroutines for parallel work; 0 for all processors." default:"0"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program
	var c config
	kong.Parse(&c, kong.Name("lcif"),
		kong.Description("Quality of label models on public data sets, next to the paper's."))
	if err := c.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "lcif:", err)
		os.Exit(1)
	}
}

// options are the flags as package lcifbench takes them.
func (c *config) options() (lcifbench.Options, error) {
	o := lcifbench.Options{Folds: c.Folds, TuneRows: c.TuneRows, Seed: c.Seed, Workers: c.Workers}
	o.Tune.Paper = c.Paper
	if c.Folds < 0 || c.Folds == 1 || c.TuneRows < 0 || c.Workers < 0 {
		return o, fmt.Errorf("--folds must be 0 or at least 2, --tune-rows and --workers not negative")
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

// run makes the measurements and writes them to w, progress to errs. People see the table of a set as soon
// as it is there, since the whole takes minutes.
func (c *config) run(ctx context.Context, w, errs io.Writer) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	line := progress.New(errs, c.Quiet)
	o.Progress = line.Update
	names := c.Sets
	if len(names) == 0 {
		names = append(lcifbench.Names(true), extremeSet)
	}
	out := table.Output{W: w, Format: table.Format(c.Format)}
	all, notes := qualityTable(), table.New("set", "note")
	for _, name := range names {
		line.Update("read "+name, 0, 0)
		set, err := lcifbench.Load(ctx, c.Data, name)
		if err != nil {
			return err
		}
		rows, err := lcifbench.Evaluate(ctx, set, o)
		if err != nil {
			return err
		}
		line.End()
		one := qualityTable()
		for _, t := range []*table.Table{all, one} {
			addQuality(t, rows)
		}
		if set.Note != "" {
			notes.Add(name, set.Note)
		}
		if !out.People() {
			continue
		}
		out.Title("%s: %d rows to train, %d to test. %s", name, set.Train.Rows.Rows(), set.Test.Rows.Rows(), set.Note)
		if err := out.Print(one); err != nil {
			return err
		}
		out.Title("")
	}
	if out.People() {
		return nil
	}
	return out.Report(all.As("quality", ""), notes.As("notes", ""))
}

// qualityTable has a row for each measure and variant. gap is by how much the
// test figure falls short of the paper's, below zero where it is better; bar is
// what must be reached.
func qualityTable() *table.Table {
	return table.New("set", "measure", "variant", "tuned:3", "test:3", "test_zero:3", "paper:3", "gap:3", "bar:3",
		"setting")
}

func addQuality(t *table.Table, rows []lcifbench.QualityRow) {
	for _, r := range rows {
		var paper, gap, bar any
		if r.HasPaper {
			paper, gap = r.Paper, r.Gap()
		}
		if least, ok := lcifbench.EurlexTarget(r.Objective); ok && r.Set == extremeSet && r.Variant == lcifbench.Combined {
			bar = least
		}
		p := r.Params
		setting := lcif.Setting{Features: p.Features, K: p.K, Alpha: p.Alpha, Beta: p.Beta, Lambda: p.Lambda}
		t.Add(r.Set, r.Objective.String(), r.Variant.String(), r.Tuned, r.Test, r.TestZero, paper, gap, bar,
			setting.Parameters()+", "+r.Cut.String())
	}
}
