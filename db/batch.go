package db

import (
	"context"
	"fmt"
	"slices"
)

// Batch collects the changes of one Update.
type Batch struct {
	d     *DB
	ctx   context.Context
	cat   *catalog
	ops   []op
	bytes int
	seen  map[string]map[string]struct{} // collection → keys
	err   error
	done  bool
}

// op is one change: a Put with a row, or a Delete with only its key.
type op struct {
	id   uint64 // collection
	coll string
	del  bool
	// insert says that no row may have the key yet.
	insert bool
	row    newRow
}

// request is a batch waiting for a writer.
type request struct {
	ops   []op
	bytes int
	done  chan error
}

// size is about how much memory a row takes, in bytes.
func (r *Row) size() int {
	return 4*len(r.Vector) + 8*r.Sparse.Len() + 32*len(r.Features) + len(r.Key) + len(r.Payload)
}

// commitBytes is about how much data of waiting batches one transaction takes
// along.
const commitBytes = 64 << 20

// Put adds a row, or replaces the row of the same key. Everything is copied.
// The first error also fails the whole Update.
//
// Errors: ErrNoCollection, ErrKey, ErrKind, ErrDimension, ErrNotFinite, ErrNorm,
// ErrFeatures, ErrLabel, ErrPayload, ErrDuplicateKey, ErrClosed after Update has
// returned.
func (b *Batch) Put(coll string, r Row) error { return b.put(coll, r, false) }

// Insert adds a row like Put, but never replaces one: if a row has the key when the
// batch is written, Update fails with ErrExists.
//
// Errors: those of Put.
func (b *Batch) Insert(coll string, r Row) error { return b.put(coll, r, true) }

func (b *Batch) put(coll string, r Row, insert bool) error {
	return b.add(coll, r.Key, func(c *collection) (op, error) {
		if err := checkRow(&r, c); err != nil {
			return op{}, err
		}
		b.bytes += r.size()
		return op{row: copyRow(&r), insert: insert}, nil
	})
}

// Delete removes the row with the key. A key that no row has is no error.
//
// Errors: ErrNoCollection, ErrKey, ErrDuplicateKey, ErrClosed.
func (b *Batch) Delete(coll string, key []byte) error {
	return b.add(coll, key, func(*collection) (op, error) {
		if len(key) < 1 || len(key) > MaxKey {
			return op{}, fmt.Errorf("%w: %d bytes, want 1 to %d", ErrKey, len(key), MaxKey)
		}
		b.bytes += len(key)
		return op{del: true, row: newRow{key: slices.Clone(key)}}, nil
	})
}

// Len is the number of changes so far.
func (b *Batch) Len() int { return len(b.ops) }

func (b *Batch) add(coll string, key []byte, make func(*collection) (op, error)) (err error) {
	if b.done {
		return fmt.Errorf("%w: batch used after Update returned", ErrClosed)
	}
	defer func() {
		if b.err == nil {
			b.err = err
		}
	}()
	c, err := b.cat.find(coll)
	if err != nil {
		return err
	}
	before := b.bytes
	o, err := make(c)
	if err != nil {
		return fmt.Errorf("collection %q: %w", coll, err)
	}
	if err := b.d.backlog.grow(b.ctx, b.bytes-before); err != nil {
		b.bytes = before
		return err
	}
	keys := b.seen[coll]
	if keys == nil {
		keys = map[string]struct{}{}
		b.seen[coll] = keys
	}
	if _, dup := keys[string(key)]; dup {
		return fmt.Errorf("%w: %q in collection %q", ErrDuplicateKey, key, coll)
	}
	keys[string(key)] = struct{}{}
	o.id, o.coll = c.ID, coll
	b.ops = append(b.ops, o)
	return nil
}

// Update applies a batch: fn fills it, and then all of it is written or none.
// When Update returns nil the batch is durable and visible to every snapshot
// taken from then on. Concurrent updates share transactions and their fsync.
// If fn, or any Put or Delete in it, fails, nothing is written. While batches
// of Options.BacklogBytes wait for the disk, Update and Put wait for room.
//
// A context cancelled before the batch's transaction has begun leaves the
// database as it was; later it has no effect.
//
// Errors: those of Put, Delete and fn, ErrOption if fn is nil, ErrExists (see
// Insert), ErrReadOnly, ErrClosed, ErrFull,
// ErrNoSpace, ErrStateUnknown, ErrCorrupt and the context's.
func (d *DB) Update(ctx context.Context, fn func(*Batch) error) error {
	b, err := d.fillBatch(ctx, fn)
	if err != nil {
		return err
	}
	return d.applyBatch(ctx, b)
}

// fillBatch lets fn fill a batch, once there is room for one. Without an error
// applyBatch must follow.
func (d *DB) fillBatch(ctx context.Context, fn func(*Batch) error) (_ *Batch, err error) {
	if fn == nil {
		return nil, fmt.Errorf("%w: Update without a function", ErrOption)
	}
	if err := d.writable(ctx); err != nil {
		return nil, err
	}
	if err := d.backlog.grow(ctx, 0); err != nil {
		return nil, err
	}
	s, err := d.Snapshot()
	if err != nil {
		return nil, err
	}
	b := &Batch{d: d, ctx: ctx, cat: s.gen.cat, seen: map[string]map[string]struct{}{}}
	// The catalog is a copy in memory; holding the snapshot any longer would
	// only pin pages.
	s.Release()
	filled := false
	defer func() {
		b.done = true
		if !filled {
			d.backlog.shrink(b.bytes)
		}
	}()
	if err = fn(b); err == nil {
		err = b.err
	}
	filled = err == nil
	return b, err
}

// applyBatch writes a filled batch.
func (d *DB) applyBatch(ctx context.Context, b *Batch) error {
	defer d.backlog.shrink(b.bytes)
	if len(b.ops) == 0 {
		return nil
	}
	return d.submit(ctx, &request{ops: b.ops, bytes: b.bytes, done: make(chan error, 1)})
}

// writable says why the database cannot be written to, if so.
func (d *DB) writable(ctx context.Context) error {
	switch {
	case d.closing.Load():
		return fmt.Errorf("%w: %s", ErrClosed, d.path)
	case d.opts.ReadOnly:
		return fmt.Errorf("%w: %s", ErrReadOnly, d.path)
	}
	if p := d.poison.Load(); p != nil {
		return fmt.Errorf("%w: %s: %w", ErrStateUnknown, d.path, *p)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("db: %w", err)
	}
	return nil
}
