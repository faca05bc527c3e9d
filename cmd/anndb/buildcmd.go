package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/query"
)

// buildCmd learns an index.
type buildCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	Index      string `arg:"" optional:"" help:"Name of the index; one of that name is replaced." default:"main"`

	Kind string `help:"Learner: rp, kd, kd-chrono, pca, rf, or auto, which compares several and keeps the best; for sparse collections postings, an inverted index; for both lcif, a label model, and sbt, pt or at, trees that predict labels. kd and postings if not given." enum:",rp,kd,kd-chrono,pca,rf,auto,postings,lcif,sbt,pt,at" default:"" placeholder:"KIND"`
	Seed uint64 `help:"Equal rows, options and seed give equal trees and lists; tuned settings depend on measured times." default:"0"`

	forestFlags `embed:"" group:"Dense collections, forests:"`

	PartitionM *int `group:"Sparse collections:" help:"Postings and lcif: also build the paper's pair of inverted indexes with this m, -1 for all rows in the first." placeholder:"M"`

	tuneFlags  `embed:"" group:"Label models, tuned:"`
	modelFlags `embed:"" group:"Label models, lcif without tuning:"`
	treeFlags  `embed:"" group:"Label models, budgeted trees:"`
	gridFlags  `embed:"" group:"Label models, budgeted trees:"`
	fileFlags  `embed:"" group:"Files of --train:"`
}

// forestFlags are the parameters of forests.
type forestFlags struct {
	NoTune       bool    `help:"Do not measure settings: searches must then name theirs."`
	Train        string  `help:"Learn a forest from this file of vectors, not from the rows." placeholder:"FILE"`
	TargetRecall float64 `help:"Recall that auto optimises for; 0 for the default." default:"0"`
	Trees        int     `help:"Trees; 0 for the default." default:"0"`
	Depth        int     `help:"Levels of splits; 0 for four to seven rows a leaf, or twice as many with sketches and label lists." default:"0"`
	LabelsK      int     `help:"Nearest rows that are a training point's labels; 0 for 4, or 50 without sketches or label lists." default:"0"`
	Labels       string  `help:"How nearest rows are found: exact, approximate (their recall is measured), or by the size if not given." enum:",exact,approximate" default:"" placeholder:"SOURCE"`
	Rotate       int     `help:"Principal coordinates to split on (kd, kd-chrono, rf); 0 for the default, -1 for none." default:"0"`
	Sketch       int     `help:"Bytes of a row's sketch: 64 of principal coordinates, 128, 192 or 256 of signs; 0 for what the rows need, -1 for none." default:"0"`
	Hops         int     `help:"Neighbours a row keeps for label hops; 0 for 24, -1 for none." default:"0"`
	Quantize     bool    `help:"Keep an 8-bit copy of float32 rows as a filter."`
	Members      bool    `help:"Also store which rows each leaf has, for voting and lookup."`
	NoNatural    bool    `help:"Leave the label tables out: voting and lookup only."`
	Density      float64 `help:"Share of non-zeros in a direction (rp, pca); 0 for the default." default:"0"`
	Candidates   int     `help:"Coordinates that compete for a split (kd, rf); 0 for the default." default:"0"`
	Subsample    int     `help:"Points looked at to choose a split; 0 for the default." default:"0"`
	MinVotes     int     `help:"Leave out labels with fewer votes in a leaf; 0 keeps all." default:"0"`
	TuneK        int     `help:"Neighbours the tuner asks for; 0 for 10." default:"0"`
	Holdout      int     `help:"Rows the tuner holds out as queries; 0 for 1,000." default:"0"`
}

