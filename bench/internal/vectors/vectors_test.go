package vectors

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A smaller set is the beginning of a larger one, for each law; streams and seeds differ.
func TestFamily(t *testing.T) {
	for _, law := range Family {
		if law.Clusters > 5000 {
			law.Clusters = 5000 // its centres take seconds
		}
		g := NewGenerator(law, 1)
		all, dim := g.Rows(1, 300), g.Dim()
		if !slices.Equal(g.Rows(1, 100), all[:100*dim]) {
			t.Errorf("%s: a smaller set is not the beginning of a larger one", law.Name)
		}
		if slices.Equal(g.Rows(2, 100), all[:100*dim]) ||
			slices.Equal(NewGenerator(law, 2).Rows(1, 100), all[:100*dim]) {
			t.Errorf("%s: streams or seeds give equal rows", law.Name)
		}
		distinct := map[string]bool{}
		for i := range 300 {
			distinct[string(Raw(all[i*dim:(i+1)*dim]))] = true
		}
		if copies := 300 - len(distinct); (copies > 0) != (law.Copies > 0) {
			t.Errorf("%s: %d copies of other rows", law.Name, copies)
		}
	}
}

// A set is found by the name of its law and size.
func TestGenerated(t *testing.T) {
	law, rows, ok := Generated("own-100k")
	if !ok || law.Name != "own" || rows != 100_000 {
		t.Errorf("law %v, %d rows, %v", law, rows, ok)
	}
	if _, _, ok := Generated("own"); ok {
		t.Error("a set without a size")
	}
}

// Most of the variance of "generated" is in few directions, of "own" in as many as there are.
func TestConcentration(t *testing.T) {
	share := map[string]float64{}
	for _, law := range Family[:2] {
		rows := NewGenerator(law, 1).Rows(1, 2000)
		within, all := 0.0, 0.0
		common := directions(rand.New(rand.NewPCG(1, 0)), 24, GenDim)
		for i := range 2000 {
			x := make([]float64, GenDim)
			for j := range x {
				x[j] = float64(rows[i*GenDim+j])
				all += x[j] * x[j]
			}
			for _, d := range common {
				dot := 0.0
				for j := range x {
					dot += x[j] * d[j]
				}
				within += dot * dot
			}
		}
		share[law.Name] = within / all
	}
	if share["generated"] < 2*share["own"] {
		t.Errorf("share of squared length in the first law's directions: %v", share)
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
