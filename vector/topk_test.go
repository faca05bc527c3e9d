package vector

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// distances draws few distinct values, so that ties are common, and the values
// that order badly.
func distances() *rapid.Generator[float32] {
	return rapid.OneOf(
		rapid.SampledFrom([]float32{
			0, float32(math.Copysign(0, -1)), 1, 2, 3,
			float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()),
		}),
		rapid.Float32(),
	)
}

func neighbors() *rapid.Generator[[]Neighbor] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Neighbor {
		return Neighbor{rapid.Uint32Range(0, 40).Draw(t, "row"), distances().Draw(t, "distance")}
	}), 0, 60)
}

// nearest returns the neighbours that TopK must keep. It sorts all of them and does
// not use the order of TopK.
func nearest(all []Neighbor, k int) []Neighbor {
	var kept []Neighbor
	for _, n := range all {
		if !math.IsNaN(float64(n.Distance)) {
			kept = append(kept, n)
		}
	}
	slices.SortStableFunc(kept, func(a, b Neighbor) int {
		if a.Distance != b.Distance {
			if a.Distance < b.Distance {
				return -1
			}
			return 1
		}
		return int(a.ID) - int(b.ID)
	})
	return kept[:min(len(kept), max(k, 0))]
}

func TestTopKAgainstSort(t *testing.T) {
	var top TopK // reused, as searches do
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(-1, 20).Draw(t, "k")
		all := neighbors().Draw(t, "neighbours")
		top.Reset(k)
		for i, n := range all {
			// A kept neighbour is among the k best so far. Of pairs with equal ID
			// and distance, those kept earlier stay.
			before := nearest(all[:i], k)
			full := len(before) == max(k, 0)
			keep := n.Distance == n.Distance && (!full || k > 0 && slices.Compare(key(n), key(before[k-1])) < 0)
			if got := top.Push(n.ID, n.Distance); got != keep {
				t.Fatalf("push %d, %v: %v, want %v", i, n, got, keep)
			}
			want := nearest(all[:i+1], k)
			threshold := float32(math.Inf(1))
			switch {
			case k <= 0:
				threshold = float32(math.Inf(-1))
			case len(want) == k:
				threshold = want[k-1].Distance
			}
			if got := top.Threshold(); got != threshold {
				t.Fatalf("threshold after push %d: %v, want %v", i, got, threshold)
			}
			if top.Len() != len(want) {
				t.Fatalf("length after push %d: %d, want %d", i, top.Len(), len(want))
			}
		}
		want := nearest(all, k)
		peeked := top.Peek([]Neighbor{{ID: 99}})
		if peeked[0].ID != 99 || !slices.Equal(nearest(peeked[1:], k), want) {
			t.Fatalf("peek %v, want %v", peeked, want)
		}
		got := top.Append([]Neighbor{{ID: 99}})
		if got[0].ID != 99 || !slices.Equal(got[1:], want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		if top.Len() != 0 || len(top.Append(nil)) != 0 {
			t.Fatal("Append left neighbours")
		}
	})
}

// key maps neighbours to slices of numbers with the same order.
func key(n Neighbor) []float64 { return []float64{float64(n.Distance), float64(n.ID)} }

// TestTopKOrderOfPushes pushes the same neighbours in two orders.
func TestTopKOrderOfPushes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(0, 20).Draw(t, "k")
		all := neighbors().Draw(t, "neighbours")
		a, b := NewTopK(k), NewTopK(k)
		for _, n := range all {
			a.Push(n.ID, n.Distance)
		}
		for _, n := range rapid.Permutation(all).Draw(t, "permuted") {
			b.Push(n.ID, n.Distance)
		}
		if x, y := a.Append(nil), b.Append(nil); !slices.Equal(x, y) {
			t.Fatalf("%v and %v", x, y)
		}
	})
}

func TestTopKZeroValueKeepsNone(t *testing.T) {
	var top TopK
	if top.Push(1, 0) || top.Len() != 0 || !math.IsInf(float64(top.Threshold()), -1) {
		t.Error("the zero TopK kept a neighbour")
	}
}

func TestTopKAllocations(t *testing.T) {
	top, out := NewTopK(50), make([]Neighbor, 0, 50)
	if n := testing.AllocsPerRun(20, func() {
		top.Reset(50)
		for i := range 500 {
			top.Push(uint32(i), float32((i*7919)%501))
		}
		out = top.Peek(out[:0])
		out = top.Append(out[:0])
		top.Reset(10)
	}); n != 0 {
		t.Errorf("a reused TopK allocates %v times", n)
	}
}
