package compact

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
)

// copyBytes is the number of bytes that one transaction copies.
const copyBytes = 32 << 20

// copyState writes all pairs of a state to the empty file at path, in copyOrder; the caller
// syncs it. The moving collections have no rows in the copy, and new numbers.
func copyState(ctx context.Context, g *state.Generation, path string, moved []moving) (err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	if err := verify(ctx, g); err != nil {
		return err
	}
	cat, skip, err := withoutRows(g, moved)
	if err != nil {
		return err
	}
	dst, err := store.New(path, store.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return err
	}
	c := &copier{ctx: ctx, dst: dst}
	defer func() { err = errors.Join(err, c.dst.Close()) }()
	defer func() {
		if c.tx != nil {
			_ = c.tx.Rollback() // the error returned is the reason for the rollback
		}
	}()
	request, copied := g.File.Requests(), copyProgress(ctx, g.Tx.Size())
	if err := c.begin(); err != nil {
		return err
	}
	for _, part := range copyOrder() {
		if g.Tx.Bucket(part.bucket) == nil {
			continue // some buckets are created on first use
		}
		if _, err := c.tx.CreateBucketIfNotExists(part.bucket); err != nil {
			return err
		}
		err := copyable(g.Tx.Bucket(part.bucket), skip, cat, func(k, v []byte) error {
			if part.only != nil && !part.only(k) {
				return nil
			}
			copied(len(k) + len(v))
			if request != nil {
				request(v)
			}
			return c.put(part.bucket, k, v)
		})
		// A transaction of its own keeps the pages of a part together.
		if err == nil {
			err = c.next()
		}
		if err != nil {
			return err
		}
	}
	err = c.tx.Commit()
	c.tx = nil
	return errors.Join(err, ctx.Err())
}

// copier writes pairs to a file in transactions of copyBytes.
type copier struct {
	ctx  context.Context
	dst  *bbolt.DB
	tx   *bbolt.Tx
	size int // bytes of pairs in tx
}

func (c *copier) begin() (err error) {
	c.size = 0
	c.tx, err = c.dst.Begin(true)
	return err
}

// next commits the transaction and begins another one.
func (c *copier) next() error {
	if err := errors.Join(c.ctx.Err(), c.tx.Commit()); err != nil {
		return err
	}
	return c.begin()
}

func (c *copier) put(bucket, k, v []byte) error {
	if c.size += len(k) + len(v); c.size > copyBytes {
		if err := c.next(); err != nil {
			return err
		}
		c.size = len(k) + len(v)
	}
	b := c.tx.Bucket(bucket)
	b.FillPercent = 1 // pairs of a part arrive in key order
	return b.Put(k, v)
}

// verify verifies the pages of a state.
func verify(ctx context.Context, g *state.Generation) error {
	if report := kind.ProgressOf(ctx); report != nil {
		report(kind.Progress{Stage: "verify"})
	}
	return g.File.VerifyPages(layout.AllParts)
}

// copyProgress returns a function that counts copied bytes, and reports them every 256 KiB: who makes a file
// slowly, next to other work, pauses then.
func copyProgress(ctx context.Context, total int64) func(n int) {
	report, copied := kind.ProgressOf(ctx), int64(0)
	return func(n int) {
		before := copied
		if copied += int64(n); report != nil && copied>>18 != before>>18 {
			report(kind.Progress{Stage: "copy", Done: int(copied >> 20), Total: int(total >> 20)})
		}
	}
}

// withoutRows returns the catalog without the rows of the moving collections, nil if there are none, and the
// objects that are left out.
func withoutRows(g *state.Generation, moved []moving) (cat []byte, skip map[uint64]bool, err error) {
	if len(moved) == 0 {
		return nil, nil, nil
	}
	if cat, err = layout.EncodeCatalog(withoutMoved(g.Catalog, moved)); err != nil {
		return nil, nil, err
	}
	skip = map[uint64]bool{}
	for _, m := range moved {
		for _, object := range m.objects {
			skip[object] = true
		}
	}
	return cat, skip, nil
}

// part is a bucket, or those of its pairs whose keys only accepts.
type part struct {
	bucket []byte
	only   func(key []byte) bool // nil for all pairs
}

// copyOrder returns all that is copied in the order of the new file: the catalog, and keys, labels and
// payloads of rows, come before their vectors and the indexes, which are most of it. If a file loses its
// end, Salvage still knows the rows whose vectors it has.
func copyOrder() (order []part) {
	for _, name := range layout.AllBuckets {
		if !bytes.Equal(name, layout.BucketBlocks) {
			order = append(order, part{bucket: name})
		}
	}
	others := func(key []byte) bool { return !describesRows(key) }
	return append(order, part{layout.BucketBlocks, describesRows}, part{layout.BucketBlocks, others})
}

// describesRows reports whether a block has keys, labels, attributes or payloads of rows.
func describesRows(key []byte) bool {
	_, kind, _ := codec.ParseKey(key)
	return kind == codec.KindKeys || kind == codec.KindCold
}

// objectOf returns the number of the object that an entry of any bucket belongs to.
func objectOf(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// copyable yields the pairs of a bucket that a compaction copies, with the given catalog in
// place of the stored one.
func copyable(
	b *bbolt.Bucket, skip map[uint64]bool, cat []byte, yield func(k, v []byte) error,
) error {
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if skip[objectOf(k)] {
			continue
		}
		if cat != nil && string(k) == string(layout.CatalogKey[:]) {
			v = cat
		}
		if err := yield(k, v); err != nil {
			return err
		}
	}
	return nil
}
