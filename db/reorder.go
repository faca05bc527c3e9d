package db

import (
	"context"
	"iter"
	"slices"

	"github.com/anndb/anndb/trees/forest"
)

// A search reads sketches, lists and vectors by row number, and what it reads
// next is near in space to what it has read. Rows that came in any order make of
// that a walk all over the memory; where near rows have near numbers they share
// cache lines and pages. That matters where an index is larger than the
// processor's caches.

const (
	nearLeaf  = 32       // rows whose order does not matter any more
	nearBatch = 64 << 20 // bytes of vectors that are read together
)

// Reorder is Compact, and gives the rows of every dense collection new numbers
// such that near rows have near ones (forest.Order): searches in large
// collections become faster. Keys and answers stay, the numbers (Row.Row) and with
// them the order of ties do not. Indexes are learned anew, without tuning, so it
// is cheapest before the first build; rows written later are appended as ever.
//
// A million rows of 128 coordinates: a search takes two thirds of the time at
// equal recall (bench/README.md).
//
// Errors: those of Compact, which says what collections stay as they are.
func (d *DB) Reorder(ctx context.Context) (CompactStats, error) { return d.rewrite(ctx, true) }

// nearRows is a collection's live rows, near ones near each other.
func (s *Snapshot) nearRows(ctx context.Context, coll string) (iter.Seq2[Row, error], error) {
	st, order, err := s.nearOrder(ctx, coll)
	if err != nil {
		return nil, err
	}
	return func(yield func(Row, error) bool) {
		// Labels and payloads lie in compressed runs: rows that are written one
		// after the other are read in the order of their numbers, many at a time.
		batch := max(1, nearBatch/(4*st.c.Dim))
		rows := make([]Row, 0, min(batch, len(order)))
		for part := range slices.Chunk(order, batch) {
			rows = rows[:len(part)]
			places := make([]int, len(part))
			for i := range places {
				places[i] = i
			}
			slices.SortFunc(places, func(a, b int) int { return int(part[a]) - int(part[b]) })
			var run *coldRows
			for _, at := range places {
				r, ok, err := s.nextRow(st, part[at], &run)
				if err == nil && !ok {
					err = corruptf(coll, "row %d is deleted and is not", part[at])
				}
				if err != nil {
					yield(Row{}, err)
					return
				}
				rows[at] = r
			}
			for i := range rows {
				if !yield(rows[i], nil) {
					return
				}
			}
		}
	}, nil
}

// nearOrder is the order in which nearRows yields rows.
func (s *Snapshot) nearOrder(ctx context.Context, coll string) (st *collState, order []uint32, err error) {
	defer guard(s.gen.store, setFaults(), &err)
	if st, err = s.collection(coll); err != nil {
		return nil, nil, err
	}
	t, err := readTraining(ctx, st, BuildOptions{}, func(int, int) {})
	if err != nil {
		return nil, nil, err
	}
	if order, err = forest.Order(ctx, t.corpus, nearLeaf, 0); err != nil {
		return nil, nil, err
	}
	for i, at := range order {
		order[i] = t.corpus.id(int(at))
	}
	return st, order, nil
}
