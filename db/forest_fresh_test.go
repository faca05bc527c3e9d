package db_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// TestFreshSketches writes rows after a build and asks for them: ranked by
// sketch among the forest's candidates they are found as often as if all of
// them got an exact distance, and few of them do.
func TestFreshSketches(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, fresh, dim, k, keep = 1500, 600, 72, 10, 60
	for _, metric := range dbtest.Metrics {
		t.Run(metric.String(), func(t *testing.T) {
			b := newBed(t, metric, dim)
			b.Put("old", dbtest.Mixture(1, n, dim))
			b.Build("x", &index.Forest{NoTune: true, Trees: 8, LeafNeighbors: 20})
			queries := dbtest.Mixture(3, 60, dim)
			ask := func(p query.Params) (recall float64, exact int) {
				b.Must(b.D.View(func(s *db.Snapshot) error {
					for _, q := range queries {
						hits, stats, err := dbtest.Nearest(context.Background(), s.Collection("c"), db.Query{Vector: q}, k, &db.SearchOptions{Params: &p})
						if err != nil {
							return err
						}
						if stats.Fresh != len(b.Rows)-n && len(b.Rows) > n {
							t.Errorf("%d fresh rows, want %d", stats.Fresh, len(b.Rows)-n)
						}
						exact = max(exact, stats.Exact)
						want := b.Exact(q, nil)[:k]
						for _, h := range hits {
							for _, w := range want {
								if string(h.Key) == w.Key {
									recall++
								}
							}
						}
					}
					return nil
				}))
				return recall / float64(k*len(queries)), exact
			}
			// In three parts, so that sketches are added to those of the
			// generation before.
			rows := dbtest.Mixture(2, fresh, dim)
			for i := range 3 {
				b.Put(fmt.Sprint("new", i, "-"), rows[i*fresh/3:(i+1)*fresh/3])
				ask(query.Params{Sketch: true, R: keep})
			}
			sketched, exact := ask(query.Params{Sketch: true, R: keep})
			if exact > fresh/2 {
				t.Errorf("%d exact distances, want at most %d", exact, fresh/2)
			}
			scanned, all := ask(query.Params{})
			if all < fresh {
				t.Errorf("%d exact distances without sketches, want at least %d", all, fresh)
			}
			if sketched < scanned-0.03 || sketched < 0.85 {
				t.Errorf("recall %.3f by sketch, %.3f by scan", sketched, scanned)
			}
			// Deleted fresh rows are no answers, and an explanation names the
			// stage.
			b.Must(b.D.View(func(s *db.Snapshot) error {
				hits, _, err := dbtest.Nearest(context.Background(), s.Collection("c"), db.Query{Vector: rows[7]}, 1, &db.SearchOptions{Params: &query.Params{Sketch: true}, Explain: true})
				if err == nil && metric != vector.InnerProduct && (string(hits[0].Key) != "new0-7" || hits[0].Why.Text[:5] != "fresh") {
					t.Errorf("hit %s from %q", hits[0].Key, hits[0].Why)
				}
				return err
			}))
			b.Drop("new0-7")
			b.Must(b.D.View(func(s *db.Snapshot) error {
				hits, _, err := dbtest.Nearest(context.Background(), s.Collection("c"), db.Query{Vector: rows[7]}, k, &db.SearchOptions{Params: &query.Params{Sketch: true}})
				for _, h := range hits {
					if string(h.Key) == "new0-7" {
						t.Error("deleted row was found")
					}
				}
				return err
			}))
		})
	}
}
