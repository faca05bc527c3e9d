package db_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/vector"
)

// Hits whose distances are equal by the unit of the API are in the order of their numbers, although their
// squared distances differ.
func TestEqualDistances(t *testing.T) {
	b := newBed(t, vector.L2, 2)
	b.Put("a", [][]float32{{1.4, 0.00035}, {1.4, 0}, {0.5, 0}, {1.4, 0.0002}})
	res, err := b.D.Collection("c").Search(t.Context(), db.Query{Vector: []float32{0, 0}}, nil)
	b.Must(err)
	order := ""
	for _, h := range res.Hits {
		order += fmt.Sprint(h.Row, " ")
	}
	if order != "2 0 1 3 " {
		t.Errorf("rows %s", order)
	}
}

// A search within a distance, which may search several times, calls a function of a filter once for a row.
func TestFuncOnceWithin(t *testing.T) {
	dbtest.Whole(t)
	b := newBed(t, vector.L2, 8)
	rows := dbtest.Mixture(3, 3000, 8)
	b.Put("a", rows)
	b.Build("main", &index.Forest{Seed: 1})
	calls := map[string]int{}
	for _, k := range []int{0, 1000} {
		clear(calls)
		res, err := b.D.Collection("c").Search(t.Context(), db.Query{Vector: rows[7]}, &db.SearchOptions{
			K: k, Radius: new(60.0), Where: filter.Func(func(key []byte) bool {
				calls[string(key)]++
				return key[len(key)-1]%2 == 0
			}),
		})
		b.Must(err)
		if len(res.Hits) < 100 {
			t.Fatalf("%d hits do not need several searches", len(res.Hits))
		}
		for key, n := range calls {
			if n > 1 {
				t.Errorf("k = %d: row %s was judged %d times", k, key, n)
				break
			}
		}
	}
}

// Filters and recalls that make no sense are refused, by sparse collections, too.
func TestRefusedAsks(t *testing.T) {
	b := newBed(t, vector.L2, 2)
	b.Put("a", [][]float32{{1, 0}})
	_, err := b.D.Collection("c").Count(t.Context(), filter.Func(nil))
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a filter by no function: %v", err)
	}
	_, err = b.D.Create(t.Context(), "s", db.Schema{Sparse: true})
	b.Must(err)
	_, err = b.D.Collection("s").Search(t.Context(), db.Query{}, &db.SearchOptions{Recall: 1.5})
	if !errors.Is(err, db.ErrInvalid) {
		t.Errorf("a recall above 1 of a sparse collection: %v", err)
	}
}

// The plan of a sparse scan has the number of rows that were compared.
func TestSparsePlan(t *testing.T) {
	b := newBed(t, vector.L2, 2)
	_, err := b.D.Create(t.Context(), "s", db.Schema{Sparse: true})
	b.Must(err)
	dbtest.Fill(t, b.D, "s", 0, 20, func(i int) db.Row {
		return db.Row{Key: fmt.Append(nil, i), Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}}}
	})
	b.Must(dbtest.Delete(b.D, "s", "3"))
	for want, where := range map[string]*filter.Filter{
		"exact scan of 19 rows": nil,
		"exact scan of 1 rows":  filter.KeyPrefix([]byte("4")),
		"exact scan of 0 rows":  filter.KeyPrefix([]byte("x")),
	} {
		q := db.Query{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}}}
		res, err := b.D.Collection("s").Search(t.Context(), q, &db.SearchOptions{Where: where})
		b.Must(err)
		if res.Plan() != want {
			t.Errorf("plan %q, want %q", res.Plan(), want)
		}
	}
}
