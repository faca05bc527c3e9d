package db

import "fmt"

// The limits of buildOptions. Values whose limit depends on the number of rows are lowered
// instead of refused, since a collection grows and shrinks.
const (
	maxLabelsK   = 4096
	maxHopLabels = 1024
	maxHoldout   = 100_000
	maxFolds     = 1000
)

// checkLimits refuses options that no collection of the dimension can satisfy; dim is 0 for a
// sparse collection. It is for options that a user gives: stored options are resolved.
func (o buildOptions) checkLimits(coll string, dim int) error {
	for _, l := range []struct {
		n     int
		what  string
		limit int
	}{
		{o.LabelsK, "labels a row", maxLabelsK},
		{o.HopLabels, "neighbors a row for hops", maxHopLabels},
		{o.Holdout, "rows to hold out", maxHoldout},
		{o.folds(), "folds", maxFolds},
	} {
		if l.n > l.limit {
			return fmt.Errorf("%w: %d %s, want at most %d", errOption, l.n, l.what, l.limit)
		}
	}
	switch {
	case dim == 0:
		return nil
	case o.Rotate > dim:
		return fmt.Errorf("%w: %d principal coordinates, want at most %d, the dimension of %q",
			errOption, o.Rotate, dim, coll)
	case o.Candidates > dim:
		return fmt.Errorf("%w: %d candidates for a split, want at most %d, the dimension of %q",
			errOption, o.Candidates, dim, coll)
	}
	return nil
}

// folds returns the larger of the two numbers of folds.
func (o buildOptions) folds() int {
	if g := o.Budget.Grid; g != nil {
		return max(o.LCIF.Folds, g.Folds)
	}
	return o.LCIF.Folds
}

// checkRequest refuses options of Build that exceed the limits of the collection.
func (d *DB) checkRequest(coll string, o buildOptions) error {
	return d.View(func(s *Snapshot) error {
		st, err := s.collection(coll)
		if err != nil {
			return err
		}
		return o.checkLimits(coll, st.c.Dim)
	})
}
