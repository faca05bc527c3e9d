package segment

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
)

// Maintain makes steps until none is due, or only one with Effort.Once. An index that cannot be maintained
// does not stop the others. Only one call runs at a time.
func (ix *Indexer) Maintain(ctx context.Context, e Effort) (steps []maintenance.Step, err error) {
	names, end, err := ix.takeTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	failed := []error{ix.storeQueries(ctx)}
	for _, name := range names {
		for {
			s, err := ix.maintainIndex(ctx, name[0], name[1], e)
			if err != nil {
				failed = append(failed, err)
			}
			if s != nil {
				steps = append(steps, *s)
			}
			if s != nil && e.Once {
				return steps, errors.Join(failed...)
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
func (ix *Indexer) maintainIndex(ctx context.Context, coll, name string,
	e Effort) (_ *maintenance.Step, err error) {
	ctx, release, err := ix.txn.Hold(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	for {
		s, err := ix.tryStep(ctx, coll, name, e)
		if !errors.Is(err, ErrOvertaken) {
			return s, err
		}
	}
}

// tryStep is maintainIndex, except that it returns ErrOvertaken if the index was replaced or
// dropped during the step.
func (ix *Indexer) tryStep(ctx context.Context, coll, name string, e Effort) (*maintenance.Step, error) {
	start := time.Now()
	changes, end := ix.txn.Watch()
	defer end()
	next := &due{coll: coll, name: name, changes: changes}
	err := ix.txn.View(func(g *state.Generation) error {
		st := g.Collections[coll]
		if st == nil || st.Entry.Index(name) == nil || st.Entry.Live == 0 {
			return nil // dropped since its name was read, or nothing to learn from
		}
		next.ref = *st.Entry.Index(name)
		return next.find(ctx, st, e)
	})
	var s *maintenance.Step
	if err == nil {
		s, err = ix.make(ctx, next)
	}
	switch {
	case errors.Is(err, fail.ErrUnsuitable):
		ix.unmaintained.Store(next.ref.Object, err.Error())
		return nil, nil
	case err != nil:
		if !errors.Is(err, ErrOvertaken) {
			ix.txn.EndStep(ctx, start, &maintenance.Step{Collection: coll, Index: name, Action: trace.Maintain}, err)
		}
		return nil, fail.Wrapf(err, "maintain index %q of %q", name, coll)
	case s != nil:
		s.Collection, s.Index, s.Seconds = coll, name, time.Since(start).Seconds()
		ix.steps.Add(1)
		ix.txn.EndStep(ctx, start, s, nil)
	}
	return s, nil
}

// due is a step that an index needs, if any: a segment, a rebuild or a measurement.
type due struct {
	coll, name string
	ref        layout.IndexRef
	changes    *apply.Watch // the rows that are relabelled during the step
	again      *Rebuild
	job        *building // of a segment, or of the measurement
	measured   *kind.Manifest
}

// find finds the step. Settings that have to be measured again are measured here, in the state that st is of.
func (d *due) find(ctx context.Context, st *state.Collection, e Effort) error {
	m, err := st.ManifestOf(&d.ref)
	if err != nil {
		return err
	}
	if tunable(st, m) {
		d.again = inPlaceOf(ctx, st, m, &d.ref)
		return nil
	}
	changed, err := changedSince(ctx, st, m)
	if err != nil {
		return err
	}
	rows := int(st.Entry.Rows)
	p, ok := planOf(m, rows, func(g *kind.Segment) int {
		return kind.DeletedWithin(changed, g.First, g.Rows) - g.Dead
	}, e, e.Resting != nil && e.Resting(st.Entry.ID))
	d.job = &building{
		Job: kind.Job{
			Coll: d.coll, Name: d.name, Given: m.Given, Base: m, Timer: kind.NewTimer(ctx),
			First: rows, End: rows, // no rows, unless a segment is due
		},
		plan: p, id: st.Entry.ID, changes: d.changes, overtaken: overtakes(d.name, d.ref.Object),
	}
	if !ok || m.Foreign {
		return d.measure(ctx, st, m)
	}
	if p.all() {
		d.again = inPlaceOf(ctx, st, m, &d.ref)
		return nil
	}
	if d.job.First = m.Info.Rows; p.from < len(m.Segments) {
		d.job.First = m.Segments[p.from].First
	}
	return nil
}

// measure measures the settings of an index again if there is a reason to.
func (d *due) measure(ctx context.Context, st *state.Collection, m *kind.Manifest) error {
	k, ok := m.Of.(kind.Measurer)
	if !ok {
		return nil
	}
	of, err := st.Part(ctx, m.Of)
	if err != nil {
		return err
	}
	d.job.asked = st.Sampled().Taken()
	d.measured, err = k.Measure(ctx, of, m, d.job.Timer)
	return err
}

// changedSince returns the deleted rows, and those that were relabelled since the index was made.
func changedSince(ctx context.Context, st *state.Collection, m *kind.Manifest) (*roaring.Bitmap, error) {
	of, err := st.Part(ctx, m.Of)
	if err != nil {
		return nil, err
	}
	rows, err := kind.ReadRows(ctx, of)
	if err != nil {
		return nil, err
	}
	changed := rows.Deleted
	if !m.Of.Traits().Predicts {
		return changed, nil
	}
	relabelled, err := st.Relabelled(m.Object)
	if changed == nil || relabelled == nil || err != nil {
		return cmp.Or(changed, relabelled), err
	}
	return roaring.Or(changed, relabelled), nil
}

// make makes the step.
func (ix *Indexer) make(ctx context.Context, d *due) (*maintenance.Step, error) {
	switch {
	case d.again != nil:
		m, err := ix.Rebuild(ctx, d.coll, d.again)
		if err != nil {
			return nil, err
		}
		return &maintenance.Step{Action: "relearn", Rows: m.Info.Rows}, nil
	case d.measured != nil:
		err := ix.storeMeasured(ctx, d.job, d.measured)
		return &maintenance.Step{Action: "measure", Rows: d.measured.Info.Rows}, err
	case d.job != nil && d.job.First < d.job.End:
		action := "segment"
		if d.job.plan.from < d.job.plan.to {
			action = "merge"
		}
		_, err := ix.learn(ctx, d.job)
		return &maintenance.Step{Action: action, Rows: d.job.End - d.job.First}, err
	}
	return nil, nil
}

// tunable reports whether the tuning of an index was put off for lack of rows, and there are
// enough now.
func tunable(st *state.Collection, m *kind.Manifest) bool {
	return m.Untuned && st.Entry.Live >= kind.HeldOutOf
}
