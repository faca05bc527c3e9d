package db

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/labelled"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// MaintainOptions selects how DB.Maintain works. The zero value absorbs every change.
type MaintainOptions struct {
	// Share is the least share of changed rows: an index is left as it is while the rows
	// written or deleted since, and for indexes that learn from labels the rows relabelled, are
	// fewer than this share of the rows it covers. Zero means that any change is absorbed.
	Share float64
}

// MaintainStep describes a step of maintenance: one transaction that brought an index up to
// date, or closer to it, or a build or compaction in the background.
type MaintainStep struct {
	// Collection and Index are empty for a compaction.
	Collection, Index string
	// Action is what the step did: "segment" (fresh rows became a segment of an inverted index
	// or label model), "merge" (the same, merged with other segments), "rewrite" (a segment was
	// rewritten without its deleted rows), "forget" (deleted rows no longer count in a label
	// model), "relabel" (rows count with their new labels in a label model), "insert" (fresh
	// rows were inserted into a forest), "count" (budgeted trees updated their counts and kept
	// their decisions), "subtree" (parts of budgeted trees were relearned as well), "relearn"
	// (the index was rebuilt); in the background also "build" (the collection got an index) and
	// "compact" (the file was compacted).
	Action string
	// Rows is the number of rows that the step read.
	Rows int
	// Seconds is the wall time.
	Seconds float64
}

// errOvertaken is returned by a step of maintenance if its index was built or dropped by the
// program during the step.
var errOvertaken = errors.New("db: the index was replaced during maintenance")

