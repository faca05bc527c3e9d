package db

import (
	"context"
	"fmt"
	"slices"
)

// Batch collects the changes of one Update.
type Batch struct {
	d     *DB
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
	row  newRow
}

// request is a batch waiting for a writer.
type request struct {
	ops   []op
	bytes int
	done  chan error
}

// commitBytes is about how much data of waiting batches one transaction takes
// along.
const commitBytes = 64 << 20

// Put adds a row, or replaces the row of the same key. Everything is copied.
// The first error also fails the whole Update.
//
// Errors: ErrNoCollection, ErrKey, ErrKind, ErrDimension, ErrNotFinite,
// ErrFeatures, ErrLabel, ErrPayload, ErrDuplicateKey, ErrClosed after Update has
// returned.
func (b *Batch) Put(coll string, r Row) error {
	return b.add(coll, r.Key, func(c *collection) (op, error) {
		if err := checkRow(&r, c); err != nil {
			return op{}, err
		}
		b.bytes += 4*len(r.Vector) + 8*r.Sparse.Len() + 32*len(r.Features) + len(r.Key) + len(r.Payload)
		return op{row: copyRow(&r)}, nil
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
	o, err := make(c)
	if err != nil {
		return fmt.Errorf("collection %q: %w", coll, err)
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
// If fn, or any Put or Delete in it, fails, nothing is written.
//
// A context cancelled before the batch's transaction has begun leaves the
// database as it was; later it has no effect.
//
// Errors: those of Put, Delete and fn, ErrReadOnly, ErrClosed, ErrFull,
// ErrNoSpace, ErrStateUnknown, ErrCorrupt and the context's.
func (d *DB) Update(ctx context.Context, fn func(*Batch) error) error {
	if err := d.writable(ctx); err != nil {
		return err
	}
	s, err := d.Snapshot()
	if err != nil {
		return err
	}
	b := &Batch{d: d, cat: s.gen.cat, seen: map[string]map[string]struct{}{}}
	// The catalog is a copy in memory; holding the snapshot any longer would
	// only pin pages.
	s.Release()
	err = fn(b)
	b.done = true
	if err == nil {
		err = b.err
	}
	if err != nil {
		return err
	}
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

// submit queues a request and waits for its outcome. Whoever gets hold of the
// write lock first commits everybody's.
func (d *DB) submit(ctx context.Context, r *request) error {
	d.queueMu.Lock()
	d.queue = append(d.queue, r)
	d.queueMu.Unlock()
	select {
	case err := <-r.done:
		return err
	case d.write <- struct{}{}:
		defer func() { <-d.write }()
		for {
			select {
			case err := <-r.done:
				return err
			default:
				d.commitRequests(d.takeRequests())
			}
		}
	case <-ctx.Done():
		if d.withdraw(r) {
			return fmt.Errorf("db: %w", ctx.Err())
		}
		return <-r.done
	}
}

// takeRequests takes waiting requests, oldest first, up to commitBytes.
func (d *DB) takeRequests() []*request {
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	n, size := 0, 0
	for n < len(d.queue) && (n == 0 || size+d.queue[n].bytes <= commitBytes) {
		size += d.queue[n].bytes
		n++
	}
	taken := slices.Clone(d.queue[:n])
	d.queue = slices.Delete(d.queue, 0, n)
	return taken
}

// withdraw takes back a request that no writer has taken yet.
func (d *DB) withdraw(r *request) bool {
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	i := slices.Index(d.queue, r)
	if i < 0 {
		return false
	}
	d.queue = slices.Delete(d.queue, i, i+1)
	return true
}
