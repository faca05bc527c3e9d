package vectors

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestGenerator(t *testing.T) {
	g := NewGenerator(1)
	all := g.Rows(1, 300)
	if !slices.Equal(g.Rows(1, 100), all[:100*GenDim]) {
		t.Error("a smaller set is not the beginning of a larger one")
	}
	if slices.Equal(g.Rows(2, 100), all[:100*GenDim]) || slices.Equal(NewGenerator(2).Rows(1, 100), all[:100*GenDim]) {
		t.Error("streams or seeds give equal rows")
	}
	// Low intrinsic dimension: rows are much longer than the noise in them, and
	// what is not noise lies in the directions of centres and cluster.
	length, noise := 0.0, genNoise*math.Sqrt(GenDim)
	for _, x := range all {
		length += float64(x) * float64(x)
	}
	if length = math.Sqrt(length / 300); length < 5*noise {
		t.Errorf("rows have length %.2f against noise of %.2f", length, noise)
	}
	if len(g.bases[0]) != genOwn || genCommon+genOwn > GenDim/2 {
		t.Errorf("%d common and %d own directions of %d", genCommon, len(g.bases[0]), GenDim)
	}
}

// random returns a set of n rows of nine coordinates, whole numbers or not.
func random(n int, whole bool) *Set {
	r := rand.New(rand.NewPCG(1, 2))
	s := &Set{Dim: 9, Whole: whole, Base: make([]float32, 9*n)}
	for i := range s.Base {
		s.Base[i] = float32(r.NormFloat64())
		if whole {
			s.Base[i] = float32(r.IntN(256))
		}
	}
	return s
}

func TestQuantised(t *testing.T) {
	s := random(300, true)
	for i, b := range s.Quantised(s.Base) {
		if float32(b) != s.Base[i] {
			t.Fatalf("value %d: %v became %d", i, s.Base[i], b)
		}
	}
	s = random(3000, false)
	lo, hi := bulk(s.Base)
	out := 0
	for i, b := range s.Quantised(s.Base) {
		if x := s.Base[i]; x < lo || x > hi {
			out++
		} else if back := lo + float32(b)*(hi-lo)/255; math.Abs(float64(back-x)) > float64(hi-lo)/255*0.51 {
			t.Fatalf("%v became %d, which is %v", x, b, back)
		}
	}
	if out > len(s.Base)/5_000 {
		t.Errorf("%d of %d values lie outside the scale", out, len(s.Base))
	}
}
