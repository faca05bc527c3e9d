package forest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An order has every row once, and is the same at any number of goroutines.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		rows := gaussian(newRand(rapid.Uint64().Draw(t, "seed")), n, rapid.IntRange(1, 9).Draw(t, "dim"))
		for i := range rows {
			if rapid.Bool().Draw(t, "again") {
				rows[i] = rows[0]
			}
		}
		leaf := rapid.IntRange(1, 40).Draw(t, "leaf")
		order, err := Order(t.Context(), rows, leaf, 1)
		must(t, err)
		sorted := slices.Sorted(slices.Values(order))
		for i, row := range sorted {
			if int(row) != i {
				t.Fatalf("row %d at place %d of %d", row, i, n)
			}
		}
		if again, err := Order(t.Context(), rows, leaf, 3); err != nil || !slices.Equal(order, again) {
			t.Fatalf("another order with more goroutines: %v", err)
		}
	})
}

// The order places the rows of a cluster together for any order of the input.
func TestOrderClusters(t *testing.T) {
	const clusters, each = 16, 600
	rng := newRand(8)
	centres := gaussian(rng, clusters, 12)
	rows := make(table, clusters*each)
	for i := range rows {
		rows[i] = make([]float32, 12)
		for j := range rows[i] {
			rows[i][j] = 100*centres[i%clusters][j] + float32(rng.NormFloat64())
		}
	}
	order, err := Order(t.Context(), rows, 16, 2)
	must(t, err)
	if again, err := Order(t.Context(), rows, 16, 1); err != nil || !slices.Equal(order, again) {
		t.Errorf("another order by one goroutine: %v", err)
	}
	changes := 0
	for i := range order[1:] {
		if order[i]%clusters != order[i+1]%clusters {
			changes++
		}
	}
	// A cut may split one cluster, but not many.
	if changes > 3*clusters {
		t.Errorf("the cluster changes %d times from row to row", changes)
	}
}

func TestOrderErrors(t *testing.T) {
	rows := gaussian(newRand(1), 50, 3)
	for _, c := range []struct {
		rows table
		leaf int
	}{{nil, 4}, {rows, 0}} {
		if _, err := Order(t.Context(), c.rows, c.leaf, 0); !errors.Is(err, ErrParams) {
			t.Errorf("%d rows, leaves of %d: %v", len(c.rows), c.leaf, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Order(ctx, rows, 4, 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
