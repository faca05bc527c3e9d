package segment

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
)

// stepBytes is the largest number of bytes that a step writes in the transaction that publishes
// it. It limits the wait of other writers to half of their wait during a build.
const stepBytes = txn.StageBytes / 2

// errLargeStep is returned if a step exceeds stepBytes.
var errLargeStep = errors.New("db: the step does not fit one transaction")

// inPlace is a step of a kind that changes its indexes in place.
type inPlace struct {
	coll    uint64
	from    layout.IndexRef
	m       *kind.Manifest // of from
	changes *apply.Watch   // the rows that are relabelled during the step
	step    kind.Step
	timer   *kind.Timer
}

// absorb finds the step of a kind that changes its indexes in place.
func (d *due) absorb(
	ctx context.Context, st *state.Collection, old kind.Absorber, m *kind.Manifest, e Effort,
) error {
	changed, err := changedRows(ctx, st, m)
	due := changed > 0 && float64(changed) >= e.Share*float64(m.Info.Rows) || m.Own.RewriteDue(st, m, e.Share)
	if err != nil || !due {
		return err
	}
	timer := kind.NewTimer(ctx)
	s, rebuilt, err := old.Absorb(ctx, st, m, timer)
	switch {
	case err != nil:
		return err
	case rebuilt:
		d.again = inPlaceOf(ctx, st, m, &d.ref)
	case s != nil:
		d.inPlace = &inPlace{coll: st.Entry.ID, from: d.ref, m: m, changes: d.changes, step: s, timer: timer}
	}
	return nil
}

// changedRows returns the number of rows written, deleted or relabelled since an index was made.
// Rows that were deleted before and left out do not count, if the index has recorded their
// number.
func changedRows(ctx context.Context, st *state.Collection, m *kind.Manifest) (int, error) {
	if err := st.Load(ctx); err != nil {
		return 0, err
	}
	deletedRows := kind.DeletedWithin(st.DeletedSet(), 0, m.Info.Rows)
	stale, err := st.Stale(m.Object, m.Info.Rows)
	return int(st.Entry.Rows) - m.Info.Rows + deletedRows - (m.Info.Rows - m.Info.TrainingPoints) + stale, err
}

// makeInPlace makes a step of a kind that changes its indexes in place.
func (ix *Indexer) makeInPlace(ctx context.Context, d *due) (*Step, error) {
	s := d.inPlace.step
	if err := ix.storeStep(ctx, d.inPlace, s, d.inPlace.timer); err != nil {
		return nil, err
	}
	if r, ok := s.(kind.Recorder); ok {
		r.Published()
	}
	return &Step{Action: s.Action(), Rows: s.Rows()}, nil
}

// storeStep writes a step of maintenance and replaces the generation of the index that the step
// was made from. A small step takes one transaction, a large one several, whose blocks are
// garbage until the last one commits.
func (ix *Indexer) storeStep(ctx context.Context, at *inPlace, s kind.Step, timer *kind.Timer) error {
	var old replaced
	err := ix.storeAtOnce(ctx, at, s, timer, &old)
	if errors.Is(err, errLargeStep) {
		err = ix.storeStaged(ctx, at, s, timer, &old)
	}
	if err != nil {
		return err
	}
	ix.txn.File().DropShared(at.from.Object)
	for _, id := range old.removed {
		ix.txn.File().Forget(id)
	}
	if len(old.left) == 0 {
		return nil
	}
	return ix.txn.Sweep(old.left)
}

// replaced holds the objects that are garbage after a step: those that its last
// transaction has removed, and those that are marked and left to further transactions.
type replaced struct{ removed, left []uint64 }

// storeAtOnce is storeStep in one transaction.
func (ix *Indexer) storeAtOnce(
	ctx context.Context, at *inPlace, s kind.Step, timer *kind.Timer, old *replaced,
) error {
	return ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
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
func (ix *Indexer) storeStaged(
	ctx context.Context, at *inPlace, s kind.Step, timer *kind.Timer, old *replaced,
) (err error) {
	objects := make([]uint64, s.Objects())
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
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
			err = errors.Join(err, ix.txn.Sweep(objects))
		}
	}()
	out := &stager{ix: ix, ctx: ctx, timer: timer}
	m, err := s.Emit(objects[0], out.put)
	if err != nil {
		return err
	}
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		if err := out.flush(tx); err != nil {
			return err
		}
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
	tx *bbolt.Tx, cat *layout.Catalog, at *inPlace, s kind.Step, m *kind.Manifest, old *replaced,
) error {
	*old = replaced{}
	from := &at.from
	c := cat.ByID(at.coll)
	if c == nil {
		return ErrOvertaken
	}
	r := c.Index(from.Name)
	if r == nil || r.Object != from.Object {
		return ErrOvertaken
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
