package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/lcifbench"
	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// extremeSet is the set that the paper's tables of extreme sets are compared
// with.
const extremeSet = "eurlex57k"

// Whole passes over the queries, one after the other and all at once.
const (
	onePass   = "ours, pass"
	batchPass = "ours, batch"
)

// benchLCIFCmd repeats the paper's experiments with label models.
type benchLCIFCmd struct {
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
}

// options are the flags as package lcifbench takes them.
func (c *benchLCIFCmd) options(a *app) (lcifbench.Options, error) {
	o := lcifbench.Options{Folds: c.Folds, TuneRows: c.TuneRows, Seed: c.Seed, Workers: a.workers, Progress: a.progress.update}
	switch {
	case c.Folds < 0 || c.Folds == 1 || c.TuneRows < 0:
		return o, usagef("--folds must be 0 or at least 2, --tune-rows not negative")
	case c.Paper && (c.Only == "search" || c.Only == "stored"):
		return o, usagef("--paper is for tuning, which --only %s leaves out", c.Only)
	case c.K < 1:
		return o, usagef("-k must be at least 1")
	case c.Queries < 0 || c.Rounds < 0:
		return o, usagef("--queries and --rounds must not be negative")
	}
	if c.Paper {
		o.Tune.Search = query.PaperProtocol
	}
	for _, name := range c.Objectives {
		var objective query.LCIFObjective
		if err := objective.UnmarshalText([]byte(name)); err != nil {
			return o, usagef("--objectives: %v", err)
		}
		o.Objectives = append(o.Objectives, objective)
	}
	for _, n := range c.Sets {
		if !slices.Contains(lcifbench.Names(false), n) {
			return o, usagef("--sets %q (want some of %s)", n, strings.Join(lcifbench.Names(false), ", "))
		}
	}
	return o, nil
}

// quality reports whether the quality on a set is measured.
func (c *benchLCIFCmd) quality(set string) bool {
	if c.Only == "search" || c.Only == "stored" || !lcifbench.Labelled(set) {
		return false
	}
	return len(c.Sets) > 0 || set == extremeSet || slices.Contains(lcifbench.Names(true), set)
}

// Run executes the command.
func (c *benchLCIFCmd) Run(a *app) error {
	o, err := c.options(a)
	if err != nil {
		return err
	}
	names := c.Sets
	if len(names) == 0 {
		names = lcifbench.Names(false)
	}
	r := &lcifReport{app: a, quality: qualityTable(), times: timesTable(), stored: storedTable(), searches: searchTable(), notes: table.New("set", "note")}
	r.people = a.format == table.Text || a.format == table.Markdown
	for _, name := range names {
		if c.Only == "quality" && !c.quality(name) || c.Only == "stored" && !lcifbench.Labelled(name) {
			continue
		}
		a.progress.update("read "+name, 0, 0)
		set, err := lcifbench.Load(a.ctx, c.Data, name)
		if err != nil {
			return err
		}
		a.progress.end()
		a.title("%s: %d rows to train, %d to test. %s", name, set.Train.Rows.Rows(), set.Test.Rows.Rows(), set.Note)
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
			so := lcifbench.SearchOptions{K: c.K, Queries: c.Queries, Rounds: c.Rounds, Progress: a.progress.update}
			if err := r.measureSearches(set, so); err != nil {
				return err
			}
		}
	}
	times := section{"times", "Seconds: tuning for all measures together, training, the feature–label similarities among it, neighbours of all test rows, and predicting them all; paper: what it says of train and test (Table 6), for eurlex57k of neighbours, similarities and predictions (Table 7)", r.times}
	stored := section{"stored", "The same models in a file, opened again: bytes of their parts and of the training rows as pairs of feature and value; milliseconds to the first prediction, opening included; seconds for all test rows; microseconds of a prediction on one goroutine, one by one and as a batch; test rows whose scores differ from those in memory", r.stored}
	if r.people {
		return a.report(times, stored)
	}
	return a.report(section{"quality", "", r.quality}, times, stored, section{"searches", "", r.searches}, section{"notes", "", r.notes})
}

// lcifReport gathers the tables. People see those of a set as soon as they are
// there, since the whole takes minutes.
type lcifReport struct {
	*app
	people                                  bool
	quality, times, stored, searches, notes *table.Table
}

func (r *lcifReport) show(t *table.Table) error {
	r.progress.end()
	if !r.people {
		return nil
	}
	if err := r.table(t); err != nil {
		return err
	}
	r.title("")
	return nil
}

func (r *lcifReport) measureQuality(set *lcifbench.Set, o lcifbench.Options) error {
	if set.Name == extremeSet && len(o.Objectives) == 0 {
		o.Objectives = lcifbench.ExtremeObjectives
	}
	res, err := lcifbench.Evaluate(r.ctx, set, o)
	if err != nil {
		return err
	}
	addTimes(r.times, res.Times)
	if err := r.measureStored(set, &res.Choice.Params, o); err != nil {
		return err
	}
	addQuality(r.quality, res.Rows)
	one := qualityTable()
	addQuality(one, res.Rows)
	return r.show(one)
}

