// Package expire deletes rows that have expired.
package expire

import (
	"context"
	"slices"
	"time"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/maintenance"
)

// stepRows is the largest number of rows that a step deletes.
const stepRows = 4096

// Step deletes expired rows of one collection, and returns nil if no row has expired.
func Step(ctx context.Context, m *txn.Manager) (*maintenance.Step, error) {
	start := time.Now()
	coll, keys, err := find(m, start)
	if len(keys) == 0 || err != nil {
		return nil, err
	}
	deleted := 0
	err = m.Update(ctx, func(t *txn.Tx) error {
		deleted = 0
		var run *state.ColdRun
		for _, key := range keys {
			expired, err := stillExpired(t, coll, key, start, &run)
			if err == nil && expired {
				err = t.Delete(coll, key)
				deleted++
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	took := time.Since(start).Seconds()
	s := &maintenance.Step{Collection: coll, Action: "expire", Rows: deleted, Seconds: took}
	m.EndStep(ctx, start, s, err)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// stillExpired reports whether the row with the key is expired in the state that a transaction reads. A
// row that was changed since it was found may not be.
func stillExpired(
	t *txn.Tx, coll string, key []byte, now time.Time, run **state.ColdRun,
) (expired bool, err error) {
	if _, err := t.Own(coll, key); err != nil {
		return false, err
	}
	var row uint32
	var exists bool
	err = t.Read(coll, func(st *state.Collection) error {
		if row, exists, err = st.Find(key); err != nil || !exists {
			return err
		}
		cold, err := st.Cold(row, run)
		expired = cold.Expired(now)
		return err
	})
	if err != nil {
		return false, err
	}
	return expired, t.Note(coll, key, row, exists)
}

// find returns keys of rows of a collection that have expired.
func find(m *txn.Manager, now time.Time) (coll string, keys [][]byte, err error) {
	err = m.View(func(g *state.Generation) error {
		for _, c := range g.Catalog.Collections {
			if c.Attribute(attribute.Expiry) == nil {
				continue
			}
			coll = c.Name
			if keys, err = keysOf(g.Collections[c.Name], now); err != nil || len(keys) > 0 {
				return err
			}
		}
		return nil
	})
	return coll, keys, err
}

// keysOf returns copies of keys of live rows that have expired.
func keysOf(st *state.Collection, now time.Time) (keys [][]byte, err error) {
	expired, _, err := st.Expired(now)
	if err != nil || expired == nil || expired.IsEmpty() {
		return nil, err
	}
	if err := st.Load(context.Background()); err != nil {
		return nil, err
	}
	for it := expired.Iterator(); it.HasNext() && len(keys) < stepRows; {
		row := it.Next()
		if st.Deleted(row) {
			continue
		}
		key, err := st.Key(row)
		if err != nil {
			return nil, err
		}
		keys = append(keys, slices.Clone(key))
	}
	return keys, nil
}
