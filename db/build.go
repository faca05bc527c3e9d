package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// stageBytes is the approximate size of a staging transaction of a build: large enough for the
// disk, small enough that waiting writers wait briefly.
const stageBytes = 32 << 20

// Build learns an index over the rows of the latest state and publishes it under name,
// replacing an index of that name if there is one. An index that finds rows also replaces the
// one that maintenance has built (Maintenance.Build), unless a label model finds its neighbors
// with that. The type of o selects the kind of index; nil means Auto.
//
// Build reads rows into memory, learns without holding a snapshot or a transaction, writes blocks
// in several transactions, and publishes in one. Readers and writers run concurrently; Build and a
// Compact or Reorder wait for each other to end. Build must not be called from a callback of one
// of them. Queries scan rows written during the build until maintenance or the next build absorbs
// them.
//
// The cost is dominated by the neighbor lists: rows² · dim operations on all cores if they are
// exact, about rows · (1,000 codes + 200 rows compared) if they are approximate
// (Forest.Source). Memory: the rows as float32 and their principal coordinates, the neighbor
// lists, and the index; approximate lists take another 12 bytes per neighbor and one byte per
// coordinate.
//
// If it is cancelled or fails, the database is unchanged; a crash leaves blocks that the next
// Open removes.
//
// Errors: ErrNotFound, ErrInvalid, ErrUnsuitable.
func (c Collection) Build(
	ctx context.Context, name string, o IndexOptions,
) (_ IndexInfo, err error) {
	d, err := c.writer()
	if err != nil {
		return IndexInfo{}, err
	}
	if err := layout.CheckName(name); err != nil {
		return IndexInfo{}, err
	}
	if name == Flat {
		return IndexInfo{}, fmt.Errorf("%w: %q is the name of the exact scan", fail.Name, name)
	}
	if err := d.txn.Writable(ctx); err != nil {
		return IndexInfo{}, err
	}
	defer d.background.leaveTo(c.name)()
	ctx, release, err := d.txn.Hold(ctx, 1)
	if err != nil {
		return IndexInfo{}, err
	}
	defer release(&err)
	if o == nil {
		o = &Auto{}
	}
	request, err := d.request(c.name, o)
	if err != nil {
		return IndexInfo{}, err
	}
	info, err := d.build(ctx, &building{
		Job: kind.Job{Coll: c.name, Name: name, Opts: request, Timer: kind.NewTimer(ctx)},
	})
	return info, kind.AsParameter(err)
}

// request returns the stored form of the options of a build, and refuses those that the collection
// cannot satisfy.
func (d *DB) request(coll string, given IndexOptions) (o kind.Options, err error) {
	err = d.View(func(s *Snapshot) error {
		st, err := s.collection(coll)
		if err != nil {
			return err
		}
		if o, err = given.request(st.Entry.Sparse); err != nil {
			return err
		}
		dim := st.Entry.Dim
		if st.Entry.Sparse {
			dim = 0
		}
		return o.Limits(coll, dim)
	})
	return o, err
}

// building is a build in progress.
type building struct {
	kind.Job
	kind kind.Kind
	id   uint64 // of the collection, set when it is first read
	// changes are the rows that are relabelled during the build.
	changes *apply.Watch
	// overtaken reports whether the program has changed the indexes so that this one must not be
	// published any more. It is nil for a build by the program.
	overtaken func(c *layout.Collection) bool
	// auto is set for a build by maintenance where there is no index.
	auto bool
}

// build implements Build for a job with a valid name. The caller holds d.numbering.
func (d *DB) build(ctx context.Context, job *building) (IndexInfo, error) {
	changes, end := d.txn.Watch()
	defer end()
	job.changes = changes
	job.Latest = func(f func(st kind.Source) error) error { return d.latest(job, f) }
	err := job.Latest(func(st kind.Source) (err error) {
		job.kind, err = suitable(job.Opts, job.Coll, st.Collection().Sparse)
		return err
	})
	if err != nil {
		return IndexInfo{}, err
	}
	l, err := job.kind.Build(ctx, &job.Job)
	if err != nil {
		return IndexInfo{}, err
	}
	return d.storeIndex(ctx, job, l)
}

// latest calls f with the latest generation of the collection that is being indexed.
func (d *DB) latest(job *building, f func(st kind.Source) error) error {
	return d.View(func(s *Snapshot) (err error) {
		defer state.Guard(s.gen.File, state.CatchFaults(), &err)
		st, err := s.collection(job.Coll)
		switch {
		case err != nil:
			return err
		case job.id == 0:
			job.id = st.Entry.ID
		case job.id != st.Entry.ID:
			return dropped(job.Coll)
		}
		return f(st)
	})
}

// dropped returns the error of a build whose collection was dropped during the build.
func dropped(coll string) error {
	return fmt.Errorf("%w: %q: the collection was dropped during the build", fail.NoCollection, coll)
}

// storeIndex writes a learned index and publishes it.
func (d *DB) storeIndex(ctx context.Context, job *building, l kind.Built) (info IndexInfo, err error) {
	start, timer := time.Now(), job.Timer
	var object uint64
	err = d.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		cat.Object++
		object = cat.Object
		return layout.PutMark(tx, object)
	})
	if err != nil {
		return info, err
	}
	published := false
	defer func() {
		if !published {
			// If this fails, the mark stays and the next Open removes the remaining blocks.
			err = errors.Join(err, d.txn.Sweep([]uint64{object}))
		}
	}()
	m, err := d.stage(ctx, l, object, timer)
	if err != nil {
		return info, err
	}
	timer.Seconds["write"] += time.Since(start).Seconds()
	l.Describe(m)
	m.Kind, m.Of = m.Options.Name(), job.kind
	m.Info.Name, m.Info.Created, m.Info.BuildSeconds, m.Info.BuildMemory =
		job.Name, time.Now().UTC(), timer.Seconds, timer.Memory
	m.Auto = job.auto
	timer.Keep(m)
	replaced, err := d.publishIndex(ctx, job, m)
	if err != nil {
		return info, err
	}
	published = true
	if len(replaced) > 0 {
		err = d.txn.Sweep(replaced)
	}
	return publicInfo(m), err
}

