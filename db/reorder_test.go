package db

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/trees/budget"
)

// fillClusters writes rows of clusters that take turns, with labels and payloads,
// some of them twice.
func fillClusters(t *testing.T, d *DB, clusters, each int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	if _, err := d.Create(t.Context(), "rows", Schema{Dim: 8}); err != nil {
		t.Fatal(err)
	}
	for _, every := range []int{1, 7} {
		err := d.Update(t.Context(), func(b *Tx) error {
			for i := 0; i < clusters*each; i += every {
				v := make([]float32, 8)
				for j := range v {
					v[j] = 100*float32((i%clusters)>>(j%4)&1) + float32(rng.NormFloat64())
				}
				row := Row{Key: fmt.Appendf(nil, "key-%04d", i), Vector: v, Labels: []string{fmt.Sprint("cluster-", i%clusters)}, Payload: fmt.Append(nil, i)}
				if err := b.Collection("rows").Put(row); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
}

// TestReorder: rows keep their keys, labels and payloads, and what searches
// answer; near rows get near numbers; indexes are there; a snapshot that is held
// sees what it saw.
func TestReorder(t *testing.T) {
	t.Parallel()
	const clusters, each = 8, 80
	d := openTemp(t, &Options{NoSync: true})
	fillClusters(t, d, clusters, each)
	_, err := d.Collection("rows").Build(t.Context(), "main", &Forest{Trees: 2, Seed: 3, Holdout: 20}, nil)
	must(t, err)
	tree := Trees{Params: budget.Params{BAC: budget.BACParams{Budget: 8}}}
	if _, err := d.Collection("rows").Build(t.Context(), "tree", treesOf(budget.PT, tree), nil); err != nil {
		t.Fatal(err)
	}
	held, err := d.Snapshot()
	must(t, err)
	t.Cleanup(held.Release)
	must(t, d.Compact(t.Context(), &CompactOptions{Reorder: true}))
	must(t, errors.Join(mustCheck(d), mustLeaveNothing(d)))
	err = d.View(func(s *Snapshot) error {
		before, after := rowTexts(t, held, "rows"), rowTexts(t, s, "rows")
		changes, last := 0, ""
		for r, err := range s.Collection("rows").Rows(t.Context(), nil) {
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
		if slices.Equal(before, after) {
			t.Error("rows have the order that they had")
		}
		slices.Sort(before)
		slices.Sort(after)
		if !slices.Equal(before, after) {
			t.Errorf("%d other rows than %d before", len(after), len(before))
		}
		info, err := s.Collection("rows").Info()
		if err != nil || info.Rows != clusters*each || info.Live != clusters*each || len(info.Indexes) != 2 {
			t.Errorf("%+v, %v", info, err)
		}
		for i := range 20 {
			q := make([]float32, 8)
			q[i%8] = 100
			q[i%3] -= float32(i)
			for _, index := range []string{Flat, "main"} {
				want, _, err1 := nearest(t.Context(), held.Collection("rows"), Query{Vector: q}, 5, &SearchOptions{Index: index})
				got, _, err2 := nearest(t.Context(), s.Collection("rows"), Query{Vector: q}, 5, &SearchOptions{Index: index})
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				for j := range want {
					if index == Flat && (string(want[j].Key) != string(got[j].Key) || want[j].Distance != got[j].Distance) {
						t.Errorf("query %d: %s at %g, before %s at %g", i, got[j].Key, got[j].Distance, want[j].Key, want[j].Distance)
					}
				}
			}
		}
		return nil
	})
	must(t, err)
	must(t, churnKeys(d))
	steps, err := d.Maintain(t.Context(), 0, nil)
	if err != nil || len(steps) != 1 || steps[0].Index != "main" { // the tree stays
		t.Errorf("%+v, %v", steps, err)
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// churnKeys updates and deletes rows by key.
func churnKeys(d *DB) error {
	err := d.Update(context.Background(), func(b *Tx) error {
		return errors.Join(
			b.Collection("rows").Put(Row{Key: []byte("key-0001"), Vector: make([]float32, 8)}),
			b.Collection("rows").Delete([]byte("key-0002")),
		)
	})
	return errors.Join(err, mustCheck(d))
}

// A database without dense rows, or without any, is compacted.
func TestReorderNothing(t *testing.T) {
	d := openTemp(t, &Options{NoSync: true})
	err := errors.Join(create(t.Context(), d, "words", Schema{Named: true}), create(t.Context(), d, "rows", Schema{Dim: 3}))
	must(t, err)
	must(t, d.Compact(t.Context(), &CompactOptions{Reorder: true}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Compact(ctx, &CompactOptions{Reorder: true}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}
