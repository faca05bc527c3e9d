package compact_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
)

// TestReorder: rows keep their keys, labels and payloads, and what searches answer; near rows get near
// numbers; indexes are there; a snapshot that is held sees what it saw; builds go on meanwhile.
func TestReorder(t *testing.T) {
	t.Parallel()
	const clusters, each = 8, 80
	ctx, d := t.Context(), dbtest.OpenTemp(t, &db.Options{NoSync: true})
	rng := rand.New(rand.NewPCG(3, 4))
	dbtest.Must(t, dbtest.Create(ctx, d, "rows", db.Schema{Dim: 8}))
	for _, every := range []int{1, 7} { // some of them twice
		var rows []db.Row
		for i := 0; i < clusters*each; i += every {
			v := make([]float32, 8)
			for j := range v {
				v[j] = 100*float32((i%clusters)>>(j%4)&1) + float32(rng.NormFloat64())
			}
			rows = append(rows, db.Row{Key: fmt.Appendf(nil, "key-%04d", i), Vector: v,
				Labels: []string{fmt.Sprint("cluster-", i%clusters)}, Payload: fmt.Append(nil, i)})
		}
		dbtest.Must(t, dbtest.Put(d, "rows", rows...))
	}
	dbtest.Builds(t, d, "rows", "main", &index.Forest{Trees: 2, Seed: 3, Holdout: 20})
	held, err := d.Snapshot()
	dbtest.Must(t, err)
	t.Cleanup(held.Release)
	dbtest.Must(t, d.Compact(ctx, &db.CompactOptions{Reorder: true}))
	clean(t, d)
	dbtest.Must(t, d.View(func(s *db.Snapshot) error {
		sameRows(t, s, held, "rows", false)
		changes, last := 0, ""
		for r, err := range s.Collection("rows").Rows(ctx, nil) {
			if err != nil {
				return err
			}
			if r.Labels[0] != last {
				changes++
			}
			last = r.Labels[0]
		}
		if changes > 3*clusters {
			t.Errorf("the cluster changes %d times from row to row", changes)
		}
		info, err := s.Collection("rows").Info()
		if err != nil || info.Rows != clusters*each || info.Live != clusters*each || len(info.Indexes) != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		for i := range 20 {
			q := db.Query{Vector: make([]float32, 8)}
			q.Vector[i%8] = 100
			q.Vector[i%3] -= float32(i)
			want, _, err1 := dbtest.Nearest(ctx, held.Collection("rows"), q, 5, &db.SearchOptions{Index: db.Flat})
			got, _, err2 := dbtest.Nearest(ctx, s.Collection("rows"), q, 5, &db.SearchOptions{Index: db.Flat})
			_, _, err3 := dbtest.Nearest(ctx, s.Collection("rows"), q, 5, &db.SearchOptions{Index: "main"})
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			for j := range want {
				if string(want[j].Key) != string(got[j].Key) || want[j].Distance != got[j].Distance {
					t.Errorf("query %d: %s at %g, before %s at %g", i, got[j].Key, got[j].Distance, want[j].Key, want[j].Distance)
				}
			}
		}
		return nil
	}))
	again, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		for again.Err() == nil && err == nil {
			err = d.Compact(again, &db.CompactOptions{Reorder: true})
		}
		if again.Err() != nil {
			err = nil
		}
		done <- err
	}()
	for range 3 {
		dbtest.Builds(t, d, "rows", "x", &index.Forest{NoTune: true, Trees: 2})
	}
	stop()
	dbtest.Must(t, <-done)
	clean(t, d)
}

// Collections without rows are reordered, and a context that has ended ends the call.
func TestReorderNothing(t *testing.T) {
	ctx, d := t.Context(), dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, errors.Join(
		dbtest.Create(ctx, d, "words", db.Schema{Named: true}), dbtest.Create(ctx, d, "rows", db.Schema{Dim: 3}),
		d.Compact(ctx, &db.CompactOptions{Reorder: true}),
	))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := d.Compact(ended, &db.CompactOptions{Reorder: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	dbtest.Must(t, dbtest.Check(d))
}
