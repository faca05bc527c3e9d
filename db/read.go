package db

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/internal/where"
	"github.com/anndb/anndb/vector"
)

// Get returns a copy of the live row with the key. A row that has expired (Row.ExpiresAt) is found by
// no read.
func (c Collection) Get(key []byte) (r Row, err error) {
	err = c.read(context.Background(), func(st *state.Collection) (err error) {
		r, err = getRow(st, key)
		return err
	})
	return r, err
}

// Has reports whether a live row has the key.
func (c Collection) Has(key []byte) (exists bool, err error) {
	err = c.read(context.Background(), func(st *state.Collection) (err error) {
		_, exists, err = st.FindUnexpired(key)
		return err
	})
	return exists, err
}

// GetRow returns a copy of the live row with the number.
func (c Collection) GetRow(row uint32) (r Row, err error) {
	err = c.read(context.Background(), func(st *state.Collection) (err error) {
		if r, err = rowAt(st, row, new(*state.ColdRun)); err == nil && r.expired() {
			r, err = Row{}, noRow(st, row)
		}
		return err
	})
	return r, err
}

// expired reports whether a row has expired.
func (r *Row) expired() bool { return !r.ExpiresAt.IsZero() && !r.ExpiresAt.After(time.Now()) }

// noRow returns the error for a number that no live row has.
func noRow(st *state.Collection, row uint32) error {
	return fmt.Errorf("%w: row %d of collection %q", fail.NoRow, row, st.Entry.Name)
}

// getRow copies the live row with the key.
func getRow(st *state.Collection, key []byte) (Row, error) {
	row, exists, err := st.FindUnexpired(key)
	if err != nil {
		return Row{}, err
	}
	if !exists {
		return Row{}, txn.NotFound(st.Entry.Name, key)
	}
	return readRow(st, key, row)
}

// readRow copies the row with the key and the number.
func readRow(st *state.Collection, key []byte, row uint32) (Row, error) {
	r, err := rowAt(st, row, new(*state.ColdRun))
	if err == nil && !bytes.Equal(r.Key, key) {
		return Row{}, fail.Corruptf(st.Entry.Name, "key %q points to row %d of key %q", key, r.Row, r.Key)
	}
	return r, err
}

// Rows iterates over copies of the live rows that a filter selects, of one state, in the order of
// their numbers, as Matching. It ends after an error. Until then it holds a snapshot: Close in the loop
// waits for it.
func (c Collection) Rows(ctx context.Context, f *filter.Filter) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		s, err := c.hold(ctx)
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer c.letGo(s)
		var st *state.Collection
		var passing where.Passing
		err = s.read(c.name, func(of *state.Collection) (err error) {
			if st, err = of, of.Load(ctx); err == nil {
				passing, err = st.Passing(ctx, f.Expr())
			}
			return err
		})
		if err != nil {
			yield(Row{}, err)
			return
		}
		var run *state.ColdRun
		for row := range st.Entry.Rows {
			if passing.Set != nil && !passing.Set.Contains(row) {
				continue
			}
			r, ok, err := s.nextRow(ctx, st, passing, row, &run)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if ok && !yield(r, nil) {
				return
			}
		}
	}
}

// Keys iterates over copies of the keys of the live rows in bytewise order: of those with a prefix,
// at least from, which need not exist; nil is no bound. It ends after an error.
func (c Collection) Keys(prefix, from []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		s, err := c.hold(context.Background())
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.letGo(s)
		var st *state.Collection
		var expired *roaring.Bitmap
		err = s.read(c.name, func(of *state.Collection) (err error) {
			st = of
			expired, _, err = st.Expired(time.Now())
			return err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		first := from
		if bytes.Compare(first, prefix) < 0 {
			first = prefix
		}
		within := layout.KeyOf(st.Entry.ID, prefix)
		var page [][]byte
		for next := layout.KeyOf(st.Entry.ID, first); next != nil; {
			if page, next, err = s.nextKeys(within, next, expired, page[:0]); err != nil {
				yield(nil, err)
				return
			}
			for _, k := range page {
				if !yield(k, nil) {
					return
				}
			}
		}
	}
}

// MatchingKeys returns copies of the keys of the rows of Matching, in the order of their numbers. It
// reads no vectors, labels or payloads but for those that the filter names.
func (c Collection) MatchingKeys(ctx context.Context, f *filter.Filter) (keys [][]byte, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		rows, err := st.Matching(ctx, f.Expr())
		if err != nil {
			return err
		}
		keys = make([][]byte, 0, rows.GetCardinality())
		for it := rows.Iterator(); it.HasNext(); {
			key, err := st.Key(it.Next())
			if err != nil {
				return err
			}
			keys = append(keys, bytes.Clone(key))
		}
		return nil
	})
	return keys, err
}

// Labels returns the number of live rows of each label, without labels of no such row. Rows that have
// expired count until maintenance deletes them.
func (c Collection) Labels() (map[string]int, error) {
	out := map[string]int{}
	err := c.read(context.Background(), func(st *state.Collection) error {
		return st.EachLabel(func(label string, n int) { out[label] = n })
	})
	return out, err
}

// nextKeys copies the next keys with a prefix, see state.Generation.
func (s *Snapshot) nextKeys(
	prefix, from []byte, skip *roaring.Bitmap, page [][]byte,
) (_ [][]byte, next []byte, err error) {
	if err := s.open(); err != nil {
		return nil, nil, err
	}
	return s.gen.KeyPage(prefix, from, skip, page)
}

// rowAt copies one live row out of the map, and keeps the decoded run of labels and payloads.
func rowAt(st *state.Collection, row uint32, run **state.ColdRun) (Row, error) {
	x, live, err := st.ReadRow(row, run)
	if err != nil {
		return Row{}, err
	}
	if !live {
		return Row{}, noRow(st, row)
	}
	return publicRow(st, row, x)
}

// nextRow copies a row unless it is deleted or a function of the filter refuses it, and keeps the decoded
// run of labels and payloads for the following rows.
func (s *Snapshot) nextRow(
	ctx context.Context, st *state.Collection, p where.Passing, row uint32, run **state.ColdRun,
) (r Row, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return r, false, fail.Wrapf(err, "rows of %q", st.Entry.Name)
	}
	defer state.Guard(s.gen.File, state.CatchFaults(), &err)
	if err := s.open(); err != nil || st.Deleted(row) {
		return r, false, err
	}
	if ok, err := st.Accepts(p, row); err != nil || !ok {
		return r, false, err
	}
	r, err = rowAt(st, row, run)
	return r, err == nil, err
}

// publicRow returns a row as users see it.
func publicRow(st *state.Collection, row uint32, x rows.Row) (r Row, err error) {
	r = Row{
		Key: x.Key, Vector: x.Vector, Sparse: x.Sparse, Row: row,
	}
	r.setCold(x.Cold)
	switch {
	case st.Entry.Text != nil:
		r.Sparse = vector.Sparse{}
	case st.Entry.Named:
		r.Features, err = st.NamedFeatures(r.Sparse)
		r.Sparse = vector.Sparse{}
	}
	return r, err
}
