package labels

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/vector"
)

// diversified is Diversify as its documentation puts it, row by row.
func diversified(rows [][]float32, lists []uint32, k, m int) []uint32 {
	n := len(rows)
	pass := func(lists []uint32, k int) []uint32 {
		near := make([]map[uint32]bool, n)
		for i := range near {
			near[i] = map[uint32]bool{}
		}
		for at, id := range lists {
			if i := uint32(at / k); id != i {
				near[i][id], near[id][i] = true, true
			}
		}
		var out []uint32
		for i := range n {
			var order, kept []uint32
			for id := range near[i] {
				order = append(order, id)
			}
			to := func(a uint32) float32 { return vector.L2Squared(rows[i], rows[a]) }
			slices.SortFunc(order, func(a, b uint32) int { return nearestFirst(edge{a, to(a)}, edge{b, to(b)}) })
			for _, id := range order {
				covered := func(o uint32) bool {
					d := vector.L2Squared(rows[id], rows[o])
					return d == 0 || 1.1*1.1*d < to(id)
				}
				if len(kept) < m && !slices.ContainsFunc(kept, covered) {
					kept = append(kept, id)
				}
			}
			for len(kept) < m {
				kept = append(kept, uint32(i))
			}
			out = append(out, kept...)
		}
		return out
	}
	return pass(pass(lists, k), m)
}

type vectors [][]float32

func (v vectors) Len() int { return len(v) }
func (v vectors) Dim() int { return len(v[0]) }
func (v vectors) Row(i int, buf []float32) []float32 {
	return buf[:copy(buf, v[i])]
}

func TestDiversify(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	for _, c := range []struct{ n, d, k, m int }{{1, 3, 1, 2}, {2, 1, 1, 1}, {300, 2, 6, 8}, {700, 10, 12, 9}, {600, 30, 8, 16}} {
		rows := make(vectors, c.n)
		for i := range rows {
			rows[i] = make([]float32, c.d)
			for j := range rows[i] {
				rows[i][j] = float32(rng.IntN(40))
			}
			if i > 0 && i%9 == 0 {
				rows[i] = rows[i-1] // equal rows
			}
		}
		near, err := ExactNeighbors(t.Context(), rows, nil, c.k, 1, nil)
		must(t, err)
		lists := make([]uint32, 0, c.n*c.k)
		for i := range c.n {
			list := slices.Clone(near.Row(i))
			for len(list) < c.k {
				list = append(list, uint32(i))
			}
			lists = append(lists, list...)
		}
		want := diversified(rows, lists, c.k, c.m)
		for workers := range 3 {
			got, err := Diversify(t.Context(), rows, Candidates{Near: lists, K: c.k}, c.m, workers)
			must(t, err)
			if !slices.Equal(got, want) {
				t.Fatalf("%+v on %d workers: %v\nwant %v", c, workers, got[:min(40, len(got))], want[:min(40, len(want))])
			}
		}
	}
}

func TestDiversifyErrors(t *testing.T) {
	rows := vectors{{1}, {2}}
	for _, lists := range [][]uint32{{0}, {0, 2}, nil} {
		if _, err := Diversify(t.Context(), rows, Candidates{Near: lists, K: 1}, 1, 1); !errors.Is(err, ErrShape) {
			t.Errorf("lists %v: %v", lists, err)
		}
	}
	for _, size := range [][2]int{{0, 1}, {1, 0}} {
		if _, err := Diversify(t.Context(), rows, Candidates{Near: []uint32{0, 1}, K: size[0]}, size[1], 1); !errors.Is(err, ErrShape) {
			t.Errorf("sizes %v: %v", size, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Diversify(ctx, rows, Candidates{Near: []uint32{1, 0}, K: 1}, 1, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
