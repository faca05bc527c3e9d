package treeindex

import (
	"context"
	"errors"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
)

// Absorb reports that trees must be retrained when more than kind.Drift of their rows were written, deleted
// or relabelled. Until then they stay as they are.
func (Kind) Absorb(
	ctx context.Context, st kind.Source, m *kind.Manifest, _ *kind.Timer,
) (s kind.Step, rebuild bool, err error) {
	relabelled, err := st.Relabelled(m.Object)
	if err != nil {
		return nil, false, err
	}
	stale := roaring.New()
	for _, set := range []*roaring.Bitmap{st.DeletedSet(), relabelled} {
		if set = kind.Within(set, 0, m.Info.Rows); set != nil {
			stale.Or(set)
		}
	}
	learned := m.Info.TrainingPoints
	deletedBefore, written := m.Info.Rows-learned, int(st.Collection().Rows)-m.Info.Rows
	changed := written + int(stale.GetCardinality()) - deletedBefore
	if float64(changed) <= kind.Drift*float64(learned) {
		return nil, false, nil
	}
	return nil, true, retrainable(ctx, st, optionsOf(m).Weight)
}

// retrainable refuses a collection whose features are numbered with too large gaps for the weights that trees
// have.
func retrainable(ctx context.Context, st kind.Source, weight string) error {
	c := st.Collection()
	if !c.Sparse || weight == "" || weight == labelled.WeightNone {
		return nil
	}
	set, err := st.Sparse(ctx)
	if err != nil {
		return err
	}
	return labelled.CheckSpread(c.Name, c.Dim, set.Entries())
}

// Check checks that a tree's arrays and counts are consistent with each other.
func (t *Model) Check(context.Context) error {
	return errors.Join(t.Model.Validate(), t.Model.CheckCounts(t.m.Info.TrainingPoints))
}