// stage writes the blocks of an index in transactions of about stageBytes.
func (d *DB) stage(ctx context.Context, l kind.Product, object uint64,
	timer *kind.Timer) (*kind.Manifest, error) {
	type pair struct {
		key   [codec.KeySize]byte
		value []byte
	}
	var batch []pair
	size, written := 0, 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := d.txn.Exclusive(ctx, func(tx *bbolt.Tx, _ *layout.Catalog) error {
			b := tx.Bucket(layout.BucketBlocks)
			for _, p := range batch {
				if err := b.Put(p.key[:], p.value); err != nil {
					return fail.Wrapf(err, "put block")
				}
			}
			return nil
		})
		written += size
		batch, size = batch[:0], 0
		if timer.Progress != nil {
			timer.Progress(kind.Progress{Stage: "write", Done: written})
		}
		return err
	}
	m, err := l.Emit(object, func(key [codec.KeySize]byte, value []byte) error {
		batch = append(batch, pair{key, value})
		if size += len(value); size >= stageBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// publishIndex makes an index visible and returns the objects it replaces.
func (d *DB) publishIndex(
	ctx context.Context, job *building, m *kind.Manifest,
) (replaced []uint64, err error) {
	data, err := layout.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	err = d.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		c := cat.ByID(job.id)
		if c == nil {
			return dropped(job.Coll)
		}
		if job.overtaken != nil && job.overtaken(c) {
			return errOvertaken
		}
		if err := refuseCycle(tx, c, m); err != nil {
			return err
		}
		if err := layout.PutManifest(tx, m.Object, data); err != nil {
			return err
		}
		if job.overtaken == nil && !m.Of.Predicts() && m.Info.Name != autoIndex {
			replaced = removeAuto(c, tx)
		}
		if r := c.Index(m.Info.Name); r != nil {
			replaced = append(replaced, r.Objects()...)
			r.Object, r.Parts, r.Labels = m.Object, nil, m.Of.Predicts()
		} else {
			c.Indexes = append(c.Indexes, layout.IndexRef{
				Name: m.Info.Name, Object: m.Object, Labels: m.Of.Predicts(),
			})
		}
		for _, object := range replaced {
			if err := layout.PutMark(tx, object); err != nil {
				return err
			}
		}
		if err := putRelabelled(tx, job.id, m, job.changes); err != nil {
			return err
		}
		return layout.DeleteMark(tx, m.Object)
	})
	return replaced, err
}

// refuseCycle refuses to publish a label model that would depend on itself. Other builds may
// have published such indexes after the model's neighbors were resolved.
func refuseCycle(tx *bbolt.Tx, c *layout.Collection, m *kind.Manifest) error {
	cycle, err := kind.Cycle(m.Info.Name, func(name string) (string, error) {
		if name == m.Info.Name {
			return m.Own.Uses(), nil
		}
		r := c.Index(name)
		if r == nil {
			return "", nil
		}
		other, err := layout.StoredManifest(tx, c, r, kindOf)
		if err != nil {
			return "", nil // damage in another index does not stop this build
		}
		return other.Own.Uses(), nil
	})
	if err == nil && cycle != nil {
		err = fmt.Errorf("%w: label model %q of %q would depend on itself: its neighbours are found by %q: "+
			"give it another name, or other neighbours", fail.Option, m.Info.Name, c.Name, cycle[1:])
	}
	return err
}

// removeAuto removes the index that maintenance has built from the entry of a collection, unless
// a label model uses it, and returns its objects.
func removeAuto(c *layout.Collection, tx *bbolt.Tx) []uint64 {
	r := c.Index(autoIndex)
	if r == nil {
		return nil
	}
	if m, err := layout.StoredManifest(tx, c, r, kindOf); err != nil || !m.Auto {
		return nil
	}
	for i := range c.Indexes {
		m, err := layout.StoredManifest(tx, c, &c.Indexes[i], kindOf)
		if err != nil || m.Own.Uses() == autoIndex {
			return nil // also if a damaged model may use it
		}
	}
	removed := r.Objects()
	c.Indexes = slices.DeleteFunc(c.Indexes, func(x layout.IndexRef) bool { return x.Name == autoIndex })
	return removed
}

// putRelabelled records the rows that were relabelled while an index was made.
func putRelabelled(tx *bbolt.Tx, coll uint64, m *kind.Manifest, changes *apply.Watch) error {
	if !m.Of.Predicts() {
		return nil
	}
	return layout.EditSets(tx, m.Object, codec.KindRelabelled, changes.Relabelled(coll), nil)
}

// DropIndex removes an index. Snapshots taken before can still use it. Once an index that finds
// rows has been dropped, maintenance does not build one in this collection any more
// (Maintenance.Build).
//
// Errors: ErrNotFound.
func (c Collection) DropIndex(ctx context.Context, name string) error {
	d, err := c.writer()
	if err != nil {
		return err
	}
	return d.txn.Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		entry, err := cat.Find(c.name)
		if err != nil {
			return nil, err
		}
		r := entry.Index(name)
		if r == nil {
			return nil, layout.NoIndex(entry, name)
		}
		removed := r.Objects()
		entry.Unindexed = entry.Unindexed || !r.Labels
		entry.Indexes = slices.DeleteFunc(entry.Indexes, func(x layout.IndexRef) bool { return x.Name == name })
		return removed, nil
	})
}
