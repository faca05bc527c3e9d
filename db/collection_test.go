package db_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// TestHandles: a handle of the database sees the latest state, one of a snapshot its own, one of
// a transaction its own changes; none can do what belongs to another.
func TestHandles(t *testing.T) {
	b := newBed(t, vector.L2, 3)
	ctx := t.Context()
	b.Put("a", dbtest.Mixture(1, 20, 3))
	all := b.D.Collection("c")
	s, err := b.D.Snapshot()
	b.Must(err)
	defer s.Release()
	before := s.Collection("c")
	row := db.Row{Key: []byte("new"), Vector: []float32{1, 2, 3}}
	b.Must(b.D.Update(ctx, func(tx *db.Tx) error {
		c := tx.Collection("c")
		if err := c.Put(row); err != nil {
			return err
		}
		has, err := c.Has(row.Key)
		if r, getErr := c.Get(row.Key); !has || err != nil || getErr != nil || !slices.Equal(r.Vector, row.Vector) {
			t.Errorf("a transaction sees %t %v %v %v", has, err, r, getErr)
		}
		if has, err = all.Has(row.Key); has || err != nil {
			t.Errorf("before the commit others see %t %v", has, err)
		}
		return nil
	}))
	for _, c := range []struct {
		name   string
		handle db.Collection
		rows   int
	}{{"database", all, 21}, {"snapshot", before, 20}} {
		n, err := c.handle.Count(t.Context(), nil)
		b.Must(err)
		has, err := c.handle.Has(row.Key)
		b.Must(err)
		listed := 0
		for _, err := range c.handle.Rows(t.Context(), nil) {
			b.Must(err)
			listed++
		}
		if n != c.rows || listed != c.rows || has != (c.rows == 21) {
			t.Errorf("%s: %d rows, %d listed, has the new one: %t", c.name, n, listed, has)
		}
	}
	if _, err := before.Build(ctx, "x", nil, nil); !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("build on a snapshot: %v", err)
	}
	if _, err := before.Load(ctx, nil, nil); !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("load on a snapshot: %v", err)
	}
	if err := before.DropIndex(ctx, "x"); !errors.Is(err, db.ErrReadOnly) {
		t.Errorf("drop on a snapshot: %v", err)
	}
	var none db.Collection
	if _, err := none.Count(t.Context(), nil); !errors.Is(err, db.ErrClosed) {
		t.Errorf("zero handle: %v", err)
	}
	if _, err := none.Build(ctx, "x", nil, nil); !errors.Is(err, db.ErrClosed) {
		t.Errorf("build on a zero handle: %v", err)
	}
	early := b.D.Collection("later")
	if _, err := early.Info(); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("a handle of nothing: %v", err)
	}
	_, err = b.D.Create(ctx, "later", db.Schema{Dim: 2})
	b.Must(err)
	if info, err := early.Info(); err != nil || info.Dim != 2 {
		t.Errorf("a handle made before its collection: %+v %v", info, err)
	}
}

// TestSearchLikeRow: a query by the key of a stored row finds what a query by its vector finds,
// without the row.
func TestSearchLikeRow(t *testing.T) {
	b := newBed(t, vector.L2, 6)
	ctx := t.Context()
	rows := dbtest.Mixture(3, 300, 6)
	b.Put("a", rows)
	b.Build("main", &index.Forest{Seed: 1})
	_, err := b.D.Create(ctx, "s", db.Schema{Named: true})
	b.Must(err)
	dbtest.Fill(t, b.D, "s", 0, 40, func(i int) db.Row {
		r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}}
		r.Features = []vector.Feature{
			{Name: fmt.Sprint("f", i%7), Value: 1}, {Name: fmt.Sprint("g", i%5), Value: 2},
		}
		return r
	})
	_, err = b.D.Collection("s").Build(ctx, "words", &index.Postings{}, nil)
	b.Must(err)
	for _, coll := range []string{"c", "s"} {
		key := []byte("17")
		if coll == "c" {
			key = []byte("a7")
		}
		stored, err := b.D.Collection(coll).Get(key)
		b.Must(err)
		for _, o := range []db.SearchOptions{{}, {Index: db.Flat, K: 3}, {Where: filter.KeyPrefix(key[:1])}, {K: 1000}} {
			like, err := b.D.Collection(coll).Search(ctx, db.Query{Key: key}, &o)
			b.Must(err)
			o.K = max(o.K, 10) + 1
			with, err := b.D.Collection(coll).Search(ctx, db.Query{Vector: stored.Vector, Features: stored.Features}, &o)
			b.Must(err)
			want := slices.DeleteFunc(with.Hits, func(h db.Hit) bool { return h.Row == stored.Row })
			want = want[:min(len(like.Hits), len(want))]
			if spell(like.Hits) != spell(want) || len(like.Hits) == 0 {
				t.Errorf("%s, %+v: %s, want %s", coll, o, spell(like.Hits), spell(want))
			}
		}
	}
	if _, err := b.D.Collection("c").Search(ctx, db.Query{Key: []byte("zz")}, nil); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("like no row: %v", err)
	}
	both := db.Query{Key: []byte("a1"), Vector: rows[1]}
	if _, err := b.D.Collection("c").Search(ctx, both, nil); !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a key and a vector: %v", err)
	}
}

// TestResult: a result names the index and setting used, and includes the requested parts.
func TestResult(t *testing.T) {
	b := newBed(t, vector.L2, 4)
	ctx := t.Context()
	rows := dbtest.Mixture(5, 400, 4)
	b.Put("a", rows)
	b.Build("main", &index.Forest{Seed: 1})
	c := b.D.Collection("c")
	found, err := c.Search(ctx, db.Query{Vector: rows[0]}, nil)
	b.Must(err)
	if found.Index != "main" || len(found.Hits) != 10 || found.Stats.Exact == 0 {
		t.Errorf("index %q, %d hits, %+v", found.Index, len(found.Hits), found.Stats)
	}
	if h := found.Hits[0]; h.Labels != nil || h.Payload != nil {
		t.Errorf("not asked for: %q %q", h.Labels, h.Payload)
	}
	found, err = c.Search(ctx, db.Query{Vector: rows[0]}, &db.SearchOptions{Index: db.Flat, Include: db.Labels | db.Payload})
	b.Must(err)
	if found.Index != db.Flat || found.Stats.Way != query.ByScan {
		t.Errorf("a scan by %q, %v", found.Index, found.Stats.Way)
	}
	for _, h := range found.Hits {
		if want := b.Labels[string(h.Key)]; !slices.Equal(slices.Sorted(slices.Values(h.Labels)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has labels %q, want %q", h.Key, h.Labels, want)
		}
	}
}
