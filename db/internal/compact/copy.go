package compact

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
)

// copyBytes is the number of bytes that one transaction copies.
const copyBytes = 32 << 20

// copyState writes all pairs of a state to the empty file at path, in key order; the caller
// syncs it. The moving collections have no rows in the copy, and new numbers.
func copyState(ctx context.Context, g *state.Generation, path string, moved []moving) (err error) {
	defer state.Guard(g.File, state.CatchFaults(), &err)
	if err := g.File.VerifyPages(layout.AllParts); err != nil {
		return err
	}
	var cat []byte
	skip := map[uint64]bool{}
	if len(moved) > 0 {
		if cat, err = layout.EncodeCatalog(withoutMoved(g.Catalog, moved)); err != nil {
			return err
		}
		for _, m := range moved {
			for _, object := range m.objects {
				skip[object] = true
			}
		}
	}
	dst, err := store.New(path, store.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	var tx *bbolt.Tx
	defer func() {
		if tx != nil {
			_ = tx.Rollback() // the error returned is the reason for the rollback
		}
	}()
	size, request := 0, g.File.Requests()
	begin := func() (err error) {
		tx, err = dst.Begin(true)
		size = 0
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	for _, name := range layout.AllBuckets {
		if g.Tx.Bucket(name) == nil {
			continue // some buckets are created on first use
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
		err := copyable(g.Tx.Bucket(name), skip, cat, func(k, v []byte) error {
			if size += len(k) + len(v); size > copyBytes {
				if err := errors.Join(ctx.Err(), tx.Commit()); err != nil {
					return err
				}
				if err := begin(); err != nil {
					return err
				}
				size = len(k) + len(v)
			}
			if request != nil {
				request(v)
			}
			b := tx.Bucket(name)
			// Pairs arrive in key order, so pages can be filled completely.
			b.FillPercent = 1
			return b.Put(k, v)
		})
		if err != nil {
			return err
		}
	}
	err = tx.Commit()
	tx = nil
	return errors.Join(err, ctx.Err())
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
