package db_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// clustered is a database with a collection of clustered rows of d coordinates,
// the first and some others deleted.
func clustered(t *testing.T, n, d int, metric vector.Metric) *db.DB {
	t.Helper()
	store, err := db.Open(t.Context(), filepath.Join(t.TempDir(), "x.anndb"), &db.Options{NoSync: true})
	dbtest.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	dbtest.Must(t, dbtest.Create(t.Context(), store, "c", db.Schema{Dim: d, Metric: metric}))
	rng := rand.New(rand.NewPCG(3, 4))
	dbtest.Fill(t, store, "c", 0, n, func(i int) db.Row {
		x := make([]float32, d)
		for j := range x {
			x[j] = float32((i*j)%9) + float32(rng.NormFloat64())*2/(1+0.1*float32(j))
		}
		return db.Row{Key: fmt.Append(nil, i), Vector: x}
	})
	err = store.Update(t.Context(), func(b *db.Tx) error {
		for i := 0; i < n; i += 37 {
			if err := b.Collection("c").Delete(fmt.Append(nil, i)); err != nil {
				return err
			}
		}
		return nil
	})
	dbtest.Must(t, err)
	return store
}

func TestApproximateLabels(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		t.Run(metric.String(), func(t *testing.T) {
			store := clustered(t, 1500, 70, metric)
			found := map[string]float64{}
			for _, source := range []string{"exact", "approximate"} {
				info, err := store.Collection("c").Build(t.Context(), "x", &index.Forest{Source: source, LeafNeighbors: 20, ListNeighbors: 16, Holdout: 100, Seed: 1, Trees: 4}, nil)
				dbtest.Must(t, err)
				found[source] = foundOf(t, store)
				if source == "exact" {
					if info.Neighbors != nil {
						t.Errorf("a report of exact labels: %+v", info.Neighbors)
					}
					continue
				}
				r := info.Neighbors
				if r == nil || r.K != 20 || r.Sample != 100 || r.Recall < 0.95 || r.HeadRecall < 0.95 || r.Rounds < 1 {
					t.Fatalf("report %+v", r)
				}
				list, err := store.Collection("c").Indexes()
				stored := list[0]
				if err != nil || stored.Neighbors == nil || *stored.Neighbors != *r {
					t.Errorf("stored report %+v, %v", stored.Neighbors, err)
				}
			}
			if found["exact"] < 0.9 || found["approximate"] < found["exact"]-0.02 {
				t.Errorf("recall %.3f with approximate labels, %.3f with exact ones", found["approximate"], found["exact"])
			}
		})
	}
}

// foundOf is the recall of index x with one setting, over some of the rows.
func foundOf(t *testing.T, store *db.DB) float64 {
	t.Helper()
	hits, all := 0, 0
	err := store.View(func(s *db.Snapshot) error {
		for i := 1; i < 1500; i += 11 {
			if i%37 == 0 {
				continue // deleted
			}
			row, err := s.Collection("c").Get(fmt.Append(nil, i))
			if err != nil {
				return err
			}
			exact, _, err := dbtest.Nearest(t.Context(), s.Collection("c"), db.Query{Vector: row.Vector}, 10, &db.SearchOptions{Index: db.Flat})
			if err != nil {
				return err
			}
			got, _, err := dbtest.Nearest(t.Context(), s.Collection("c"), db.Query{Vector: row.Vector}, 10, &db.SearchOptions{Index: "x", Params: &query.Params{
				Sketch: true, Beam: 30, R: 40,
			}})
			if err != nil {
				return err
			}
			for _, h := range got {
				if h.Distance <= exact[9].Distance {
					hits++
				}
			}
			all += 10
		}
		return nil
	})
	dbtest.Must(t, err)
	return float64(hits) / float64(all)
}
