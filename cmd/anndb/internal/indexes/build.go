// Package indexes has the commands that build indexes and keep them up to date, and the tables that
// describe indexes.
package indexes

import (
	"errors"
	"math"
	"runtime/debug"

	"github.com/alecthomas/kong"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/cmd/anndb/internal/input"
	"github.com/anndb/anndb/cmd/anndb/internal/optionflags"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
)

// Build learns an index.
type Build struct {
	command.InCollection
	Index string `arg:"" optional:"" default:"main"`

	Kind  string `enum:"${kinds}" default:"" placeholder:"KIND"`
	Train string `placeholder:"FILE" type:"path"`

	kong.Plugins
	flags *optionflags.Set

	input.FileFlags `embed:"" group:"Files of --train:"`
}

// Prepare makes the flags of the options.
func (c *Build) Prepare() {
	c.flags, c.Plugins = optionflags.New(
		optionflags.Source{Options: &index.Forest{}, Kinds: forestKinds, Group: "Dense collections, forests:"},
		optionflags.Source{Options: &index.LCIF{}, Kinds: kindLCIF, Group: "Label models, tuned:"},
		optionflags.Source{Options: &index.LabelTree{}, Kinds: kindLabelTree, Group: "Label models, linear:"},
		optionflags.Source{Options: &index.Trees{}, Kinds: treeKinds, Group: "Label models, budgeted trees:"},
		optionflags.Source{Options: &index.Auto{}, Kinds: kindAuto, Group: "Label models, several kinds together:"},
	)
}

// filled returns the options of a kind with the given flags, without a check of their values.
func filled(flags *optionflags.Set, kind string) (index.Options, error) {
	o := index.New(kind)
	if err := flags.Fill(o); err != nil {
		return nil, command.Usagef("%v", err)
	}
	if o, ok := o.(*index.LCIF); ok {
		return o, completeLCIF(o)
	}
	return o, nil
}

// completeLCIF has thresholds and cuts keep the best label, and refuses flags without any effect.
func completeLCIF(o *index.LCIF) error {
	p := o.Params
	switch {
	case p == nil:
		return nil
	case o.Cut == nil && (o.Folds != 0 || o.TuneRows != 0):
		return command.Usagef("--folds and --tune-rows are for tuning, --cut-share and --cut-per-label")
	case p.Thresholds != nil && !(p.Thresholds.Single >= 0 && p.Thresholds.Single <= 1):
		return command.Usagef("--threshold %g (want 0 to 1)", p.Thresholds.Single)
	}
	if o.Cut != nil {
		o.Cut.NoTop = o.AllowEmpty
	}
	if p.Thresholds != nil {
		p.Thresholds.KeepTop = !o.AllowEmpty
	}
	return nil
}

// refused returns an error of options as one of their flags.
func refused(o index.Options, err error) error {
	var e *index.Error
	if !errors.As(err, &e) {
		return err
	}
	text := e.Text(func(field string) string {
		switch field {
		case "Learner":
			return "--kind"
		case "TrainingQueries":
			return "--train"
		}
		return optionflags.Name(o, field)
	})
	return command.Usagef("%s", text)
}

func (c *Build) Run(a *command.App) error {
	if c.Train == "" && (c.Limit != 0 || c.SparseFlags.Given()) {
		return command.Usagef("--limit and --base go with --train")
	}
	o, err := filled(c.flags, c.Kind)
	if err != nil {
		return err
	}
	forest, isForest := o.(*index.Forest)
	if c.Train != "" && !isForest {
		return command.Usagef("--train goes with forests, not with --kind %s", c.Kind)
	}
	if err := o.Check(-1); err != nil {
		return refused(o, err)
	}
	return c.With(a, false, func(d *db.DB) error {
		info, err := d.Collection(c.Collection).Info()
		switch {
		case err != nil:
			return err
		case c.Train != "":
			forest.TrainingQueries, err = input.ReadVectors(c.Train, c.FileFlags, input.TargetOf(a, &info))
		case c.Kind == "" && !c.flags.Any():
			o = nil // the collection decides
		}
		if err != nil {
			return err
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
func build(a *command.App, d *db.DB, coll, name string, o index.Options, settings int) error {
	if _, ok := o.(*index.LCIF); ok {
		// The tuner's memory is large arrays without pointers: to collect more often costs little.
		defer debug.SetGCPercent(debug.SetGCPercent(20))
	}
	before, noneBefore := d.Collection(coll).Index(name)
	run := a.Run()
	run.Stop, run.Progress = a.Tuner.Stop, func(stage string, done, total int) {
		a.Tuner.Observe(stage)
		a.Progress.Update(stage, done, total)
	}
	info, err := d.Collection(coll).Build(a.Ctx, name, o, run)
	a.Progress.End()
	if err != nil {
		return refused(o, err)
	}
	switch {
	case info.Unfinished:
		a.Note("index %q has the best of what there was time to try: the same command, or one with more --time, "+
			"continues from there", name)
	case a.Tuner.Closed.Load():
		a.Note("tuning was interrupted: index %q has the best of the settings measured until then", name)
	}
	if noneBefore == nil && before.Kind != info.Kind {
		a.Note("index %q was of kind %s before", name, before.Kind)
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
