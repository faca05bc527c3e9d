package verified

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/anndb/anndb/codec"
)

// TestChecks: what was checked with one shape counts for no other, nor for another role of the
// object; with a larger bound it does.
func TestChecks(t *testing.T) {
	const postings, sets Role = 0, 1
	var c Checks
	runs := 0
	bad := errors.New("bad")
	a := Key{7, postings, "a"}
	for i, x := range []struct {
		key   Key
		bound int
		fail  error
		runs  int // number of checks run so far
	}{
		{a, 10, bad, 1}, {a, 10, nil, 2}, {a, 10, bad, 2}, {a, 11, bad, 2}, {a, 9, nil, 3}, {a, 9, bad, 3},
		{Key{7, postings, "b"}, 10, nil, 4}, {Key{7, sets, "a"}, 10, nil, 5},
		{Key{7 ^ 1<<63, postings, "a"}, 10, nil, 6},
	} {
		err := c.Once(x.key, x.bound, func() error { runs++; return x.fail })
		if runs != x.runs || (err != nil) != (i == 0) {
			t.Errorf("%d: %d checks, error %v", i, runs, err)
		}
	}
	if c.Forget(7); len(c.bound) != 1 {
		t.Errorf("%d keys are left", len(c.bound))
	}
}

// TestBlocks sets bits of several sections from several goroutines, which all see them.
func TestBlocks(t *testing.T) {
	var b Blocks
	rng := rand.New(rand.NewPCG(1, 1))
	set := map[uint32]bool{}
	for range 3000 {
		set[rng.Uint32N(1<<16)] = true
	}
	const high = 1 << 26
	set[high] = true
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range set {
				b.Section(1, codec.KindRows).Set(i)
			}
		})
	}
	wg.Wait()
	rows := b.Section(1, codec.KindRows)
	for i := range set {
		if !rows.Has(i) {
			t.Fatalf("bit %d is not set", i)
		}
	}
	for range 3000 {
		if i := rng.Uint32N(high); rows.Has(i) != set[i] {
			t.Fatalf("bit %d: %v", i, !set[i])
		}
	}
	if b.Section(2, codec.KindRows).Has(high) || b.Section(1, codec.KindKeys).Has(high) {
		t.Error("the bits of sections are shared")
	}
	if b.Forget(1); b.Section(1, codec.KindRows).Has(high) {
		t.Error("a bit is set after Forget")
	}
}
