package forestindex

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/trees/forest"
)

// Many rows are replaced by their principal coordinates if these have all of the distances.
func TestTurn(t *testing.T) {
	for _, c := range []struct {
		what        string
		n, r        int
		offset      float64
		own, turned bool
	}{
		{"many rows", manyRows, 3, 0, true, true},
		{"few rows", 1000, 3, 0, true, false},
		{"fewer coordinates", manyRows, 2, 0, true, false},
		{"training queries", manyRows, 3, 0, false, false},
		// Rotation rounds such coordinates to more than their distances.
		{"far from zero", manyRows, 3, 1e6, true, false},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		rows := &flatRows{make([]float32, 3*c.n), c.n, 3}
		for i := range rows.data {
			rows.data[i] = float32(c.offset + rng.NormFloat64())
		}
		s := &training{corpus: subset{rows: rows}, points: subset{rows: rows}, own: c.own}
		r, err := forest.PCA(t.Context(), s.corpus, c.r, 1000, 1, 1)
		must(t, err)
		rotated := rotate(t.Context(), r, rows)
		mean := s.turn(r, rotated)
		if got := s.corpus.rows == rotated && s.points.rows == rotated; got != c.turned {
			t.Errorf("%s: turned %v", c.what, got)
		}
		if want := float32(c.offset); c.turned != (mean[0] == 0) || !c.turned && math.Abs(float64(mean[0]-want)) > 1 {
			t.Errorf("%s: mean %v", c.what, mean)
		}
	}
}
