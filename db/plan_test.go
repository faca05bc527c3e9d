package db_test

import (
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// An answer says by which way it was found, how many rows passed the filter, and which recall to
// expect.
func TestPlan(t *testing.T) {
	dbtest.Whole(t)
	b := newBed(t, vector.L2, 16)
	rows := dbtest.Mixture(5, 3000, 16)
	b.Put("a", rows)
	b.Build("main", &index.Forest{Seed: 1})
	c := b.D.Collection("c")
	for _, x := range []struct {
		name    string
		o       db.SearchOptions
		passing int
		way     query.Way
		exact   bool
	}{
		{"an index", db.SearchOptions{}, 0, query.ByBeam, false},
		{"recall 1", db.SearchOptions{Recall: 1}, 0, query.ByScan, true},
		{"flat", db.SearchOptions{Index: db.Flat}, 0, query.ByScan, true},
		{"few rows", db.SearchOptions{}, 40, query.ByScan, true},
		{"a setting", db.SearchOptions{Params: &query.Params{}}, 0, query.ByLeaves, false},
	} {
		if x.passing > 0 {
			set := roaring.New()
			set.AddRange(0, uint64(x.passing))
			f, err := c.RowFilter(set)
			b.Must(err)
			x.o.Where = f
		}
		res, err := c.Search(t.Context(), db.Query{Vector: rows[7]}, &x.o)
		b.Must(err)
		s := res.Stats
		if s.Way != x.way && !(x.way == query.ByBeam && s.Way == query.ByLeaves) || s.Passing != x.passing {
			t.Errorf("%s: found by %v, %d passing rows", x.name, s.Way, s.Passing)
		}
		known := x.o.Params == nil
		if (s.Recall == 1) != x.exact || (s.Recall >= 0.95) != known {
			t.Errorf("%s: expected recall %g", x.name, s.Recall)
		}
		t.Logf("%s: %s", x.name, res.Plan())
	}
	for i, x := range rows[:20] {
		near, err := c.Search(t.Context(), db.Query{Vector: x}, nil)
		b.Must(err)
		away := slices.Clone(x)
		for j := range away {
			away[j] += 100
		}
		far, err := c.Search(t.Context(), db.Query{Vector: away}, nil)
		b.Must(err)
		if near.Stats.Far || !far.Stats.Far {
			t.Errorf("row %d: far: %t, moved away: %t", i, near.Stats.Far, far.Stats.Far)
		}
	}
	res, err := c.Search(t.Context(), db.Query{Vector: rows[7]}, &db.SearchOptions{Recall: 1})
	b.Must(err)
	if want := "exact scan of 3000 rows"; res.Plan() != want {
		t.Errorf("plan %q, want %q", res.Plan(), want)
	}
}
