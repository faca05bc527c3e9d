package main

import (
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/lcifbench"
	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// benchLCIFCmd repeats the paper's experiments with label models.
type benchLCIFCmd struct {
	Data string `arg:"" help:"Folder of the data sets, one folder each."`

	Sets       []string `help:"Data sets; those of the paper's Table 2 if not given."`
	Objectives []string `help:"Measures to tune for, each on its own: micro-f1, macro-f1, accuracy, hamming-loss, p@1, p@3, p@5; those of Table 2 if not given, of Table 3 with --extreme."`
	Extreme    bool     `help:"The measures of Table 3 instead of Table 2."`
	Folds      int      `help:"Folds of the cross-validation; 0 for 10." default:"0"`
	TuneRows   int      `help:"Rows tried at most in tuning a large set; 0 for 10,000." default:"0"`
	Seed       uint64   `help:"Seed of the folds." default:"0"`
}

// options are the flags as package lcifbench takes them.
func (c *benchLCIFCmd) options(a *app) (lcifbench.Options, error) {
	o := lcifbench.Options{Folds: c.Folds, TuneRows: c.TuneRows, Seed: c.Seed, Workers: a.workers, Progress: a.progress.update}
	if c.Folds < 0 || c.Folds == 1 || c.TuneRows < 0 {
		return o, usagef("--folds must be 0 or at least 2, --tune-rows not negative")
	}
	if c.Extreme {
		o.Objectives = lcifbench.ExtremeObjectives
	}
	if len(c.Objectives) > 0 {
		o.Objectives = nil
	}
	for _, name := range c.Objectives {
		var objective query.LCIFObjective
		if err := objective.UnmarshalText([]byte(name)); err != nil {
			return o, usagef("--objectives: %v", err)
		}
		o.Objectives = append(o.Objectives, objective)
	}
	return o, nil
}

// Run executes the command.
func (c *benchLCIFCmd) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return err
	}
	names := c.Sets
	if len(names) == 0 {
		names = lcifbench.Names(true)
	}
	for _, n := range names {
		if !slices.Contains(lcifbench.Names(false), n) {
			return usagef("--sets %q (want some of %s)", n, strings.Join(lcifbench.Names(false), ", "))
		}
	}
	people := a.format == table.Text || a.format == table.Markdown
	quality, times := qualityTable(), timesTable()
	var notes []string
	for _, name := range names {
		set, err := lcifbench.Load(a.ctx, c.Data, name)
		if err != nil {
			return err
		}
		res, err := lcifbench.Evaluate(a.ctx, set, o)
		if err != nil {
			return err
		}
		a.progress.end()
		if people { // as soon as there is something to see: the whole takes minutes
			one := qualityTable()
			addQuality(one, res.Rows)
			a.title("%s: %d rows to train, %d to test. %s", name, res.Times.TrainRows, res.Times.TestRows, res.Note)
			if err := a.table(one); err != nil {
				return err
			}
			a.title("")
		}
		addQuality(quality, res.Rows)
		addTimes(times, res.Times)
		if res.Note != "" {
			notes = append(notes, name+": "+res.Note)
		}
	}
	sections := []section{{"times", "Seconds: tuning for all measures together, training, and predicting all test rows; paper: train and test with lcif", times}}
	if !people {
		remarks := table.New("note")
		for _, n := range notes {
			remarks.Add(n)
		}
		sections = append([]section{{"quality", "", quality}}, append(sections, section{"notes", "", remarks})...)
	}
	return a.report(sections...)
}

// qualityTable has a row for each measure and variant. gap is by how much the
// test figure falls short of the paper's, below zero where it is better.
func qualityTable() *table.Table {
	return table.New("set", "measure", "variant", "tuned:3", "test:3", "test_zero:3", "paper:3", "gap:3", "setting")
}

func addQuality(t *table.Table, rows []lcifbench.QualityRow) {
	for _, r := range rows {
		var paper, gap any
		if r.HasPaper {
			paper, gap = r.Paper, r.Gap()
		}
		setting := query.LCIFSetting{Features: r.Params.Features, K: r.Params.K, Alpha: r.Params.Alpha, Beta: r.Params.Beta, Lambda: r.Params.Lambda}
		t.Add(r.Set, r.Objective.String(), r.Variant.String(), r.Tuned, r.Test, r.TestZero, paper, gap, describeLCIF(setting)+", "+describeCut(r.Cut))
	}
}

func timesTable() *table.Table {
	return table.New("set", "workers", "train_rows", "test_rows", "tune:2", "train:3", "similarities:3", "k", "neighbours:3", "predict:3", "paper:1")
}

func addTimes(t *table.Table, x lcifbench.Times) {
	var paper any
	if _, _, combined, ok := lcifbench.PaperTable6(x.Set); ok {
		paper = combined
	}
	t.Add(x.Set, x.Workers, x.TrainRows, x.TestRows, x.Tune, x.Train, x.Similarities, x.K, x.Neighbors, x.Predict, paper)
}
