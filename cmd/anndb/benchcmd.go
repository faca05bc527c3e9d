package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/forestbench"
	"github.com/anndb/anndb/internal/table"
)

// benchCmd compares forests and methods.
type benchCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`

	Queries string    `help:"File of queries; the first 1,000 unless --limit says otherwise." placeholder:"FILE" required:""`
	K       int       `short:"k" help:"Neighbours wanted." default:"10"`
	Quick   bool      `help:"A first look, under a minute: 10,000 random rows, 100 queries once, forests rp, kd and rf of depths 8 and 10 with 16 and 48 trees at most. Larger collections take longer to search, so only compare forests and methods."`
	Kinds   []string  `help:"Forests; -rot splits on principal coordinates." default:"rp,kd,kd-chrono,pca,rf,kd-rot,rf-rot"`
	Depths  []int     `help:"Levels of a tree to compare: those with 64 rows a leaf or fewer for natural, with 8 or more for voting and lookup." default:"8,10,12,13"`
	Trees   int       `help:"Trees for natural, at most; 0 for 24 to 40, by learner." default:"0"`
	Voters  int       `name:"vote-trees" help:"Trees for voting and lookup, at most; 0 for 48 to 160, by learner." default:"0"`
	LabelsK int       `help:"Nearest rows that are a training point's labels; 0 for 50." default:"0"`
	Rotate  int       `help:"Principal coordinates of the -rot kinds; 0 for 64." default:"0"`
	Recall  []float64 `help:"Recalls of the tables." default:"0.8,0.9,0.95,0.99"`
	Rounds  int       `help:"Times to ask every query of a setting, fewer for slow ones; the median counts." default:"3"`
	Floats  bool      `help:"Search float32 rows even where bytes would do."`
	Seed    uint64    `help:"Seed of forests and of the order of measurements." default:"0"`
	Out     string    `help:"Folder for bench.csv and the pictures; made if it does not exist." placeholder:"DIR"`
	forceFlag

	fileFlags `embed:"" set:"limit=1000" group:"Files of queries:"`
}

// quickRows is how many rows --quick measures on: exact neighbor lists cost rows² distances.
const quickRows = 10_000

// quicken sets what --quick says.
func (c *benchCmd) quicken() {
	c.Kinds, c.Depths = []string{"rp", "kd", "rf"}, []int{8, 10}
	c.Trees, c.Voters, c.Rounds, c.Limit = 16, 48, 1, 100
}

// check refuses flags that make no sense.
func (c *benchCmd) check() error {
	switch {
	case c.K < 1:
		return usagef("-k must be at least 1")
	case c.Rounds < 1:
		return usagef("--rounds must be at least 1")
	case c.Trees < 0 || c.Voters < 0:
		return usagef("--trees and --vote-trees must not be negative")
	case c.LabelsK < 0:
		return usagef("--labels-k must not be negative")
	case c.Rotate < 0:
		return usagef("--rotate must not be negative")
	}
	for _, k := range c.Kinds {
		if !slices.Contains(forestbench.Kinds(), k) {
			return usagef("--kinds %q (want some of %s)", k, strings.Join(forestbench.Kinds(), ", "))
		}
	}
	for _, r := range c.Recall {
		if !(r > 0 && r <= 1) {
			return usagef("--recall %g (want above 0, at most 1)", r)
		}
	}
	return nil
}

// Run executes the command.
func (c *benchCmd) Run(a *app) error {
	if c.Quick {
		c.quicken()
	}
	if err := c.check(); err != nil {
		return err
	}
	if c.Out != "" { // before the work, not after it
		if err := c.refuse(append(c.drawing().files(c.Kinds), c.csvPath()), c.File, c.Queries); err != nil {
			return err
		}
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return err
		}
	}
	return c.collection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Sparse {
			return usagef("bench compares forests, which the sparse %q has none of", c.Collection)
		}
		queries, err := readVectors(c.Queries, c.fileFlags, targetOf(a, info))
		if err != nil {
			return err
		}
		rows, err := loadRows(a, s, info)
		if err != nil {
			return err
		}
		if c.Quick {
			sampleRows(rows, quickRows, c.Seed)
		}
		shown := a.People()
		o := c.options(a)
		o.Measured = c.measured(a, rows, len(queries), shown)
		res, err := forestbench.Run(a.ctx, rows, info.Metric, queries, o)
		if err != nil {
			return err
		}
		a.progress.End()
		q := &querySet{coll: c.Collection, queries: vectorQueries(queries), k: c.K}
		tuned, points, err := c.pipeline(a, s, q)
		if err != nil {
			return err
		}
		points = append(res.Points, points...)
		sections := []table.Section{
			verdictTable(res.Points).As("verdicts", "The paper's findings"),
			tuned.As("pipeline",
				"The whole pipeline: indexes of the file at target recalls, settings chosen on held-out rows"),
			builtTable(res).As("built", "What learning took"),
		}
		if !shown {
			sections = slices.Insert(sections, 0, longTable(res.Points, c.Recall).As("best", ""))
		} else {
			fmt.Fprintln(a.W)
		}
		if err := a.Report(sections...); err != nil {
			return err
		}
		a.Title("\n%d settings tried, %d timed; labels of all rows took %.1f s; rows kept as %s.",
			res.Screened, len(res.Points), res.LabelSeconds, rowForm(res.ByteRows))
		a.Title("%s", verdictLine(forestbench.Verdicts(res.Points, verdictRecalls)))
		if c.Out == "" {
			return nil
		}
		return c.write(a, points)
	})
}

// options are the flags as package forestbench takes them.
func (c *benchCmd) options(a *app) forestbench.Options {
	return forestbench.Options{
		K: c.K, Kinds: c.Kinds, Depths: c.Depths, Trees: c.Trees, VoteTrees: c.Voters, LabelsK: c.LabelsK,
		Rotate: c.Rotate, Rounds: c.Rounds, Seed: c.Seed, Workers: a.flags.Workers, Floats: c.Floats,
		Progress: a.progress.Update,
		Planned: func(learning time.Duration) {
			if learning > leastForetold {
				a.summary("learning all forests takes about %s; searches come on top", learning.Round(time.Second))
			}
		},
	}
}

// leastForetold is the least time left that is worth a line.
const leastForetold = 10 * time.Second

// measured returns a function that keeps the measurements of a forest as soon as they are there: the
// whole takes minutes, and what is measured stays if it is interrupted. It prints them if shown,
// the first ones below a title.
func (c *benchCmd) measured(
	a *app, rows *forestbench.Matrix, queries int, shown bool,
) func(forest string, points []forestbench.Point, left time.Duration) {
	first := true
	var all []forestbench.Point
	return func(forest string, points []forestbench.Point, left time.Duration) {
		a.progress.End()
		if left > leastForetold {
			defer a.summary("%s is measured; the other forests take about %s", forest, left.Round(time.Second))
		}
		all = append(all, points...)
		if c.Out != "" {
			if err := c.writeCSV(all); err != nil {
				a.note("%s", message(err)) // the last one is the error of the command
			}
		}
		if !shown {
			return
		}
		if first {
			a.Title("%s: %d rows of %d dimensions, %d queries, k = %d, one thread. No sketches, no hops.",
				c.Collection, rows.N, rows.D, queries, c.K)
			a.Title("µs a query of the cheapest measured setting that reaches the recall on these queries, " +
				"as in the paper's tables.")
			first = false
		}
		a.Title("\n%s", forest)
		_ = a.Print(wideTable(points, forest, c.Recall)) // a broken output shows at the last table
	}
}

func rowForm(bytes bool) string {
	if bytes {
		return "bytes"
	}
	return "float32"
}

// csvPath is where the points go.
func (c *benchCmd) csvPath() string { return filepath.Join(c.Out, "bench.csv") }

// drawing is how the pictures are drawn.
func (c *benchCmd) drawing() drawing {
	return drawing{dir: c.Out, types: []string{"svg", "png"}, minRecall: 0.6}
}

// writeCSV leaves the points in the folder.
func (c *benchCmd) writeCSV(points []forestbench.Point) error {
	err := writeFile(c.csvPath(), 0o644, func(w io.Writer) error { return forestbench.WriteCSV(w, points) })
	if err != nil {
		return fmt.Errorf("write %s: %w", c.csvPath(), err)
	}
	return nil
}

// write leaves the points and their pictures in the folder.
func (c *benchCmd) write(a *app, points []forestbench.Point) error {
	if err := c.writeCSV(points); err != nil {
		return err
	}
	files, err := c.drawing().all(points)
	if err != nil {
		return err
	}
	a.Title("Written: %s and %d pictures.", c.csvPath(), len(files))
	return nil
}

// pipelineMethod is what the points of tuned indexes are called.
const pipelineMethod = "full pipeline"

// pipeline measures the file's tuned indexes, at the target recalls and along
// the whole curve of the tuner.
func (c *benchCmd) pipeline(a *app, s *db.Snapshot, q *querySet) (*table.Table, []forestbench.Point, error) {
	indexes, err := s.Collection(c.Collection).Indexes()
	if err != nil {
		return nil, nil, err
	}
	indexes = slices.DeleteFunc(indexes, func(i db.IndexInfo) bool { return i.Curve == nil })
	if len(indexes) == 0 {
		return table.New(), nil, nil
	}
	t, err := q.exact(a, s, a.flags.Workers)
	if err != nil {
		return nil, nil, err
	}
	var variants []variant
	var points []forestbench.Point
	for _, i := range indexes {
		o, ok := i.Options.(*db.Forest)
		if !ok {
			continue
		}
		variants = append(variants, byRecall(i, c.K, c.Recall)...)
		for n, p := range i.Curve.Points {
			a.progress.Update("index "+i.Name, n, len(i.Curve.Points))
			m, err := q.measure(a.ctx, s, t, &db.SearchOptions{Index: i.Name, Params: &p.Params}, effort{c.Rounds, 1})
			if err != nil {
				return nil, nil, err
			}
			points = append(points, forestbench.Point{
				Forest: "index " + i.Name, Method: pipelineMethod, Depth: o.Depth, Trees: p.Params.Trees,
				Tau: p.Params.Tau, Votes: p.Params.Votes, Recall: m.Recall, Micros: m.Mean, Candidates: m.Candidates,
			})
		}
	}
	forestbench.MarkFronts(points)
	results, err := q.measureAll(a, s, t, variants, effort{c.Rounds, 1})
	return results, points, err
}

// wideTable has one row a method and one column a recall, for people.
func wideTable(points []forestbench.Point, forest string, recalls []float64) *table.Table {
	columns := []string{"method"}
	for _, r := range recalls {
		columns = append(columns, fmt.Sprintf("%.2f", r)+":1", "setting")
	}
	t := table.New(columns...)
	for _, m := range forestbench.Methods() {
		values := []any{m.String()}
		for _, r := range recalls {
			p, ok := forestbench.Best(points, forest, m.String(), r)
			if !ok {
				values = append(values, nil, "not reached")
				continue
			}
			setting := fmt.Sprintf("depth %d, %d trees", p.Depth, p.Trees)
			if th := p.Threshold(); th != "" {
				setting += ", " + th
			}
			values = append(values, p.Micros, setting)
		}
		t.Add(values...)
	}
	return t
}

// longTable has one row for every forest, method and recall, for programs.
func longTable(points []forestbench.Point, recalls []float64) *table.Table {
	t := table.New("forest", "method", "target", "micros", "recall",
		"depth", "trees", "tau", "votes", "candidates")
	for _, f := range forestbench.Forests(points) {
		for _, m := range forestbench.Methods() {
			for _, r := range recalls {
				if p, ok := forestbench.Best(points, f, m.String(), r); ok {
					t.Add(f, m.String(), r, p.Micros, p.Recall, p.Depth, p.Trees, p.Tau, p.Votes, p.Candidates)
				} else {
					t.Add(f, m.String(), r)
				}
			}
		}
	}
	return t
}

// verdictRecalls are where the paper's table compares methods.
var verdictRecalls = []float64{0.80, 0.90, 0.95}

func verdictTable(points []forestbench.Point) *table.Table {
	t := table.New("forest", "recall:2", "fastest", "slowest", "natural_fastest", "lookup_slowest",
		"other_over_natural:2")
	for _, v := range forestbench.Verdicts(points, verdictRecalls) {
		var ratio any
		if v.Ratio > 0 {
			ratio = v.Ratio
		}
		t.Add(v.Forest, v.Recall, v.Fastest, v.Slowest, v.NaturalFastest, v.LookupSlowest, ratio)
	}
	return t
}

// verdictLine sums the verdicts up.
func verdictLine(verdicts []forestbench.Verdict) string {
	fastest, slowest := 0, 0
	for _, v := range verdicts {
		if v.NaturalFastest {
			fastest++
		}
		if v.LookupSlowest {
			slowest++
		}
	}
	return fmt.Sprintf("The natural classifier is fastest in %d of %d cases, lookup slowest in %d.",
		fastest, len(verdicts), slowest)
}

func builtTable(res *forestbench.Result) *table.Table {
	t := table.New("forest", "holds", "depth", "trees", "seconds:1", "size", "bytes")
	for _, b := range res.Built {
		t.Add(b.Forest, b.Holds, b.Depth, b.Trees, b.Seconds, table.Size(b.Bytes), b.Bytes)
	}
	return t
}
