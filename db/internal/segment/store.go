package segment

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/arrays"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/txn"
)

// store writes a learned segment and publishes the index with it. l is nil for a segment without live
// rows.
func (ix *Indexer) store(ctx context.Context, job *building, l kind.Built) (m *kind.Manifest, err error) {
	objects, err := ix.mark(ctx, 2)
	if err != nil {
		return nil, err
	}
	published := false
	defer func() {
		if !published {
			// If this fails, the marks stay and the next Open removes the remaining blocks.
			err = errors.Join(err, ix.txn.Sweep(objects))
		}
	}()
	start, timer := time.Now(), job.Timer
	out := &stager{ix: ix, ctx: ctx, timer: timer}
	g := kind.Segment{First: job.First, Rows: job.End - job.First, Dead: job.End - job.First}
	if l != nil {
		w := arrays.NewWriter(objects[0], out.put)
		l.Emit(w, &g)
		g.Object, g.Bytes = w.Object, w.Sizes
		if w.Err != nil {
			return nil, w.Err
		}
	}
	timer.Seconds["write"] += time.Since(start).Seconds()
	timer.Report("write", out.written+out.size, 0)
	m = job.describe(l, g, objects[1])
	left, err := ix.publish(ctx, job, m, objects, out)
	if err != nil {
		return nil, err
	}
	published = true
	return m, ix.txn.Sweep(left)
}

// storeMeasured publishes an index whose settings were measured again. Its segments stay.
func (ix *Indexer) storeMeasured(ctx context.Context, job *building, m *kind.Manifest) (err error) {
	objects, err := ix.mark(ctx, 1)
	if err != nil {
		return err
	}
	m.Object, m.Info.Maintained = objects[0], time.Now().UTC()
	left, err := ix.publish(ctx, job, m, objects, &stager{ix: ix, ctx: ctx, timer: job.Timer})
	if err != nil {
		left = objects
	}
	return errors.Join(err, ix.txn.Sweep(left))
}

// describe returns the manifest of the index with a new segment.
func (job *building) describe(l kind.Built, g kind.Segment, object uint64) *kind.Manifest {
	if job.Base != nil {
		m := *job.Base
		m.Object, m.Dim, m.Info.Maintained = object, job.dim, time.Now().UTC()
		m.Segments = slices.Replace(slices.Clone(m.Segments), job.plan.from, job.plan.to, g)
		m.Total()
		return &m
	}
	m := &kind.Manifest{
		Object: object, Metric: job.metric, Dim: job.dim, Of: job.kind, Auto: job.auto,
		Segments: []kind.Segment{g},
	}
	m.Total()
	l.Describe(m)
	m.Kind = m.Options.Name()
	m.Info.Name, m.Info.Created, m.Info.BuildSeconds, m.Info.BuildMemory =
		job.Name, time.Now().UTC(), job.Timer.Seconds, job.Timer.Memory
	m.Given = job.Given
	if job.Before != nil {
		m.Keep(job.Before)
	}
	return m
}

// mark allocates and marks objects.
func (ix *Indexer) mark(ctx context.Context, n int) (objects []uint64, err error) {
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		objects = nil
		for first := cat.Allocate(n); len(objects) < n; {
			object := first + uint64(len(objects))
			if err := layout.PutMark(tx, object); err != nil {
				return err
			}
			objects = append(objects, object)
		}
		return nil
	})
	return objects, err
}

// stager writes blocks in transactions of about txn.StageBytes.
type stager struct {
	ix    *Indexer
	ctx   context.Context
	timer *kind.Timer
	batch []block
	// size and written are the bytes of batch, and of the blocks before.
	size, written int
}

// block is a block to be written.
type block struct {
	key   [codec.KeySize]byte
	value []byte
}

// put writes a block, if there are enough for a transaction, or leaves it to flush.
func (s *stager) put(key [codec.KeySize]byte, value []byte) error {
	s.batch = append(s.batch, block{key, value})
	if s.size += len(value); s.size < txn.StageBytes {
		return nil
	}
	err := s.ix.txn.Exclusive(s.ctx, func(tx *bbolt.Tx, _ *layout.Catalog) error { return s.flush(tx) })
	s.timer.Report("write", s.written, 0)
	return err
}

// flush writes the blocks that are left.
func (s *stager) flush(tx *bbolt.Tx) error {
	b := tx.Bucket(layout.BucketBlocks)
	for _, x := range s.batch {
		if err := b.Put(x.key[:], x.value); err != nil {
			return fail.Wrapf(err, "put block")
		}
	}
	s.written += s.size
	s.batch, s.size = s.batch[:0], 0
	return nil
}
