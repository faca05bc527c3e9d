package db_test

import (
	"context"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// BenchmarkSearch is one search in steady state: a held snapshot, hits reused.
// It must show 0 allocs/op (TestNoAllocations makes sure).
func BenchmarkSearch(b *testing.B) {
	const n, dim = 20000, 64
	bed := newBed(b, vector.L2, dim)
	bed.Put("a", dbtest.Mixture(1, n, dim))
	bed.Build("x", &db.Forest{NoTune: true, Members: true, Quantize: true})
	queries := dbtest.Mixture(2, 512, dim)
	for _, c := range []struct {
		name string
		o    db.SearchOptions
	}{
		{"flat", db.SearchOptions{Index: db.Flat}},
		{"natural", db.SearchOptions{Params: &query.Params{Tau: 0.02}}},
		{"natural-sketch-hops", db.SearchOptions{Params: &query.Params{Trees: 4, Sketch: true, Hops: 1, HopKeep: 10}}},
		{"natural-8bit", db.SearchOptions{Params: &query.Params{Quant: true}}},
		{"lookup", db.SearchOptions{Params: &query.Params{Method: query.Lookup, Extra: 16}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := bed.D.Snapshot()
			bed.Must(err)
			defer s.Release()
			b.ReportAllocs()
			var dst []db.Hit
			i := 0
			for b.Loop() {
				if dst, _, err = dbtest.NearestInto(context.Background(), s.Collection("c"), db.Query{Vector: queries[i%len(queries)]}, 10, &c.o, dst[:0]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// BenchmarkSnapshot is the cost of taking the state that others hold already.
func BenchmarkSnapshot(b *testing.B) {
	bed := newBed(b, vector.L2, 8)
	bed.Put("a", dbtest.Mixture(1, 100, 8))
	b.ReportAllocs()
	for b.Loop() {
		s, err := bed.D.Snapshot()
		dbtest.Must(b, err)
		s.Release()
	}
}
