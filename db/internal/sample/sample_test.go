package sample

import (
	"math"
	"slices"
	"sync"
	"testing"
)

func none() Stored { return Stored{} }

// TestUniform: each of many queries is kept with the same probability.
func TestUniform(t *testing.T) {
	const most, asked, trials = 20, 400, 2000
	kept := make([]int, asked)
	s := New(most)
	for trial := range uint64(trials) {
		r := s.Of(trial, none)
		for i := range asked {
			if i == asked/2 { // stored and read again
				stored, _ := r.Stored()
				s.Forget(trial)
				r = s.Of(trial, func() Stored { return stored })
			}
			r.Offer([]float32{float32(i)})
		}
		queries, taken := r.Queries(most), r.Taken()
		if len(queries) != most || taken == 0 || taken > asked/4 {
			t.Fatalf("%d queries of %d taken", len(queries), taken)
		}
		for _, q := range queries {
			kept[int(q[0])]++
		}
	}
	want := float64(trials) * most / asked
	sum := 0.0
	for _, n := range kept {
		sum += (float64(n) - want) * (float64(n) - want) / want
	}
	// Chi-squared with 399 degrees of freedom has a standard deviation of 28.
	if sum > asked+5*28 || math.IsNaN(sum) {
		t.Errorf("chi-squared %.0f, want about %d", sum, asked)
	}
}

// TestReservoir: a sample is a copy, counts what is new for each index, and is forgotten.
func TestReservoir(t *testing.T) {
	s := New(3)
	r := s.Of(7, none)
	q := []float32{1}
	for range 2 {
		r.Offer(q)
	}
	q[0] = 5
	queries, taken := r.Queries(9), r.Taken()
	if len(queries) != 2 || queries[0][0] != 1 || taken != 2 {
		t.Errorf("%v of %d", queries, taken)
	}
	r.Measured("a", taken)
	r.Offer(q)
	if n, fresh := r.Sizes("a"); n != 3 || fresh != 1 {
		t.Errorf("%d queries, %d new", n, fresh)
	}
	if _, fresh := r.Sizes("b"); fresh != 3 {
		t.Errorf("%d new", fresh)
	}
	if s.Of(7, none) != r {
		t.Error("another sample of the same collection")
	}
	s.Forget(7)
	if n, _ := s.Of(7, none).Sizes("a"); n != 0 {
		t.Errorf("%d queries of a dropped collection", n)
	}
	r = New(0).Of(1, none)
	r.Offer(q)
	if n, fresh := r.Sizes("a"); n != 0 || fresh != 0 {
		t.Errorf("%d, %d without a sample", n, fresh)
	}
}

// TestUnsaved: a sample has to be stored when enough of it is new, also under another number of the collection;
// a longer stored one is cut.
func TestUnsaved(t *testing.T) {
	s := New(200)
	r := s.Of(1, none)
	ids := func(least int) (out []uint64) {
		for id := range s.Unsaved(least) {
			out = append(out, id)
		}
		slices.Sort(out)
		return out
	}
	for range 3 {
		r.Offer(make([]float32, 1<<20))
	}
	former := s
	s = s.Renumbered(map[uint64]uint64{1: 9})
	if got := ids(4); got != nil {
		t.Errorf("%v have 4 new queries", got)
	}
	if got := ids(3); !slices.Equal(got, []uint64{9}) || former.Of(1, nil) != r || former.Of(9, nil) != nil {
		t.Errorf("%v have 3 new queries", got)
	}
	stored, taken := r.Stored()
	if r.Saved(taken); len(stored.Queries) != 3 || ids(1) != nil {
		t.Errorf("%d queries stored, %v unsaved", len(stored.Queries), ids(1))
	}
	long := Stored{Queries: make([][]float32, 150)}
	for i := range long.Queries {
		long.Queries[i] = make([]float32, 1<<15)
	}
	cut := s.Of(2, func() Stored { return long })
	if n, fresh := cut.Sizes(""); n != Least || fresh != 0 || ids(1) != nil {
		t.Errorf("%d queries of a longer sample, %d new", n, fresh)
	}
}

// TestOfferNeverWaits: a query is left out while another goroutine holds the sample.
func TestOfferNeverWaits(t *testing.T) {
	r := New(2).Of(1, none)
	r.mu.Lock()
	r.Offer([]float32{1})
	r.mu.Unlock()
	if n, _ := r.Sizes(""); n != 0 {
		t.Errorf("%d queries", n)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				r.Offer([]float32{2})
				r.Queries(2)
			}
		})
	}
	all.Wait()
}

// TestNoAllocations: a full sample allocates nothing.
func TestNoAllocations(t *testing.T) {
	s := New(8)
	q := make([]float32, 4)
	for range 8 {
		s.Of(1, none).Offer(q)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Of(1, none).Offer(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
