package indexing

import (
	"context"
	"errors"
	"time"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// Step describes a step of maintenance: the fields of db.MaintainStep.
type Step struct {
	Collection, Index string
	Action            string
	Rows              int
	Seconds           float64
}

// Maintain makes steps until no index has changed rows of a share of those it covers. An index that
// cannot be maintained does not stop the others. Only one call runs at a time.
func (ix *Indexer) Maintain(ctx context.Context, share float64) (steps []Step, err error) {
	names, end, err := ix.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var failed []error
	for _, name := range names {
		for {
			s, err := ix.maintainIndex(ctx, name[0], name[1], share)
			if err != nil {
				failed = append(failed, err)
			}
			if s != nil {
				steps = append(steps, *s)
			}
			if s == nil || err != nil {
				break
			}
		}
		if err := ix.txn.Writable(ctx); err != nil {
			failed = append(failed, err)
			break
		}
	}
	return steps, errors.Join(failed...)
}

// MaintainOnce makes one step, if one is due.
func (ix *Indexer) MaintainOnce(ctx context.Context, share float64) (*Step, error) {
	names, end, err := ix.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	var failed []error
	for _, name := range names {
		s, err := ix.maintainIndex(ctx, name[0], name[1], share)
		if s != nil {
			return s, err
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return nil, errors.Join(failed...)
}

// takeTurn waits until no other call maintains, and lets none begin until end is called. It returns
// collection and name of every index.
func (ix *Indexer) takeTurn(ctx context.Context) (names [][2]string, end func(), err error) {
	select {
	case ix.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fail.Wrapf(ctx.Err(), "maintain")
	}
	end = func() { <-ix.turn }
	if names, err = ix.indexNames(); err != nil {
		end()
	}
	return names, end, err
}

// indexNames returns collection and name of every index.
func (ix *Indexer) indexNames() (names [][2]string, err error) {
	err = ix.txn.View(func(g *state.Generation) error {
		for _, c := range g.Catalog.Collections {
			for _, name := range c.IndexNames() {
				names = append(names, [2]string{c.Name, name})
			}
		}
		return nil
	})
	return names, err
}

// maintainIndex makes the next step of one index. It returns nil if no step is due.
func (ix *Indexer) maintainIndex(
	ctx context.Context, coll, name string, share float64,
) (_ *Step, err error) {
	ctx, release, err := ix.txn.Hold(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	for {
		s, err := ix.tryStep(ctx, coll, name, share)
		if !errors.Is(err, ErrOvertaken) {
			return s, err
		}
	}
}

// tryStep is maintainIndex, except that it returns ErrOvertaken if the index was replaced or
// dropped during the step.
func (ix *Indexer) tryStep(
	ctx context.Context, coll, name string, share float64,
) (*Step, error) {
	start := time.Now()
	timer := kind.NewTimer(ctx)
	changes, end := ix.txn.Watch()
	defer end()
	var s kind.Step
	at := stepBase{changes: changes}
	ref := &at.from
	var again *Rebuild
	err := ix.txn.View(func(g *state.Generation) error {
		st := g.Collections[coll]
		if st == nil || st.Entry.Index(name) == nil {
			return nil // dropped since its name was read
		}
		at.coll, at.from = st.Entry.ID, *st.Entry.Index(name)
		m, err := st.ManifestOf(ref)
		if err != nil {
			return err
		}
		at.m = m
		changed, err := changedRows(ctx, st, m)
		due := changed > 0 && float64(changed) >= share*float64(m.Info.Rows) ||
			tunable(st, m) || m.Own.RewriteDue(st, m, share)
		if err != nil || !due || st.Entry.Live == 0 {
			return err
		}
		rebuilt := tunable(st, m)
		if !rebuilt {
			s, rebuilt, err = m.Of.Absorb(ctx, st, m, timer)
		}
		if rebuilt && err == nil {
			again = inPlaceOf(ctx, st, m, ref)
		}
		return err
	})
	switch {
	case errors.Is(err, labelled.ErrSpread):
		ix.unmaintained.Store(ref.Object, err.Error())
		return nil, nil
	case err != nil:
		return nil, fail.Wrapf(err, "maintain index %q of %q", name, coll)
	case s != nil:
		err := ix.storeStep(ctx, &at, s, timer)
		if err != nil {
			return nil, err
		}
		if r, ok := s.(kind.Recorder); ok {
			r.Published()
		}
		return &Step{coll, name, s.Action(), s.Rows(), time.Since(start).Seconds()}, nil
	case again != nil:
		m, err := ix.Rebuild(ctx, coll, again)
		if err != nil {
			return nil, err
		}
		ix.steps.Add(1)
		return &Step{coll, name, "relearn", m.Info.Rows, time.Since(start).Seconds()}, nil
	}
	return nil, nil
}

// stepBase is what a step of maintenance starts from.
type stepBase struct {
	coll    uint64
	from    layout.IndexRef
	m       *kind.Manifest // of from
	changes *apply.Watch   // the rows that are relabelled during the step
}

// changedRows returns the number of rows written, deleted or relabelled since an index was made.
// Rows that were deleted before and left out do not count, if the index has recorded their
// number.
func changedRows(ctx context.Context, st *state.Collection, m *kind.Manifest) (int, error) {
	if err := st.Load(ctx); err != nil {
		return 0, err
	}
	deletedRows := 0
	if b := kind.Within(st.DeletedSet(), 0, m.Info.Rows); b != nil {
		deletedRows = int(b.GetCardinality())
	}
	stale, err := st.Stale(m.Object, m.Info.Rows)
	return int(st.Entry.Rows) - m.Info.Rows + deletedRows - (m.Info.Rows - m.Info.TrainingPoints) + stale, err
}

// tunable reports whether the tuning of an index was put off for lack of rows, and there are
// enough now.
func tunable(st *state.Collection, m *kind.Manifest) bool {
	return m.Requested != nil && st.Entry.Live >= kind.HeldOutOf
}