// options are the flags as package db takes them, training queries left out.
func (c *buildCmd) options() (db.IndexOptions, error) {
	counts := []struct {
		flag string
		n    int
	}{
		{"trees", c.Trees}, {"depth", c.Depth}, {"labels-k", c.LabelsK}, {"candidates", c.Candidates},
		{"subsample", c.Subsample}, {"min-votes", c.MinVotes}, {"tune-k", c.TuneK}, {"holdout", c.Holdout},
	}
	for _, n := range counts {
		if n.n < 0 {
			return nil, usagef("--%s must not be negative", n.flag)
		}
	}
	postings, lcif := c.Kind == kindPostings || c.Kind == "" && c.PartitionM != nil, c.Kind == kindLCIF
	switch {
	case !(c.Density >= 0 && c.Density <= 1):
		return nil, usagef("--density %g (want 0 to 1)", c.Density)
	case !(c.TargetRecall >= 0 && c.TargetRecall <= 1):
		return nil, usagef("--target-recall %g (want 0 to 1)", c.TargetRecall)
	case c.TargetRecall > 0 && c.Kind != "auto":
		return nil, usagef("--target-recall goes with --kind auto")
	case isTree(c.Kind) && (c.tuneFlags.lcifOnly() || c.modelFlags.withoutThreshold() != modelFlags{}):
		return nil, usagef("--kind %s takes --weight, --folds, --tune-rows, --threshold, "+
			"--allow-empty (only at) and the flags of budgeted trees only", c.Kind)
	case !isTree(c.Kind) && (c.treeFlags != treeFlags{} || c.gridFlags.given()):
		return nil, usagef("--budget, --cost, --rounds, --min-positive, --raw, --budgets, --costs " +
			"and --thresholds go with --kind sbt, pt and at")
	case !isTree(c.Kind) && !lcif && (c.tuneFlags.given() || c.modelFlags != modelFlags{}):
		return nil, usagef("--weight, --objective, --allow-empty, --paper, --folds, --tune-rows, " +
			"--feature-share, --neighbors, --second-orders, --graph, --k, --alpha, --beta, --lambda, --threshold, " +
			"--cut-share, --cut-per-label, --keep-features and --second-order go with --kind lcif")
	case c.Kind != "" && !postings && !lcif && c.PartitionM != nil:
		return nil, usagef("--partition-m goes with --kind postings and lcif")
	case (postings || lcif || isTree(c.Kind)) && c.forestFlags != forestFlags{}:
		return nil, usagef("--kind %s takes none of the flags of forests", c.Kind)
	case c.Train == "" && (c.Limit != 0 || c.sparseFlags.given()):
		return nil, usagef("--limit and --base go with --train")
	}
	if c.PartitionM != nil && *c.PartitionM < -1 {
		return nil, usagef("--partition-m %d (want -1 or more)", *c.PartitionM)
	}
	var parted db.Postings
	if c.PartitionM != nil {
		parted = db.Postings{Partition: true, M: *c.PartitionM}
	}
	switch {
	case isTree(c.Kind):
		return treeBuild{
			kind: c.Kind, tree: c.treeFlags, grid: c.gridFlags, tune: c.tuneFlags, threshold: c.Threshold,
		}.index(c.Seed)
	case lcif:
		o, err := c.lcif(c.tuneFlags)
		o.Postings, o.Seed = parted, c.Seed
		return &o, err
	case postings:
		return &parted, nil
	case c.Kind == "" && c.forestFlags == forestFlags{}:
		return &db.Auto{Seed: c.Seed}, nil
	}
	return c.forest(), nil
}

// forest are the flags of a forest.
func (c *buildCmd) forest() *db.Forest {
	o := &db.Forest{
		Learner: c.Kind, Recall: c.TargetRecall, Trees: c.Trees, Depth: c.Depth,
		LeafNeighbors: c.LabelsK, Source: c.Labels, Quantize: c.Quantize,
		Members: c.Members, Density: c.Density, Candidates: c.Candidates,
		Subsample: c.Subsample, MinVotes: c.MinVotes, NoTables: c.NoNatural,
		NoTune: c.NoTune, TuneK: c.TuneK, Holdout: c.Holdout, Seed: c.Seed,
	}
	o.NoRotation, o.Coordinates = part(c.Rotate)
	o.NoSketches, o.SketchBytes = part(c.Sketch)
	o.NoLists, o.ListNeighbors = part(c.Hops)
	return o
}

// part divides the size of a part of an index that is off if it is negative.
func part(size int) (off bool, n int) { return size < 0, max(0, size) }