// Maintain updates all indexes so that they cover the rows written since they were made, no
// longer count deleted rows, and have learned changed labels. It works in steps of one
// transaction each, until nothing is left to do, and returns the list of steps. Reads and writes
// are possible at any time; if it is cancelled or the process crashes, completed steps are kept.
// Only one call runs at a time; others wait. Maintain neither builds an index where there is none
// nor compacts the file, as maintenance in the background does (Maintenance).
//
// Inverted indexes (Postings) and label models by LCIF absorb fresh rows as segments,
// at a cost in proportion to the change, and answer exactly as if rebuilt: a model's
// feature–label similarities and priors are bit for bit those of the present rows. Its
// parameters stay, including thresholds, weights and the selection of features; a model with
// weights or a selection of features is relearned when a fifth of its rows has changed.
//
// Budgeted trees (SBT, PT, AT) keep the decision of a node while at most a fifth of
// its rows were written, deleted or relabelled since the decision was learned (a relabelled row
// counts twice). The other nodes, highest first, are relearned with all nodes below them from
// their present rows, with the parameters and the seed of the build; above a fifth at a root, all
// trees are retrained. Counts and leaves are always those of the present rows, and new labels can
// be answered at once (see budget.Follow). A step reads all rows. The weights of features stay
// until the trees are retrained, and features that are new since then have none; without weights,
// relearned nodes use new features.
//
// Fresh rows are inserted into forests, as training points and as labels, at a cost in
// proportion to their number. A forest is retrained when a fifth of its rows has changed, with
// the settings that the tuner found. A forest that was built over too few rows for the tuner is
// rebuilt and tuned as soon as there are 10, whatever the value of Share. Forests of
// proportions (kind rf, or very large leaves) can only be retrained. Forests that were learned
// from training queries stay as they are until the next Build.
//
// An index that could not be built from the present rows, because the feature numbers have
// become too large for it (see ErrUnsuitable), stays as it is. That is no error:
// IndexStatus.Error has the reason.
//
// Errors: ErrInvalid.
func (d *DB) Maintain(ctx context.Context, o *MaintainOptions) (steps []MaintainStep, err error) {
	if o == nil {
		o = &MaintainOptions{}
	}
	if !(o.Share >= 0) {
		return nil, fmt.Errorf("%w: maintenance by share %g, want 0 or more", fail.Option, o.Share)
	}
	if err := d.txn.Writable(ctx); err != nil {
		return nil, err
	}
	select {
	case d.maintaining <- struct{}{}:
		defer func() { <-d.maintaining }()
	case <-ctx.Done():
		return nil, fail.Wrapf(ctx.Err(), "maintain")
	}
	var failed []error // an index that cannot be maintained does not stop the others
	for name, err := range d.indexNames() {
		for err == nil {
			var s *MaintainStep
			if s, err = d.maintainIndex(ctx, name[0], name[1], o.Share); s == nil {
				break
			}
			steps = append(steps, *s)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if err := d.txn.Writable(ctx); err != nil {
			failed = append(failed, err)
			break
		}
	}
	return steps, errors.Join(failed...)
}

// maintainOnce makes one step, if one is due.
func (d *DB) maintainOnce(ctx context.Context, share float64) (*MaintainStep, error) {
	select {
	case d.maintaining <- struct{}{}:
		defer func() { <-d.maintaining }()
	case <-ctx.Done():
		return nil, fail.Wrapf(ctx.Err(), "maintain")
	}
	var failed []error
	for name, err := range d.indexNames() {
		var s *MaintainStep
		if err == nil {
			s, err = d.maintainIndex(ctx, name[0], name[1], share)
		}
		if s != nil {
			return s, err
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	return nil, errors.Join(failed...)
}

// IndexNames yields collection and name of every index.
func (d *DB) indexNames() iter.Seq2[[2]string, error] {
	return func(yield func([2]string, error) bool) {
		infos, err := d.Collections()
		if err != nil {
			yield([2]string{}, err)
			return
		}
		for _, c := range infos {
			for _, name := range c.Indexes {
				if !yield([2]string{c.Name, name}, nil) {
					return
				}
			}
		}
	}
}

// maintainIndex makes the next step of one index. It returns nil if no step is due.
func (d *DB) maintainIndex(
	ctx context.Context, coll, name string, share float64,
) (_ *MaintainStep, err error) {
	ctx, release, err := d.txn.Hold(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	for {
		s, err := d.tryStep(ctx, coll, name, share)
		if !errors.Is(err, errOvertaken) {
			return s, err
		}
	}
}

// tryStep is maintainIndex, except that it returns errOvertaken if the index was replaced or
// dropped during the step.
func (d *DB) tryStep(
	ctx context.Context, coll, name string, share float64,
) (*MaintainStep, error) {
	start := time.Now()
	timer := kind.NewTimer(ctx)
	changes, end := d.txn.Watch()
	defer end()
	var s kind.Step
	at := stepBase{changes: changes}
	ref := &at.from
	var again *rebuild
	err := d.View(func(snap *Snapshot) (err error) {
		defer state.Guard(snap.gen.File, state.CatchFaults(), &err)
		st := snap.gen.Collections[coll]
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
			tunable(st, m) || m.Own.RewriteDue(st.DeletedSet(), m, share)
		if err != nil || !due || st.Entry.Live == 0 {
			return err
		}
		rebuilt := tunable(st, m)
		if !rebuilt {
			s, rebuilt, err = m.Of.Absorb(ctx, st, m, timer)
		}
		if rebuilt && err == nil {
			again = newRebuild(ctx, st, m)
			again.replaces = ref.Object
		}
		return err
	})
	switch {
	case errors.Is(err, labelled.ErrSpread):
		d.unmaintained.Store(ref.Object, err.Error())
		return nil, nil
	case err != nil:
		return nil, fail.Wrapf(err, "maintain index %q of %q", name, coll)
	case s != nil:
		err := d.storeStep(ctx, &at, s, timer)
		if err != nil {
			return nil, err
		}
		return &MaintainStep{coll, name, s.Action(), s.Rows(), time.Since(start).Seconds()}, nil
	case again != nil:
		info, err := d.rebuild(ctx, coll, again)
		if err != nil {
			return nil, err
		}
		d.steps.Add(1)
		return &MaintainStep{coll, name, "relearn", info.Rows, time.Since(start).Seconds()}, nil
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

// rebuild describes how to rebuild an index with its stored settings: without tuning, unless
// the tuning was put off and there are enough rows now.
type rebuild struct {
	m    *kind.Manifest
	opts kind.Options
	// replaces is the main object of the index to rebuild, zero if the file does not have the
	// index yet.
	replaces uint64
}

// overtaken reports whether the index to rebuild no longer exists.
func (x *rebuild) overtaken(c *layout.Collection) bool {
	r := c.Index(x.m.Info.Name)
	return x.replaces > 0 && (r == nil || r.Object != x.replaces)
}

// newRebuild returns the options for a rebuild. st is nil if the index cannot be read.
func newRebuild(ctx context.Context, st kind.Source, m *kind.Manifest) *rebuild {
	if m.Requested != nil {
		return &rebuild{m: m, opts: m.Requested}
	}
	return &rebuild{m: m, opts: m.Of.Again(ctx, st, m)}
}

// rebuild rebuilds an index. It returns errOvertaken if the program has built or dropped the
// index in the meantime.
func (d *DB) rebuild(ctx context.Context, coll string, x *rebuild) (IndexInfo, error) {
	timer := kind.NewTimer(ctx)
	timer.Before = x.m
	return d.build(ctx, &building{
		Job:       kind.Job{Coll: coll, Name: x.m.Info.Name, Opts: x.opts, Timer: timer},
		overtaken: x.overtaken,
	})
}

// stepBytes is the largest number of bytes that a step writes in the transaction that publishes
// it. It limits the wait of other writers to half of their wait during a build.
const stepBytes = stageBytes / 2

// errLargeStep is returned if a step exceeds stepBytes.
var errLargeStep = errors.New("db: the step does not fit one transaction")

// storeStep writes a step of maintenance and replaces the generation of the index that the step
// was made from. A small step takes one transaction, a large one several, whose blocks are
// garbage until the last one commits.
func (d *DB) storeStep(ctx context.Context, at *stepBase, s kind.Step, timer *kind.Timer) error {
	var old replaced
	err := d.storeAtOnce(ctx, at, s, timer, &old)
	if errors.Is(err, errLargeStep) {
		err = d.storeStaged(ctx, at, s, timer, &old)
	}
	if err != nil {
		return err
	}
	d.steps.Add(1)
	d.txn.File().DropShared(at.from.Object)
	for _, id := range old.removed {
		d.txn.File().Forget(id)
	}
	if len(old.left) == 0 {
		return nil
	}
	return d.txn.Sweep(old.left)
}

// replaced holds the objects that are garbage after a step: those that its last
// transaction has removed, and those that are marked and left to further transactions.
type replaced struct{ removed, left []uint64 }

// storeAtOnce is storeStep in one transaction.
func (d *DB) storeAtOnce(
	ctx context.Context, at *stepBase, s kind.Step, timer *kind.Timer, old *replaced,
) error {
	return d.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		first := cat.Allocate(s.Objects())
		written := 0
		m, err := s.Emit(first, func(key [codec.KeySize]byte, value []byte) error {
			if written += len(value); written > stepBytes {
				return errLargeStep
			}
			if err := tx.Bucket(layout.BucketBlocks).Put(key[:], value); err != nil {
				return fail.Wrapf(err, "put block")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if timer.Progress != nil {
			timer.Progress(kind.Progress{Stage: "write", Done: written})
		}
		return publishStep(tx, cat, at, s, m, old)
	})
}

// storeStaged is storeStep in several transactions.
func (d *DB) storeStaged(
	ctx context.Context, at *stepBase, s kind.Step, timer *kind.Timer, old *replaced,
) (err error) {
	objects := make([]uint64, s.Objects())
	err = d.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		first := cat.Allocate(len(objects))
		for i := range objects {
			objects[i] = first + uint64(i)
			if err := layout.PutMark(tx, objects[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	published := false
	defer func() {
		if !published {
			// The mark stays if this fails, and the next Open removes the rest.
			err = errors.Join(err, d.txn.Sweep(objects))
		}
	}()
	m, err := d.stage(ctx, s, objects[0], timer)
	if err != nil {
		return err
	}
	err = d.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		if err := publishStep(tx, cat, at, s, m, old); err != nil {
			return err
		}
		for _, object := range objects {
			if err := layout.DeleteMark(tx, object); err != nil {
				return err
			}
		}
		return nil
	})
	published = err == nil
	return err
}

// publishStep replaces the generation of an index that a step was made from by the step's
// own, and removes the objects that are garbage then. An object with many blocks is only
// marked, and removed later.
func publishStep(
	tx *bbolt.Tx, cat *layout.Catalog, at *stepBase, s kind.Step, m *kind.Manifest, old *replaced,
) error {
	*old = replaced{}
	from := &at.from
	c := cat.ByID(at.coll)
	if c == nil {
		return errOvertaken
	}
	r := c.Index(from.Name)
	if r == nil || r.Object != from.Object {
		return errOvertaken
	}
	m.Kind, m.Of, m.Info.Maintained = at.m.Kind, at.m.Of, time.Now().UTC()
	data, err := layout.EncodeManifest(m)
	if err != nil {
		return err
	}
	err = errors.Join(layout.RetireManifest(tx, from.Object), layout.PutManifest(tx, m.Object, data))
	if err != nil {
		return err
	}
	// The old object may stay as a part of the index.
	if err := layout.DeleteSet(tx, from.Object, codec.KindRelabelled); err != nil {
		return err
	}
	if err := putRelabelled(tx, at.coll, m, at.changes); err != nil {
		return err
	}
	for _, b := range s.Garbage() {
		k := codec.Key(b.Object, b.Kind, b.Number)
		if err := tx.Bucket(layout.BucketBlocks).Delete(k[:]); err != nil {
			return fail.Wrapf(err, "delete block")
		}
	}
	parts := s.Parts()
	for _, x := range from.Objects() {
		if slices.Contains(parts, x) {
			continue
		}
		removed := false
		if len(old.left) == 0 {
			if removed, err = layout.RemoveObject(tx, x); err != nil {
				return err
			}
		}
		if removed {
			old.removed = append(old.removed, x)
			continue
		}
		old.left = append(old.left, x)
		if err := layout.PutMark(tx, x); err != nil {
			return err
		}
	}
	r.Object, r.Parts = m.Object, parts
	return nil
}