func (r *lcifReport) measureStored(set *lcifbench.Set, p *query.LCIFParams, o lcifbench.Options) error {
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

func (r *lcifReport) measureSearches(set *lcifbench.Set, o lcifbench.SearchOptions) error {
	rows, err := lcifbench.Search(r.ctx, set, o)
	if err != nil {
		return err
	}
	addSearches(r.searches, rows)
	one := searchTable()
	addSearches(one, rows)
	r.progress.end()
	r.title("Searches, one thread; faster: than dense TAAT, for a batch than one by one; wrong: answers that differ from brute force.")
	return r.show(one)
}

// qualityTable has a row for each measure and variant. gap is by how much the
// test figure falls short of the paper's, below zero where it is better; bar is
// what must be reached.
func qualityTable() *table.Table {
	return table.New("set", "measure", "variant", "tuned:3", "test:3", "test_zero:3", "paper:3", "gap:3", "bar:3", "setting")
}

func addQuality(t *table.Table, rows []lcifbench.QualityRow) {
	for _, r := range rows {
		var paper, gap, bar any
		if r.HasPaper {
			paper, gap = r.Paper, r.Gap()
		}
		if least, ok := lcifbench.EurlexTarget(r.Objective); ok && r.Set == extremeSet && r.Variant == query.Combined {
			bar = least
		}
		setting := query.LCIFSetting{Features: r.Params.Features, K: r.Params.K, Alpha: r.Params.Alpha, Beta: r.Params.Beta, Lambda: r.Params.Lambda}
		t.Add(r.Set, r.Objective.String(), r.Variant.String(), r.Tuned, r.Test, r.TestZero, paper, gap, bar, describeLCIF(setting)+", "+describeCut(r.Cut))
	}
}

func timesTable() *table.Table {
	return table.New("set", "train_rows", "test_rows", "tune:2", "train:3", "similarities:3", "k", "neighbours:3", "predict:3", "paper")
}

func addTimes(t *table.Table, x lcifbench.Times) {
	var paper any
	if _, _, combined, ok := lcifbench.PaperTable6(x.Set); ok {
		paper = fmt.Sprintf("train and test %.1f", combined)
	} else if p := lcifbench.PaperTable7; x.Set == extremeSet {
		paper = fmt.Sprintf("grid %.1f, neighbours %.1f, similarities %.1f, predictions by features %.1f", p[0], p[1], p[2], p[3])
	}
	t.Add(x.Set, x.TrainRows, x.TestRows, x.Tune, x.Train, x.Similarities, x.K, x.Neighbors, x.Predict, paper)
}

// storedTable has a row for each label model in a file. share is that of the
// inverted index of the pairs.
func storedTable() *table.Table {
	return table.New("set", "pairs", "index", "share:2", "similarities", "labels", "first_ms:1", "test_rows", "predict:3", "one_micros:1", "batch_micros:1", "faster:2", "differ")
}

func addStored(t *table.Table, r lcifbench.StoredRow) {
	t.Add(r.Set, r.Pairs, r.Index, float64(r.Index)/float64(max(1, r.Pairs)), r.Similarities, r.Labels, r.First, r.TestRows, r.Predict, r.One, r.Batch, r.One/max(r.Batch, 1e-9), r.Differ)
}

// searchTable has a row for each strategy. faster is how many times as long
// plain TAAT with a dense accumulator takes, for whole passes how many times as
// long one query after the other takes; wrong counts queries whose answers
// differ from brute force.
func searchTable() *table.Table {
	return table.New("set", "strategy", "rows", "queries", "length:1", "candidates:0", "share:3", "paper_candidates", "micros:1", "faster:2", "paper_micros", "taat_share:3", "size", "bytes", "wrong")
}

func addSearches(t *table.Table, rows []lcifbench.SearchRow) {
	// The paper gives the candidates of its best m only: it stands where ours
	// is best.
	best := ""
	var least, pass float64
	for _, r := range rows {
		if r.Strategy == onePass {
			pass = r.Micros
		}
		if strings.HasPrefix(r.Strategy, "m = ") && r.Strategy != "m = 0" && (best == "" || r.Candidates < least) {
			best, least = r.Strategy, r.Candidates
		}
	}
	for _, r := range rows {
		var candidates, share, taat, paper, paperMicros any
		if r.Candidates > 0 {
			candidates, share = r.Candidates, r.Share
		}
		if strings.HasPrefix(r.Strategy, "m = ") {
			taat = r.TAATShare
		}
		faster := r.Ratio
		if r.Strategy == onePass || r.Strategy == batchPass {
			faster = pass / r.Micros
		}
		if mwand, fast, plain, ok := lcifbench.PaperTable4(r.Set); ok {
			switch r.Strategy {
			case "m = 0":
				paper = mwand
			case best:
				paper = fast
			case "hash TAAT":
				paper = plain
			}
		}
		columns := []string{"m = 0", "m = 1", "m = 20", "m = 100", "m = 500", "m = 1000", "hash TAAT"}
		if i := slices.Index(columns, r.Strategy); i >= 0 && r.Set == extremeSet {
			paperMicros = 1000 * lcifbench.PaperTable5[i]
		}
		t.Add(r.Set, r.Strategy, r.Rows, r.Queries, r.Length, candidates, share, paper, r.Micros, faster, paperMicros, taat, size(int64(r.Bytes)), r.Bytes, r.Wrong)
	}
}