// Run executes the command.
func (c *buildCmd) Run(a *app) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.with(a, false, func(d *db.DB) error {
		info, err := infoOf(d, c.Collection)
		if err != nil {
			return err
		}
		if c.Train != "" {
			f := c.forest()
			if f.TrainingQueries, err = readVectors(c.Train, c.fileFlags, targetOf(a, info)); err != nil {
				return err
			}
			o = f
		}
		settings := shownSettings
		if !a.People() {
			settings = math.MaxInt
		}
		return build(a, d, c.Collection, c.Index, o, settings)
	})
}

// build learns an index and describes it, with so many of the settings that
// the tuner of a label model measured.
func build(a *app, d *db.DB, coll, index string, o db.IndexOptions, settings int) error {
	about, err := infoOf(d, coll)
	if err != nil {
		return err
	}
	if err := checkLimits(about, o); err != nil {
		return err
	}
	if _, ok := o.(*db.LCIF); ok {
		// The tuner's memory is large arrays without pointers: to collect more often costs little.
		defer debug.SetGCPercent(debug.SetGCPercent(20))
	}
	before, noneBefore := d.Collection(coll).Index(index)
	run := a.run()
	run.Stop, run.Progress = a.tuner.stop, func(stage string, done, total int) {
		a.tuner.observe(stage)
		a.progress.Update(stage, done, total)
	}
	info, err := d.Collection(coll).Build(a.ctx, index, o, run)
	a.progress.End()
	if err != nil {
		return err
	}
	if a.tuner.closed.Load() {
		a.note("tuning was interrupted: index %q has the best of the settings measured until then", index)
	}
	if noneBefore == nil && before.Kind != info.Kind {
		a.note("index %q was of kind %s before", index, before.Kind)
	}
	if recall, micros, ok := info.Curve.FirstDear(); ok {
		a.note("from recall %g on, a search takes %.0f µs or more, over a tenth of an exact scan (%.0f µs)",
			recall, micros, info.Curve.Scan)
	}
	if a.flags.Quiet {
		return nil
	}
	return a.Report(buildReport(info, settings)...)
}

// infoOf describes a collection as it is now.
func infoOf(d *db.DB, coll string) (info db.CollectionInfo, err error) {
	err = d.View(func(s *db.Snapshot) (err error) {
		info, err = s.Collection(coll).Info()
		return err
	})
	return info, err
}

// buildReport describes a finished build.
func buildReport(info db.IndexInfo, settings int) []table.Section {
	stages := table.New("stage", "seconds:2")
	for _, s := range stagesOf(info) {
		stages.Add(s.name, s.seconds)
	}
	return []table.Section{
		indexTable(info).As("index", ""),
		stages.As("stages", "Where the time went"),
		memoryTable(info).As("memory", ""),
		labelsTable(info).As("approximate", "Approximate labels"),
		treeTable(info).As("tree", treeTitle),
		bytesTable(info).As("bytes", "Where the bytes are"),
		curveTable(info.Curve).As("curve", "Settings by recall"),
		settingsTable(info, settings).As("settings", settingsTitle(info)),
		trialsTable(info, settings).As("trials", trialsTitle(info)),
	}
}

// stage is a part of a build and its wall time.
type stage struct {
	name    string
	seconds float64
}

// stagesOf are the stages of a build, the longest first.
func stagesOf(info db.IndexInfo) []stage {
	var out []stage
	for _, name := range slices.Sorted(maps.Keys(info.BuildSeconds)) {
		out = append(out, stage{name, info.BuildSeconds[name]})
	}
	slices.SortStableFunc(out, func(a, b stage) int { return cmp.Compare(b.seconds, a.seconds) })
	return out
}

// indexTable has one row an index.
func indexTable(infos ...db.IndexInfo) *table.Table {
	t := table.New("index", "kind", "trees", "depth", "rotate", "rows", "size", "seconds:1",
		"trained_on", "setting")
	for _, i := range infos {
		var seconds float64
		for _, s := range i.BuildSeconds {
			seconds += s
		}
		var trees, depth, rotate, points any
		if o, ok := i.Options.(*db.Forest); ok {
			trees, depth, rotate, points = o.Trees, o.Depth, o.Coordinates, i.TrainingPoints
		}
		t.Add(i.Name, i.Kind, trees, depth, rotate, i.Rows, table.Size(i.TotalBytes()), seconds, points,
			sparseSetting(i))
	}
	return t
}

