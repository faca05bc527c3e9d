package dbtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// Put puts rows into a collection by one transaction.
func Put(d *db.DB, coll string, rows ...db.Row) error {
	return d.Update(context.Background(), func(tx *db.Tx) error {
		for _, r := range rows {
			if err := tx.Collection(coll).Put(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// Fill puts the rows of numbers from one to below another into a collection by one transaction.
func Fill(t TB, d *db.DB, coll string, from, to int, row func(i int) db.Row) {
	t.Helper()
	rows := make([]db.Row, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, row(i))
	}
	Must(t, Put(d, coll, rows...))
}

// Delete deletes rows of a collection by one transaction.
func Delete(d *db.DB, coll string, keys ...string) error {
	return d.Update(context.Background(), func(tx *db.Tx) error {
		for _, k := range keys {
			if err := tx.Collection(coll).Delete([]byte(k)); err != nil {
				return err
			}
		}
		return nil
	})
}

// RandomSparse draws n features of dim with values in (0, 1].
func RandomSparse(rng *rand.Rand, n, dim int) vector.Sparse {
	picked := rng.Perm(dim)[:n]
	slices.Sort(picked)
	var s vector.Sparse
	for _, f := range picked {
		s.Index = append(s.Index, uint32(f))
		s.Value = append(s.Value, 1-rng.Float32())
	}
	return s
}

// Vector is a vector that its seed determines: small whole numbers, which a sealed chunk stores as bytes,
// unless the seed is a multiple of four.
func Vector(seed uint64, dim int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	x := make([]float32, dim)
	for i := range x {
		if seed%4 != 0 {
			x[i] = float32(rng.IntN(256))
		} else {
			x[i] = float32(rng.NormFloat64())
		}
	}
	return x
}

// Features is how many features the vectors of Sparse draw from.
const Features = 30

// Sparse is a sparse vector that its seed determines; some have one value only, some none.
func Sparse(seed uint64) (x vector.Sparse) {
	rng := rand.New(rand.NewPCG(seed, 8))
	share := rng.Float64() * 0.5
	for f := range uint32(Features) {
		if rng.Float64() < share {
			x.Index = append(x.Index, f)
			x.Value = append(x.Value, float32(1+rng.IntN(4))*0.25)
		}
	}
	return x
}

// Named gives the features of such a vector names, whose order is not that of the numbers.
func Named(x vector.Sparse) []vector.Feature {
	out := make([]vector.Feature, x.Len())
	for i, f := range x.Index {
		out[x.Len()-1-i] = vector.Feature{Name: fmt.Sprintf("f%d", f*7%Features), Value: x.Value[i]}
	}
	return out
}
