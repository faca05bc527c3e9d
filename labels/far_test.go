package labels

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// apart returns n rows in groups that are far from each other, and lists of their k nearest rows.
func apart(t *testing.T, n, groups, k int) (vectors, []uint32) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	rows := make(vectors, n)
	for i := range rows {
		rows[i] = make([]float32, 8)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64())
		}
		rows[i][i%groups%8] += float32(100 * (1 + i%groups))
	}
	near, err := ExactNeighbors(t.Context(), rows, nil, k+1, 2, nil)
	must(t, err)
	var lists []uint32
	for i := range n {
		lists = append(lists, near.Row(i)[1:]...)
	}
	return rows, lists
}

// Lists of nearest rows do not lead from group to group; with far candidates they do.
func TestFar(t *testing.T) {
	const k, m = 12, 12
	rows, near := apart(t, 3000, 20, k)
	alone, err := Diversify(t.Context(), rows, Candidates{Near: near, K: k}, m, 2)
	must(t, err)
	if share, err := Reached(alone, m); err != nil || share > 0.06 {
		t.Fatalf("%.3f of the rows are reached in 20 groups, %v", share, err)
	}
	var first *FarRows
	for workers := range 3 {
		far, err := Far(t.Context(), rows, near, k, workers)
		must(t, err)
		if first == nil {
			first = far
		}
		if len(far.ids) < len(rows)/farStep*farEach || !reflect.DeepEqual(far, first) {
			t.Fatalf("%d candidates, or others on %d workers", len(far.ids), workers)
		}
	}
	both := Candidates{Near: near, K: k, Far: first}
	lists, err := Diversify(t.Context(), rows, both, m, 2)
	must(t, err)
	share, err := Reach(t.Context(), rows, lists, m, both)
	if err != nil || share < 1 {
		t.Errorf("%.4f of the rows are reached, %v", share, err)
	}
}

// Rows that no path connects with a sampled row are compared with all of them.
func TestFarLost(t *testing.T) {
	rows, _ := apart(t, 500, 3, 2)
	alone := make([]uint32, 2*len(rows))
	for i := range alone {
		alone[i] = uint32(i / 2)
	}
	far, err := Far(t.Context(), rows, alone, 2, 1)
	must(t, err)
	for i := range rows {
		if list := far.Of(i); list[0]%3 != uint32(i%3) {
			t.Fatalf("the nearest sampled row of row %d is %d, of another group", i, list[0])
		}
	}
}

// Reach leads to rows that no list has.
func TestReach(t *testing.T) {
	rows := vectors{{0}, {1}, {2}, {3}, {10}}
	// Rows 3 and 4 are on no list; all lists but the last two are full.
	lists := []uint32{1, 2, 0, 2, 1, 0, 2, 1, 3, 4}
	if share, err := Reached(lists, 2); err != nil || share != 0.6 {
		t.Fatalf("%v of the rows are reached, %v", share, err)
	}
	if _, err := Reach(t.Context(), rows, lists, 2, Candidates{Near: []uint32{1, 2, 3, 1, 0, 2}, K: 1}); !errors.Is(err, ErrShape) {
		t.Error("candidates of six rows for five")
	}
	share, err := Reach(t.Context(), rows, lists, 2, Candidates{Near: []uint32{1, 1, 2, 2, 3}, K: 1})
	if err != nil || share != 1 {
		t.Fatalf("%v of the rows are reached, %v: %v", share, err, lists)
	}
	if !slices.Contains(lists[4:6], 3) || !slices.Contains(lists[6:8], 4) {
		t.Errorf("row 3 is not on the list of row 2, or row 4 not on that of row 3: %v", lists)
	}
	if share, err := Reached(nil, 3); err != nil || share != 1 {
		t.Errorf("without rows %v, %v", share, err)
	}
}

func TestReachErrors(t *testing.T) {
	rows := vectors{{1}, {2}}
	for _, lists := range [][]uint32{{0}, {0, 2, 1, 1}} {
		if _, err := Reached(lists, 2); !errors.Is(err, ErrShape) {
			t.Errorf("lists %v: %v", lists, err)
		}
	}
	if _, err := Far(t.Context(), rows, []uint32{0}, 1, 1); !errors.Is(err, ErrShape) {
		t.Errorf("one list of two: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Far(ctx, rows, []uint32{1, 0}, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Reach(ctx, rows, []uint32{0, 1}, 1, Candidates{Near: []uint32{1, 0}, K: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Groups of equal rows, larger than the lists, are reached, and lead to other rows.
func TestReachEqualRows(t *testing.T) {
	const k, m, groups, size = 24, 24, 16, 50
	rng := rand.New(rand.NewPCG(3, 4))
	var rows vectors
	for range groups {
		x := make([]float32, 8)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		for range size {
			rows = append(rows, x)
		}
	}
	for range groups * size {
		x := make([]float32, 8)
		for j := range x {
			x[j] = float32(rng.NormFloat64())
		}
		rows = append(rows, x)
	}
	near, err := ExactNeighbors(t.Context(), rows, nil, k, 2, nil)
	must(t, err)
	lists, err := Diversify(t.Context(), rows, Candidates{Near: near.IDs, K: k}, m, 2)
	must(t, err)
	for i := range rows {
		equal := 0
		for _, id := range lists[i*m : (i+1)*m] {
			if int(id) != i && slices.Equal(rows[id], rows[i]) {
				equal++
			}
		}
		if equal > 1 {
			t.Fatalf("the list of row %d has %d equal rows", i, equal)
		}
	}
	far, err := Far(t.Context(), rows, near.IDs, k, 2)
	must(t, err)
	both := Candidates{Near: near.IDs, K: k, Far: far}
	if lists, err = Diversify(t.Context(), rows, both, m, 2); err != nil {
		t.Fatal(err)
	}
	if share, err := Reach(t.Context(), rows, lists, m, both); err != nil || share < 1 {
		t.Errorf("%.4f of the rows are reached, %v", share, err)
	}
}
