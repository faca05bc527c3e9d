package forestindex

import (
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
)

// Rows whose variance is spread over many coordinates get wide sketches, others narrow ones.
func TestSketchWidth(t *testing.T) {
	const n, d = 3000, 230
	for _, c := range []struct {
		name   string
		spread float64 // deviation of the last coordinates
		want   int
	}{{"concentrated", 0.01, 64}, {"spread", 1, 128}} {
		rng := rand.New(rand.NewPCG(1, 2))
		rows := &flatRows{n: n, d: d}
		centre := make([]float64, d)
		for i := range n {
			for j := range d {
				if i%300 == 0 {
					centre[j] = rng.NormFloat64()
				}
				x := centre[j] + 0.7*rng.NormFloat64()
				if j >= 40 {
					x *= c.spread
				}
				rows.data = append(rows.data, float32(x))
			}
		}
		tr := &training{corpus: subset{rows: rows}, points: subset{rows: rows}, own: true, dim: d}
		o := Options{}.resolve(n, d)
		l := &learned{n: n, opts: o, dim: d}
		ctx := t.Context()
		if err := l.project(ctx, tr, o, kind.NewTimer(ctx)); err != nil {
			t.Fatal(err)
		}
		near, err := labels.ExactNeighbors(ctx, rows, nil, 25, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr.hops = near
		if err := l.makeSketches(ctx, tr, o); err != nil {
			t.Fatal(err)
		}
		if l.encoder.Width != c.want || len(l.sketch) != n*c.want || l.rotation.R != l.rotated.d {
			t.Errorf("%s: sketches of %d bytes, %d in all, %d of %d coordinates; want %d bytes", c.name,
				l.encoder.Width, len(l.sketch), l.rotation.R, l.rotated.d, c.want)
		}
	}
}
