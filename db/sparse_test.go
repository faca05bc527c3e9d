package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/vector"
)

// randomSparse draws n features of dim with values in (0, 1].
func randomSparse(rng *rand.Rand, n, dim int) vector.Sparse {
	picked := rng.Perm(dim)[:n]
	slices.Sort(picked)
	var s vector.Sparse
	for _, f := range picked {
		s.Index = append(s.Index, uint32(f))
		s.Value = append(s.Value, 1-rng.Float32())
	}
	return s
}

func TestSparseRefusesBadRows(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), nil)
	must(t, err)
	defer d.Close()
	for name, o := range map[string]Schema{"ids": {Sparse: true}, "names": {Named: true}} {
		if _, err := d.Create(ctx, name, o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Create(ctx, "dense", Schema{Dim: 2}); err != nil {
		t.Fatal(err)
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		coll string
		row  Row
		want error
	}{
		{"ids", Row{Vector: []float32{1, 2}}, fail.Kind},
		{"ids", Row{Features: []Feature{{"a", 1}}}, fail.Kind},
		{"names", Row{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}}}, fail.Kind},
		{"dense", Row{Vector: []float32{1, 2}, Features: []Feature{{"a", 1}}}, fail.Kind},
		{"dense", Row{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{1}}}, fail.Kind},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{2, 1}, Value: []float32{1, 1}}}, fail.Features},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{1, 1}, Value: []float32{1, 1}}}, fail.Features},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{-1}}}, fail.Features},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{1}, Value: []float32{nan}}}, fail.Features},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{kind.MaxFeature + 1}, Value: []float32{1}}}, fail.Features},
		{"ids", Row{Sparse: vector.Sparse{Index: []uint32{1}}}, fail.Features},
		{"names", Row{Features: []Feature{{"a", 1}, {"a", 2}}}, fail.Features},
		{"names", Row{Features: []Feature{{"", 1}}}, fail.Features},
		{"names", Row{Features: []Feature{{"a", -1}}}, fail.Features},
		{"names", Row{Features: []Feature{{"a\xff", 1}}}, fail.Features},
	} {
		c.row.Key = []byte("k")
		if err := d.Update(ctx, func(b *Tx) error { return b.Collection(c.coll).Put(c.row) }); !errors.Is(err, c.want) {
			t.Errorf("%s %+v: %v, want %v", c.coll, c.row, err, c.want)
		}
	}
	err = d.View(func(s *Snapshot) error {
		for _, c := range s.Collections() {
			if c.Rows != 0 {
				return fmt.Errorf("%s has %d rows", c.Name, c.Rows)
			}
		}
		_, _, err := nearest(ctx, s.Collection("ids"), Query{Vector: []float32{1}}, 1, nil)
		if !errors.Is(err, fail.Kind) {
			return fmt.Errorf("dense search: %v", err)
		}
		return nil
	})
	must(t, err)
}
