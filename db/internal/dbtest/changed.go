package dbtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// Changed is a file with the dense collection "d" and the sparse one "s" of n rows each. Row i
// has the key "i", the label "l" and i modulo 3, and the payload "p".
func Changed(t *testing.T, n, dim int) (*db.DB, string) {
	t.Helper()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "x.anndb")
	d, err := Open(ctx, path, &db.Options{NoSync: true})
	if err == nil {
		t.Cleanup(func() { _ = d.Close() }) // a test may have closed it
		err = errors.Join(Create(ctx, d, "d", db.Schema{Dim: dim}), Create(ctx, d, "s", db.Schema{Sparse: true}))
	}
	if err == nil {
		err = d.Update(ctx, func(b *db.Tx) error { return PutChanged(b, 0, n, dim) })
	}
	Must(t, err)
	return d, path
}

// PutChanged puts rows of Changed.
func PutChanged(b *db.Tx, from, to, dim int) error {
	for i := from; i < to; i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}, Payload: []byte("p")}
		x := r
		for range dim {
			r.Vector = append(r.Vector, rng.Float32())
		}
		x.Sparse = vector.Sparse{
			Index: []uint32{uint32(i % 3), uint32(3 + rng.IntN(10)), uint32(13 + rng.IntN(10))},
			Value: []float32{1, 1, 2},
		}
		if err := errors.Join(b.Collection("d").Put(r), b.Collection("s").Put(x)); err != nil {
			return err
		}
	}
	return nil
}

// Relabel gives a row of both collections labels.
func Relabel(t *testing.T, d *db.DB, i int, labels ...string) {
	t.Helper()
	err := d.Update(t.Context(), func(b *db.Tx) error {
		key := fmt.Append(nil, i)
		return errors.Join(b.Collection("d").SetLabels(key, labels...), b.Collection("s").SetLabels(key, labels...))
	})
	Must(t, err)
}
