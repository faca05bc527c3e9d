package labels

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestThin compares single lists with those of the reference: in its last pass a list has the rows that the
// rule keeps of those on the first pass's list and those that have it on theirs.
func TestThin(t *testing.T) {
	const n, d, k, m = 300, 6, 9, 7
	rng := rand.New(rand.NewPCG(5, 1))
	rows := make(vectors, n)
	for i := range rows {
		rows[i] = make([]float32, d)
		for j := range rows[i] {
			rows[i][j] = rng.Float32() // all distances differ
		}
	}
	near, err := ExactNeighbors(t.Context(), rows, nil, k, 1, nil)
	must(t, err)
	lists := slices.Clone(near.IDs)
	thinner := NewThinner(rows)
	for range 2 {
		width := len(lists) / n
		next := make([]uint32, 0, n*m)
		for i := range uint32(n) {
			candidates := slices.Clone(lists[int(i)*width : int(i+1)*width])
			for at, id := range lists {
				if id == i {
					candidates = append(candidates, uint32(at/width))
				}
			}
			list := make([]uint32, m)
			thinner.Thin(i, candidates, list)
			next = append(next, list...)
		}
		lists = next
	}
	if want := diversified(rows, near.IDs, k, m); !slices.Equal(lists, want) {
		t.Error("lists differ from those of Diversify")
	}
	list := []uint32{9, 9}
	thinner.Thin(4, []uint32{4, 4}, list)
	if list[0] != 4 || list[1] != 4 {
		t.Errorf("%v without candidates, want the row itself", list)
	}
}
