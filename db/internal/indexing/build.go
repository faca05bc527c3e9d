package indexing

import (
	"context"
	"errors"
	"fmt"
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

// Request describes an index to build.
type Request struct {
	Collection, Name string
	Options          kind.Options
	// Auto is set for a build by maintenance. The index is published only if the collection still
	// lacks one that finds rows.
	Auto bool
}

// Build learns an index over the rows of the latest state and publishes it, in the place of one of
// that name. Name and options are valid. The caller holds a share of row numbers.
func (ix *Indexer) Build(ctx context.Context, r Request) (*kind.Manifest, error) {
	job := &building{
		Job:  kind.Job{Coll: r.Collection, Name: r.Name, Opts: r.Options, Timer: kind.NewTimer(ctx)},
		auto: r.Auto,
	}
	if r.Auto {
		job.overtaken = func(c *layout.Collection) bool { return !Lacking(c) }
	}
	return ix.build(ctx, job)
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
	auto      bool // see Request
}

// build learns, stores and publishes an index.
func (ix *Indexer) build(ctx context.Context, job *building) (*kind.Manifest, error) {
	changes, end := ix.txn.Watch()
	defer end()
	job.changes = changes
	job.Latest = func(f func(st kind.Source) error) error { return ix.latest(job, f) }
	err := job.Latest(func(st kind.Source) (err error) {
		job.kind, err = ix.suitable(job.Opts, job.Coll, st.Collection().Sparse)
		return err
	})
	if err != nil {
		return nil, err
	}
	l, err := job.kind.Build(ctx, &job.Job)
	if err != nil {
		return nil, err
	}
	return ix.storeIndex(ctx, job, l)
}

// suitable returns the kind that options select, or an error if it does not suit a collection.
func (ix *Indexer) suitable(o kind.Options, coll string, sparse bool) (kind.Kind, error) {
	k := ix.kindOf(o.Name())
	if k == nil { // in a damaged manifest
		return nil, fmt.Errorf("%w: unknown kind of index %q", fail.Option, o.Name())
	}
	if !k.Suits(sparse) {
		return nil, fmt.Errorf("%w: kind %q does not suit %q", fail.Kind, o.Name(), coll)
	}
	return k, nil
}

// latest calls f with the latest generation of the collection that is being indexed.
func (ix *Indexer) latest(job *building, f func(st kind.Source) error) error {
	return ix.txn.View(func(g *state.Generation) error {
		st, err := g.Collection(job.Coll)
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
func (ix *Indexer) storeIndex(
	ctx context.Context, job *building, l kind.Built,
) (m *kind.Manifest, err error) {
	start, timer := time.Now(), job.Timer
	var object uint64
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		cat.Object++
		object = cat.Object
		return layout.PutMark(tx, object)
	})
	if err != nil {
		return nil, err
	}
	published := false
	defer func() {
		if !published {
			// If this fails, the mark stays and the next Open removes the remaining blocks.
			err = errors.Join(err, ix.txn.Sweep([]uint64{object}))
		}
	}()
	m, err = ix.stage(ctx, l, object, timer)
	if err != nil {
		return nil, err
	}
	timer.Seconds["write"] += time.Since(start).Seconds()
	l.Describe(m)
	m.Kind, m.Of = m.Options.Name(), job.kind
	m.Info.Name, m.Info.Created, m.Info.BuildSeconds, m.Info.BuildMemory =
		job.Name, time.Now().UTC(), timer.Seconds, timer.Memory
	m.Auto = job.auto
	timer.Keep(m)
	replaced, err := ix.publishIndex(ctx, job, m)
	if err != nil {
		return nil, err
	}
	published = true
	if len(replaced) > 0 {
		err = ix.txn.Sweep(replaced)
	}
	return m, err
}

// stage writes the blocks of an index in transactions of about txn.StageBytes.
func (ix *Indexer) stage(ctx context.Context, l kind.Product, object uint64,
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
		err := ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, _ *layout.Catalog) error {
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
		if size += len(value); size >= txn.StageBytes {
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
