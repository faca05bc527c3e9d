package forestindex

import (
	"math/rand/v2"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Rows whose differences are in directions that are the same everywhere get sketches of principal coordinates;
// those of clusters with directions of their own get sketches of signs, with centers if near rows have near
// numbers.
func TestSketchCode(t *testing.T) {
	if testing.Short() { // dbtest.Whole imports this package
		t.Skip("skipped with -short: the test command runs it")
	}
	const n, d, each, inner = 3000, 400, 64, 15
	for _, c := range []struct{ shared, shuffled bool }{{true, false}, {false, false}, {false, true}} {
		shared := c.shared
		rng := rand.New(rand.NewPCG(1, 2))
		gaussian := func() *flatRows {
			m := &flatRows{data: make([]float32, (inner+1)*d), n: inner + 1, d: d}
			for i := range m.data {
				m.data[i] = float32(rng.NormFloat64())
			}
			return m
		}
		rows := &flatRows{data: make([]float32, n*d), n: n, d: d}
		order := rng.Perm(n)
		var directions *flatRows // and, last, the centre
		for i := range n {
			if i%each == 0 && (i == 0 || !shared) {
				directions = gaussian()
			}
			at := i
			if c.shuffled {
				at = order[i]
			}
			row := rows.Row(at, nil)
			vector.Scale(directions.Row(inner, nil), 6, row)
			for k := range inner {
				x := float32(rng.NormFloat64())
				for j, y := range directions.Row(k, nil) {
					row[j] += x * y
				}
			}
		}
		tr := &training{corpus: subset{rows: rows}, points: subset{rows: rows}, own: true, dim: d}
		o := options{}.resolve(n, d)
		l := &learned{n: n, opts: o, dim: d}
		ctx := t.Context()
		must(t, l.project(ctx, tr, o, kind.NewTimer(ctx)))
		near, err := labels.ExactNeighbors(ctx, rows, nil, 25, 2, nil)
		must(t, err)
		tr.hops = near
		must(t, l.makeSketches(ctx, tr, o))
		e, centers := l.encoder, !shared && !c.shuffled
		if e.Signs == shared || (e.Centers != nil) != centers ||
			len(l.sketch) != n*e.Width || l.rotation.R != l.rotated.d {
			t.Errorf("%+v: sketches of %d bytes, %d in all, signs %v, centers %v, %d of %d coordinates", c, e.Width,
				len(l.sketch), e.Signs, e.Centers != nil, l.rotation.R, l.rotated.d)
		}
	}
}
