package sample

import (
	"math"
	"sync"
	"testing"
)

// TestUniform: each of many queries is kept with the same probability.
func TestUniform(t *testing.T) {
	const most, asked, trials = 20, 400, 2000
	kept := make([]int, asked)
	s := New(most)
	for trial := range uint64(trials) {
		r := s.Of(trial)
		for i := range asked {
			r.Offer([]float32{float32(i)})
		}
		queries, taken := r.Queries(most), r.Taken()
		if len(queries) != most || taken < most || taken > asked/2 {
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
	r := s.Of(7)
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
	if s.Of(7) != r {
		t.Error("another sample of the same collection")
	}
	s.Forget(7)
	if n, _ := s.Of(7).Sizes("a"); n != 0 {
		t.Errorf("%d queries of a dropped collection", n)
	}
	r = New(0).Of(1)
	r.Offer(q)
	if n, fresh := r.Sizes("a"); n != 0 || fresh != 0 {
		t.Errorf("%d, %d without a sample", n, fresh)
	}
}

// TestOfferNeverWaits: a query is left out while another goroutine holds the sample.
func TestOfferNeverWaits(t *testing.T) {
	r := New(2).Of(1)
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
		s.Of(1).Offer(q)
	}
	if n := testing.AllocsPerRun(1000, func() { s.Of(1).Offer(q) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
