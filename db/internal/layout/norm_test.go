package layout_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// TestSmallMagnitudes: exact answers are right at every scale, for rows and for
// queries, or the row is refused.
func TestSmallMagnitudes(t *testing.T) {
	t.Parallel()
	const dim, n, k = 16, 200, 10
	scaled := func(rows [][]float32, scale float64) [][]float32 {
		out := make([][]float32, len(rows))
		for i, x := range rows {
			for _, v := range x {
				out[i] = append(out[i], float32(float64(v)*scale))
			}
		}
		return out
	}
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		least := kind.MinNorm
		if metric == vector.Cosine {
			least = kind.MinCosineNorm
		}
		for _, scale := range []float64{1, 1e10, 1e-10, 1e-18, 1e-19, 1e-22, 1e-25, 1e-30, 1e-37, 1e-42} {
			b := dbtest.NewBed(t, metric, dim)
			rows := scaled(dbtest.Mixture(1, n, dim), scale)
			shortest := math.Inf(1)
			for _, x := range rows {
				sum := 0.0
				for _, v := range x {
					sum += float64(v) * float64(v)
				}
				shortest = min(shortest, math.Sqrt(sum))
			}
			if shortest < least {
				err := b.D.Update(t.Context(), func(w *db.Tx) error {
					for i, x := range rows {
						if err := w.Collection("c").Put(db.Row{Key: fmt.Appendf(nil, "k%d", i), Vector: x}); err != nil {
							return err
						}
					}
					return nil
				})
				if !errors.Is(err, db.ErrInvalid) {
					t.Errorf("%v, rows of scale %g: %v", metric, scale, err)
				}
				continue
			}
			b.Put("a", rows)
			for _, asked := range []float64{scale, 1, 1e-25, 1e-44} {
				if metric == vector.L2 && asked != scale {
					continue // then distances are those of the longer one
				}
				for _, q := range scaled(dbtest.Mixture(2, 5, dim), asked) {
					hits, _ := b.Search(q, k, &db.SearchOptions{Index: db.Flat})
					want := b.Exact(q, nil)
					least, most := want[0].Distance, want[k-1].Distance
					slack := 1e-5 * max(math.Abs(least), math.Abs(most))
					for i, h := range hits {
						if d := b.Distance(q, b.Rows[string(h.Key)]); d > most+slack {
							t.Fatalf("%v, rows of scale %g, query of %g: hit %d, %q, has distance %g, hit %d should have %g", metric, scale, asked, i, h.Key, d, k, most)
						}
					}
				}
			}
		}
	}
	b := dbtest.NewBed(t, vector.L2, 2)
	b.Put("a", [][]float32{{0, 0}, {float32(kind.MinNorm), 0}})
	hits, _ := b.Search([]float32{1e-30, 0}, 2, nil)
	if !slices.Equal(hits[0].Key, []byte("a0")) {
		t.Errorf("the nearest of %v is not the zero vector", hits)
	}
}