// memoryTable is the most memory that a build held.
func memoryTable(info db.IndexInfo) *table.Table {
	t := table.New("memory")
	if n := info.BuildMemory; n > 0 {
		t.Add(table.Size(n))
	}
	return t
}

// labelsTable shows the recall of approximate labels, and to which share of the rows paths along the
// lists lead; it is empty where all are exact.
func labelsTable(infos ...db.IndexInfo) *table.Table {
	t := table.New("index", "labels", "recall:4", "recall_10:4", "reached:4", "sample", "rounds")
	for _, i := range infos {
		if r := i.Neighbors; r != nil {
			t.Add(i.Name, r.K, r.Recall, r.HeadRecall, i.Reached, r.Sample, r.Rounds)
		}
	}
	return t
}

func bytesTable(info db.IndexInfo) *table.Table {
	t := table.New("section", "size")
	for _, name := range slices.Sorted(maps.Keys(info.Bytes)) {
		t.Add(name, table.Size(info.Bytes[name]))
	}
	return t
}

// curveTable is what the tuner measured, and what maintenance has measured since.
func curveTable(c *query.Curve) *table.Table {
	t := table.New("recall:4", "since:4", "micros:1", "candidates:0", "setting")
	if c != nil {
		for _, p := range c.Points {
			var since any
			if p.Checked > 0 {
				since = p.Checked
			}
			t.Add(p.Recall, since, p.Micros, p.Candidates, describe(p.Params))
		}
	}
	return t
}

// curveTitle is the title of that table.
func curveTitle(i db.IndexInfo) string {
	title := "Settings of " + i.Name + " by recall"
	if c := i.Curve; c != nil && c.Rows > 0 {
		title += fmt.Sprintf(", k %d, last measured with %d queries on %d rows on %s", c.K, c.Queries, c.Rows,
			c.Measured.Format(time.DateTime))
	}
	if c := i.Curve; c != nil && c.Scan > 0 {
		title += fmt.Sprintf(" (an exact scan: %.0f micros)", c.Scan)
	}
	return title
}

// dropCmd removes an index or a collection.
type dropCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	Index      string `arg:"" optional:"" help:"Index to remove; without it the whole collection goes."`
	Yes        bool   `help:"Really remove a collection and its rows."`
	Missing    bool   `help:"A collection or index that is not there is no error."`
}

// Run executes the command.
func (c *dropCmd) Run(a *app) error {
	if c.Index == "" && !c.Yes {
		// One that is not there is no reason to ask for --yes.
		err := c.collection(a, c.Collection, func(*db.Snapshot, db.CollectionInfo) error { return nil })
		if err != nil && !(c.Missing && errors.Is(err, db.ErrNotFound)) {
			return err
		}
		return usagef("this removes collection %q with all its rows: add --yes, or name an index", c.Collection)
	}
	return c.with(a, false, func(d *db.DB) error {
		what := any("index " + c.Index)
		var err error
		if c.Index != "" {
			err = c.dropIndex(a, d)
		} else {
			what = "collection"
			err = d.Drop(a.ctx, c.Collection)
		}
		if c.Missing && errors.Is(err, db.ErrNotFound) {
			what, err = nil, nil
		}
		if err != nil {
			return err
		}
		t := table.New("collection", "dropped")
		t.Add(c.Collection, what)
		return a.done(t)
	})
}

// dropIndex removes the index, and notes the label models that find neighbours by it.
func (c *dropCmd) dropIndex(a *app, d *db.DB) error {
	indexes, err := d.Collection(c.Collection).Indexes()
	if err != nil {
		return err
	}
	if err := d.Collection(c.Collection).DropIndex(a.ctx, c.Index); err != nil {
		return err
	}
	for _, i := range indexes {
		if lcifOptions(i).Neighbors == c.Index {
			a.note("label model %q found neighbours by index %q: now it scans all rows", i.Name, c.Index)
		}
	}
	return nil
}
