package indexes

import (
	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
)

// checkLimits refuses options of a build beyond what the collection has: the
// library takes what there is instead.
func checkLimits(info db.CollectionInfo, o db.IndexOptions) error {
	var f db.Forest
	var folds int
	switch o := o.(type) {
	case *db.Forest:
		f = *o
	case *db.LCIF:
		folds = o.Folds
	default:
		if t, ok := treeOptions(o); ok && t.Grid != nil {
			folds = t.Grid.Folds
		}
	}
	points := info.Live
	if n := len(f.TrainingQueries); n > 0 {
		points = n
	}
	for _, l := range []struct {
		flag     string
		n, limit int
		what     string
	}{
		{"labels-k", f.LeafNeighbors, info.Live, "as many as there are rows"},
		{"hops", f.ListNeighbors, info.Live - 1, "one less than there are rows"},
		{"rotate", f.Coordinates, info.Dim, "as many as there are coordinates"},
		{"holdout", f.Holdout, points / 10, "a tenth of the rows or training queries"},
		{"folds", folds, info.Live, "as many as there are rows"},
	} {
		if info.Live > 0 && l.n > max(0, l.limit) {
			return command.Usagef("--%s %d: at most %d in collection %q, %s",
				l.flag, l.n, max(0, l.limit), info.Name, l.what)
		}
	}
	return nil
}
