package segment

import (
	"context"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/layout"
)

// unstoredQueries is the number of new queries of a sample from which on maintenance stores it.
const unstoredQueries = 50

// storeQueries stores the samples of which enough is new.
func (ix *Indexer) storeQueries(ctx context.Context) (err error) {
	store := ix.UnstoredQueries(unstoredQueries)
	if store == nil {
		return nil
	}
	// A compaction does not follow what is stored here.
	ctx, release, err := ix.txn.Hold(ctx, 1)
	if err != nil {
		return err
	}
	defer release(&err)
	return ix.txn.Exclusive(ctx, store)
}

// UnstoredQueries returns a function that stores the samples of which at least so many queries are new,
// nil if there are none.
func (ix *Indexer) UnstoredQueries(least int) func(*bbolt.Tx, *layout.Catalog) error {
	samples := ix.txn.File().Samples
	for range samples.Unsaved(least) {
		return func(tx *bbolt.Tx, cat *layout.Catalog) error {
			for id, r := range samples.Unsaved(least) {
				c := cat.ByID(id)
				if c == nil {
					continue // dropped, or a former number
				}
				s, taken := r.Stored()
				if err := layout.PutQueries(tx, c, s); err != nil {
					return err
				}
				r.Saved(taken)
			}
			return nil
		}
	}
	return nil
}
