// Package indexes has the commands that build indexes and keep them up to date, and the tables that
// describe indexes.
package indexes

import (
	"math"
	"runtime/debug"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/db"
)

// Build learns an index.
type Build struct {
	command.InCollection
	Index string `arg:"" optional:"" default:"main"`

	Kind string `enum:",rp,kd,kd-chrono,pca,rf,auto,postings,lcif,sbt,pt,at" default:"" placeholder:"KIND"`
	Seed uint64 `default:"0"`

	forestFlags `embed:"" group:"Dense collections, forests:"`

	tuneFlags       `embed:"" group:"Label models, tuned:"`
	modelFlags      `embed:"" group:"Label models, lcif without tuning:"`
	treeFlags       `embed:"" group:"Label models, budgeted trees:"`
	gridFlags       `embed:"" group:"Label models, budgeted trees:"`
	input.FileFlags `embed:"" group:"Files of --train:"`
}

// forestFlags are the parameters of forests.
type forestFlags struct {
	NoTune       bool
	Train        string  `placeholder:"FILE"`
	TargetRecall float64 `default:"0"`
	Trees        int     `default:"0"`
	Depth        int     `default:"0"`
	LabelsK      int     `default:"0"`
	Labels       string  `enum:",exact,approximate" default:"" placeholder:"SOURCE"`
	Rotate       int     `default:"0"`
	Sketch       int     `default:"0"`
	Hops         int     `default:"0"`
	Quantize     bool
	Members      bool
	NoNatural    bool
	Density      float64 `default:"0"`
	Candidates   int     `default:"0"`
	Subsample    int     `default:"0"`
	MinVotes     int     `default:"0"`
	TuneK        int     `default:"0"`
	Holdout      int     `default:"0"`
}

// options are the flags as package db takes them, training queries left out.
func (c *Build) options() (db.IndexOptions, error) {
	counts := []struct {
		flag string
		n    int
	}{
		{"trees", c.Trees}, {"depth", c.Depth}, {"labels-k", c.LabelsK}, {"candidates", c.Candidates},
		{"subsample", c.Subsample}, {"min-votes", c.MinVotes}, {"tune-k", c.TuneK}, {"holdout", c.Holdout},
	}
	for _, n := range counts {
		if n.n < 0 {
			return nil, command.Usagef("--%s must not be negative", n.flag)
		}
	}
	postings, lcif := c.Kind == kindPostings, c.Kind == kindLCIF
	switch {
	case !(c.Density >= 0 && c.Density <= 1):
		return nil, command.Usagef("--density %g (want 0 to 1)", c.Density)
	case !(c.TargetRecall >= 0 && c.TargetRecall <= 1):
		return nil, command.Usagef("--target-recall %g (want 0 to 1)", c.TargetRecall)
	case c.TargetRecall > 0 && c.Kind != "auto":
		return nil, command.Usagef("--target-recall goes with --kind auto")
	case IsTree(c.Kind) && (c.tuneFlags.lcifOnly() || c.modelFlags.withoutThreshold() != modelFlags{}):
		return nil, command.Usagef("--kind %s takes --weight, --folds, --tune-rows, --threshold, "+
			"--allow-empty (only at) and the flags of budgeted trees only", c.Kind)
	case !IsTree(c.Kind) && (c.treeFlags != treeFlags{} || c.gridFlags.given()):
		return nil, command.Usagef("--budget, --cost, --rounds, --min-positive, --raw, --budgets, --costs " +
			"and --thresholds go with --kind sbt, pt and at")
	case !IsTree(c.Kind) && !lcif && (c.tuneFlags.given() || c.modelFlags != modelFlags{}):
		return nil, command.Usagef("--weight, --objective, --allow-empty, --paper, --folds, --tune-rows, " +
			"--feature-share, --neighbors, --second-orders, --k, --alpha, --beta, --lambda, --threshold, " +
			"--cut-share, --cut-per-label, --keep-features and --second-order go with --kind lcif")
	case (postings || lcif || IsTree(c.Kind)) && c.forestFlags != forestFlags{}:
		return nil, command.Usagef("--kind %s takes none of the flags of forests", c.Kind)
	case c.Train == "" && (c.Limit != 0 || c.SparseFlags.Given()):
		return nil, command.Usagef("--limit and --base go with --train")
	}
	switch {
	case IsTree(c.Kind):
		return treeBuild{
			kind: c.Kind, tree: c.treeFlags, grid: c.gridFlags, tune: c.tuneFlags, threshold: c.Threshold,
		}.index(c.Seed)
	case lcif:
		o, err := c.lcif(c.tuneFlags)
		o.Seed = c.Seed
		return &o, err
	case postings:
		return &db.Postings{}, nil
	case c.Kind == "" && c.forestFlags == forestFlags{}:
		return nil, nil // the collection decides
	}
	return c.forest(), nil
}

// forest are the flags of a forest.
func (c *Build) forest() *db.Forest {
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

func (c *Build) Run(a *command.App) error {
	o, err := c.options()
	if err != nil {
		return err
	}
	return c.With(a, false, func(d *db.DB) error {
		info, err := d.Collection(c.Collection).Info()
		if err != nil {
			return err
		}
		switch {
		case o == nil && (info.Sparse || info.Named):
			o = &db.Postings{}
		case o == nil:
			o = c.forest()
		}
		if c.Train != "" {
			f := c.forest()
			if f.TrainingQueries, err = input.ReadVectors(c.Train, c.FileFlags, input.TargetOf(a, &info)); err != nil {
				return err
			}
			o = f
		}
		settings := ShownSettings
		if !a.People() {
			settings = math.MaxInt
		}
		return build(a, d, c.Collection, c.Index, o, settings)
	})
}

// build learns an index and describes it, with so many of the settings that
// the tuner of a label model measured.
func build(a *command.App, d *db.DB, coll, index string, o db.IndexOptions, settings int) error {
	about, err := d.Collection(coll).Info()
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
	run := a.Run()
	run.Stop, run.Progress = a.Tuner.Stop, func(stage string, done, total int) {
		a.Tuner.Observe(stage)
		a.Progress.Update(stage, done, total)
	}
	info, err := d.Collection(coll).Build(a.Ctx, index, o, run)
	a.Progress.End()
	if err != nil {
		return err
	}
	if a.Tuner.Closed.Load() {
		a.Note("tuning was interrupted: index %q has the best of the settings measured until then", index)
	}
	if noneBefore == nil && before.Kind != info.Kind {
		a.Note("index %q was of kind %s before", index, before.Kind)
	}
	if recall, micros, ok := info.Curve.FirstDear(); ok {
		a.Note("from recall %g on, a search takes %.0f µs or more, over a tenth of an exact scan (%.0f µs)",
			recall, micros, info.Curve.Scan)
	}
	if a.Flags.Quiet {
		return nil
	}
	return a.Report(buildReport(info, settings)...)
}
