package main

import (
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// checkLimits refuses options of a build beyond what the collection has: the
// library takes what there is instead.
func checkLimits(info db.CollectionInfo, o db.BuildOptions) error {
	points := info.Live
	if n := len(o.TrainingQueries); n > 0 {
		points = n
	}
	folds := o.LCIF.Folds
	if g := o.Budget.Grid; g != nil {
		folds = max(folds, g.Folds)
	}
	for _, l := range []struct {
		flag     string
		n, limit int
		what     string
	}{
		{"labels-k", o.LabelsK, info.Live, "as many as there are rows"},
		{"hops", o.HopLabels, info.Live - 1, "one less than there are rows"},
		{"rotate", o.Rotate, info.Dim, "as many as there are coordinates"},
		{"holdout", o.Holdout, points / 10, "a tenth of the rows or training queries"},
		{"graph", o.LCIF.Graph, info.Live - 1, "one less than there are rows"},
		{"folds", folds, info.Live, "as many as there are rows"},
	} {
		if info.Live > 0 && l.n > max(0, l.limit) {
			return usagef("--%s %d: at most %d in collection %q, %s", l.flag, l.n, max(0, l.limit), info.Name, l.what)
		}
	}
	return nil
}

// checkExisting refuses options that say something else than a collection that is
// there already.
func (c *importCmd) checkExisting(info *db.CollectionInfo) error {
	if info == nil {
		return nil
	}
	if c.Metric != "" {
		metric, err := vector.ParseMetric(c.Metric)
		if err != nil {
			return err
		}
		if metric != info.Metric {
			return usagef("--metric %s: collection %q exists with metric %s", c.Metric, info.Name, info.Metric)
		}
	}
	if c.Float32 && info.Storage != db.StorageFloat32 {
		return usagef("--float-32: collection %q exists and stores bytes where they lose nothing", info.Name)
	}
	return nil
}
