package db

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
)

// expireRows is the largest number of expired rows that a step of maintenance deletes.
const expireRows = 4096

// expire deletes expired rows of one collection, and returns nil if no row has expired.
func (d *DB) expire(ctx context.Context) (step *MaintainStep, err error) {
	start := time.Now()
	coll, keys, err := d.expired(start)
	if len(keys) == 0 || err != nil {
		return nil, err
	}
	deleted := 0
	err = d.Update(ctx, func(tx *Tx) error {
		deleted = 0
		for _, key := range keys {
			r, err := tx.Collection(coll).Get(key)
			if errors.Is(err, fail.NoRow) || err == nil && (r.ExpiresAt.IsZero() || r.ExpiresAt.After(start)) {
				continue // changed in the meantime
			}
			if err == nil {
				err = tx.Collection(coll).Delete(key)
			}
			if err != nil {
				return err
			}
			deleted++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &MaintainStep{Collection: coll, Action: "expire", Rows: deleted, Seconds: time.Since(start).Seconds()}, nil
}

// expired returns keys of rows of a collection that have expired.
func (d *DB) expired(now time.Time) (coll string, keys [][]byte, err error) {
	err = d.View(func(s *Snapshot) error {
		for _, c := range s.gen.Catalog.Collections {
			if c.Attribute(attribute.Expiry) == nil {
				continue
			}
			err := s.Collection(c.Name).read(func(st *state.Collection) error {
				rows, _, err := st.Expired(now)
				if err != nil || rows.IsEmpty() {
					return err
				}
				if err := st.Load(context.Background()); err != nil {
					return err
				}
				for it := rows.Iterator(); it.HasNext() && len(keys) < expireRows; {
					row := it.Next()
					if st.Deleted(row) {
						continue
					}
					key, err := st.Key(row)
					if err != nil {
						return err
					}
					keys = append(keys, slices.Clone(key))
				}
				return nil
			})
			if err != nil || len(keys) > 0 {
				coll = c.Name
				return err
			}
		}
		return nil
	})
	return coll, keys, err
}
