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
)

// MaintainOptions say how DB.Maintain works. The zero value folds everything in.
type MaintainOptions struct {
	// Share leaves an index alone until its rows written or deleted since are
	// this share of those it covers. Zero means that any change counts.
	Share float64
	// Workers is the number of goroutines, all processors when zero.
	Workers int
	// Progress, if not nil, is called from several goroutines but never at the
	// same time.
	Progress func(Progress)
}

// MaintainStep is a step of maintenance: one transaction that made an index
// newer.
type MaintainStep struct {
	Collection, Index string
	// Action is what was done: "segment" (fresh rows became a segment of an
	// inverted index or label model), "merge" (together with other segments),
	// "rewrite" (a segment lost its deleted rows), "forget" (deleted rows no
	// longer count in a label model), "fold" (into a forest), "count" (budgeted
	// trees count other rows, decisions stay), "subtree" (parts of budgeted trees
	// were learned anew as well), "relearn" (the index was learned anew).
	Action string
	// Rows is how many rows were read for it.
	Rows int
	// Seconds is the wall time.
	Seconds float64
}

// errOvertaken is returned by a step whose index has been built anew, or
// dropped, meanwhile.
var errOvertaken = errors.New("db: the index was replaced during maintenance")

// Maintain makes all indexes cover the rows written since, and forget those
// deleted, in steps of one transaction each, until nothing is left to do. Reads
// and writes go on all the while; cancelled or crashed, all steps done before
// stay done. Their list is returned. Only one call works at a time; others wait.
//
// Inverted indexes (KindPostings) and label models of KindLCIF take fresh rows in
// as segments, so that the cost follows the change, and answer as if built anew:
// a model's feature–label similarities and priors are those of the rows that
// there are, bit for bit. Its parameters stay, thresholds among them, and so do
// weights and selection of features, if it has any; of such models those are
// learned anew of which a fifth has changed.
//
// Budgeted trees (KindSBT, KindPT, KindAT) keep the decisions of nodes of which at
// most a fifth of the rows came or went since they were learned. The other nodes,
// highest first, are relearned with all nodes below them from their present rows,
// with the parameters and the seed of the build; above a fifth at a root, all trees
// are retrained. Counts and leaves are always those of the present rows, and new
// labels can be answered at once (see budget.Follow). A step reads all rows. The
// weights of features stay until the trees are retrained, and features that came
// since then have none; without weights, relearned nodes use them.
//
// Fresh rows are folded into forests, as training
// points and as labels, at a cost that follows their number; a forest of which
// a fifth has changed is learned anew, with the settings that the tuner found.
// One that was built over too few rows for the tuner is built again, with it, as
// soon as there are 10, whatever Share says.
// Forests of proportions (kind rf, or very large leaves) are only learned anew;
// those that were learned from training queries stay as they are until the next
// Build.
//
// An index that could not be built from the rows that there are now, because the feature
// numbers have become too large for it (see ErrUnsuitable), stays as it is, which is no
// error: IndexStatus.Error says so.
//
// Errors: ErrOption, ErrReadOnly, ErrClosed, ErrCorrupt, ErrNoSpace,
// ErrStateUnknown and the context's.
func (d *DB) Maintain(ctx context.Context, o MaintainOptions) (steps []MaintainStep, err error) {
	if !(o.Share >= 0) || o.Workers < 0 {
		return nil, fmt.Errorf("%w: a negative share or count", ErrOption)
	}
	if err := d.writable(ctx); err != nil {
		return nil, err
	}
	select {
	case d.maintaining <- struct{}{}:
		defer func() { <-d.maintaining }()
	case <-ctx.Done():
		return nil, wrapf(ctx.Err(), "maintain")
	}
	var failed []error // one index that cannot be maintained is no reason to leave the others
	for name, err := range d.indexNames() {
		for err == nil {
			var s *MaintainStep
			if s, err = d.maintainIndex(ctx, name[0], name[1], o); s == nil {
				break
			}
			steps = append(steps, *s)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if err := d.writable(ctx); err != nil {
			failed = append(failed, err)
			break
		}
	}
	return steps, errors.Join(failed...)
}

// maintainOnce makes one step, if there is one to make.
func (d *DB) maintainOnce(ctx context.Context, o MaintainOptions) (*MaintainStep, error) {
	select {
	case d.maintaining <- struct{}{}:
		defer func() { <-d.maintaining }()
	case <-ctx.Done():
		return nil, wrapf(ctx.Err(), "maintain")
	}
	var failed []error
	for name, err := range d.indexNames() {
		var s *MaintainStep
		if err == nil {
			s, err = d.maintainIndex(ctx, name[0], name[1], o)
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

// indexNames yields collection and name of every index.
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

// maintainIndex makes the next step of one index; nil means that there is
// nothing to do.
func (d *DB) maintainIndex(ctx context.Context, coll, name string, o MaintainOptions) (_ *MaintainStep, err error) {
	ctx, release, err := d.hold(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer release(&err)
	for {
		s, err := d.tryStep(ctx, coll, name, o)
		if !errors.Is(err, errOvertaken) {
			return s, err
		}
	}
}

// tryStep is maintainIndex; it returns errOvertaken where the index was replaced
// or dropped meanwhile.
func (d *DB) tryStep(ctx context.Context, coll, name string, o MaintainOptions) (*MaintainStep, error) {
	start := time.Now()
	timer := newTimer(o.Progress)
	var s step
	var ref indexRef
	var id uint64
	var again *rebuild
	err := d.View(func(snap *Snapshot) (err error) {
		defer guard(snap.gen.store, setFaults(), &err)
		st := snap.gen.colls[coll]
		if st == nil || st.c.index(name) == nil {
			return nil // dropped meanwhile
		}
		id, ref = st.c.ID, *st.c.index(name)
		m, err := st.manifestOf(&ref)
		if err != nil {
			return err
		}
		changed, err := st.changedRows(ctx, m)
		due := changed > 0 && float64(changed) >= o.Share*float64(m.Info.Rows) || st.tunable(m) || st.rewriteDue(m, o.Share)
		if err != nil || !due || st.c.Live == 0 {
			return err
		}
		anew := st.tunable(m)
		if !anew {
			s, anew, err = m.kind().absorb(ctx, st, &ref, m, work{o.Workers, timer})
		}
		if anew && err == nil {
			again = newRebuild(ctx, st, m)
		}
		return err
	})
	switch {
	case errors.Is(err, errSpread):
		d.unmaintained.Store(ref.Object, err.Error())
		return nil, nil
	case err != nil:
		return nil, wrapf(err, "maintain index %q of %q", name, coll)
	case s != nil:
		err := d.storeStep(ctx, id, &ref, s, timer)
		if err != nil {
			return nil, err
		}
		return &MaintainStep{coll, name, s.action(), s.rows(), time.Since(start).Seconds()}, nil
	case again != nil:
		info, err := d.rebuild(ctx, coll, again, o)
		if err != nil {
			return nil, err
		}
		d.steps.Add(1)
		return &MaintainStep{coll, name, "relearn", info.Rows, time.Since(start).Seconds()}, nil
	}
	return nil, nil
}

// changedRows is how many rows were written or deleted since an index was made.
// What it left out as deleted already counts, unless it says how many it did.
func (st *collState) changedRows(ctx context.Context, m *manifest) (int, error) {
	if err := st.load(ctx); err != nil {
		return 0, err
	}
	dead := 0
	if b := within(st.dead(), 0, m.Info.Rows); b != nil {
		dead = int(b.GetCardinality())
	}
	return int(st.c.Rows) - m.Info.Rows + dead - (m.Info.Rows - m.Info.TrainingPoints), nil
}

// tunable reports whether an index has waited for rows to be tuned on, and there
// are enough now.
func (st *collState) tunable(m *manifest) bool {
	return m.Requested != nil && st.c.Live >= heldOutOf
}

// rebuild is how an index is built again as it was built: without tuning, unless the
// tuner has waited for rows until now.
type rebuild struct {
	m    *manifest
	opts BuildOptions
}

// newRebuild returns the options for that. st is nil where the index cannot be read.
func newRebuild(ctx context.Context, st source, m *manifest) *rebuild {
	if m.Requested != nil {
		return &rebuild{m, *m.Requested}
	}
	o := m.Info.Options
	o.NoTune = true
	m.kind().again(ctx, st, m, &o)
	return &rebuild{m, o}
}

// rebuild builds an index again.
func (d *DB) rebuild(ctx context.Context, coll string, x *rebuild, o MaintainOptions) (IndexInfo, error) {
	again := x.opts
	if o.Workers > 0 {
		again.Workers = o.Workers
	}
	timer := newTimer(o.Progress)
	timer.before = x.m
	return d.build(ctx, coll, x.m.Info.Name, again, timer)
}

// drift is the share of its rows by which what an index has learned may change before
// it is relearned.
const drift = 0.2

// stepBytes is how much a step may write in the transaction that publishes it:
// little enough that writers in line need not wait long, and half of what they
// wait for when an index is built.
const stepBytes = stageBytes / 2

// errLargeStep is returned where a step is larger than that.
var errLargeStep = errors.New("db: the step does not fit one transaction")

// storeStep writes a step of maintenance and publishes it in the place of the
// index's generation that it was made from: a small one in one transaction, a
// large one in several that are garbage until the last.
func (d *DB) storeStep(ctx context.Context, id uint64, from *indexRef, s step, timer *stageTimer) error {
	var old replaced
	err := d.storeAtOnce(ctx, id, from, s, timer, &old)
	if errors.Is(err, errLargeStep) {
		err = d.storeStaged(ctx, id, from, s, timer, &old)
	}
	if err != nil {
		return err
	}
	d.steps.Add(1)
	d.store.fresh.Delete(from.Object)
	for _, id := range old.removed {
		d.store.forget(id)
	}
	if len(old.left) == 0 {
		return nil
	}
	return d.sweep(old.left)
}

// replaced are the objects that are garbage after a step: those that its last
// transaction has removed, and those left to further ones, which are marked.
type replaced struct{ removed, left []uint64 }

// storeAtOnce is storeStep in one transaction.
func (d *DB) storeAtOnce(ctx context.Context, id uint64, from *indexRef, s step, timer *stageTimer, old *replaced) error {
	return d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		first := cat.take(s.objects())
		written := 0
		m, err := s.emit(first, func(key [codec.KeySize]byte, value []byte) error {
			if written += len(value); written > stepBytes {
				return errLargeStep
			}
			if err := tx.Bucket(bucketBlocks).Put(key[:], value); err != nil {
				return wrapf(err, "put block")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if timer.progress != nil {
			timer.progress(Progress{Stage: "write", Done: written})
		}
		return publishStep(tx, cat, id, from, s, m, old)
	})
}

// storeStaged is storeStep in several transactions.
func (d *DB) storeStaged(ctx context.Context, id uint64, from *indexRef, s step, timer *stageTimer, old *replaced) (err error) {
	objects := make([]uint64, s.objects())
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		first := cat.take(len(objects))
		for i := range objects {
			objects[i] = first + uint64(i)
			if err := putMark(tx, objects[i]); err != nil {
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
			err = errors.Join(err, d.sweep(objects))
		}
	}()
	m, err := d.stage(ctx, s, objects[0], timer)
	if err != nil {
		return err
	}
	err = d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		if err := publishStep(tx, cat, id, from, s, m, old); err != nil {
			return err
		}
		for _, object := range objects {
			if err := deleteMark(tx, object); err != nil {
				return err
			}
		}
		return nil
	})
	published = err == nil
	return err
}

// publishStep puts a step's generation of an index in the place of the one that
// it was made from, and removes objects that are garbage then, unless one has
// many blocks.
func publishStep(tx *bbolt.Tx, cat *catalog, id uint64, from *indexRef, s step, m *manifest, old *replaced) error {
	*old = replaced{}
	c := cat.byID(id)
	if c == nil {
		return errOvertaken
	}
	r := c.index(from.Name)
	if r == nil || r.Object != from.Object {
		return errOvertaken
	}
	m.Info.Maintained = time.Now().UTC()
	data, err := encodeManifest(m)
	if err != nil {
		return err
	}
	if err := errors.Join(retireManifest(tx, from.Object), putManifest(tx, m.Object, data)); err != nil {
		return err
	}
	for _, b := range s.garbage() {
		k := codec.Key(b.object, b.kind, b.number)
		if err := tx.Bucket(bucketBlocks).Delete(k[:]); err != nil {
			return wrapf(err, "delete block")
		}
	}
	parts := s.parts()
	for _, x := range from.objects() {
		if slices.Contains(parts, x) {
			continue
		}
		removed := false
		if len(old.left) == 0 {
			if removed, err = removeSome(tx, x); err != nil {
				return err
			}
		}
		if removed {
			old.removed = append(old.removed, x)
			continue
		}
		old.left = append(old.left, x)
		if err := putMark(tx, x); err != nil {
			return err
		}
	}
	r.Object, r.Parts = m.Object, parts
	return nil
}
