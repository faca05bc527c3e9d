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

func sameSparse(a, b vector.Sparse) error {
	if !slices.Equal(a.Index, b.Index) {
		return fmt.Errorf("features %v, want %v", a.Index, b.Index)
	}
	for i := range a.Value {
		if a.Value[i] != b.Value[i] {
			return fmt.Errorf("feature %d is %g, want %g", a.Index[i], a.Value[i], b.Value[i])
		}
	}
	return nil
}

func TestSparseRowsComeBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "a.anndb")
	d, err := Open(ctx, path, nil)
	must(t, err)
	if _, err := d.Create(ctx, "s", Schema{Sparse: true}); err != nil {
		t.Fatal(err)
	}
	const n = 2500 // two chunks and a tail
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]vector.Sparse, n)
	for lo := 0; lo < n; lo += 500 {
		err := d.Update(ctx, func(b *Tx) error {
			for i := lo; i < lo+500; i++ {
				rows[i] = randomSparse(rng, rng.IntN(20), 3000)
				if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, i), Sparse: rows[i], Labels: []string{fmt.Sprint("l", i%3)}, Payload: fmt.Append(nil, "p", i)}); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
	must(t, d.Update(ctx, func(b *Tx) error { return b.Collection("s").Delete([]byte("7")) }))
	check := func(d *DB) {
		t.Helper()
		err := d.View(func(s *Snapshot) error {
			seen := 0
			for r, err := range s.Collection("s").Rows(t.Context(), nil) {
				if err != nil {
					return err
				}
				seen++
				if err := sameSparse(r.Sparse, rows[r.Row]); err != nil {
					return fmt.Errorf("row %d: %w", r.Row, err)
				}
				if string(r.Payload) != fmt.Sprint("p", r.Row) || len(r.Labels) != 1 {
					return fmt.Errorf("row %d has payload %q and labels %v", r.Row, r.Payload, r.Labels)
				}
			}
			if seen != n-1 {
				return fmt.Errorf("%d rows, want %d", seen, n-1)
			}
			r, err := s.Collection("s").Get([]byte("2001"))
			if err != nil {
				return err
			}
			if _, err := s.Collection("s").Get([]byte("7")); !errors.Is(err, fail.NoRow) {
				return fmt.Errorf("deleted row: %v", err)
			}
			return sameSparse(r.Sparse, rows[2001])
		})
		must(t, err)
		must(t, d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil))
	}
	check(d)
	must(t, d.Compact(ctx, nil))
	check(d)
	must(t, d.Close())
	if d, err = Open(ctx, path, nil); err != nil {
		t.Fatal(err)
	}
	check(d)
	must(t, d.Close())
}

func TestNamedFeaturesComeBack(t *testing.T) {
	ctx := context.Background()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), nil)
	must(t, err)
	defer d.Close()
	if _, err := d.Create(ctx, "s", Schema{Named: true}); err != nil {
		t.Fatal(err)
	}
	put := func(key string, f ...Feature) {
		t.Helper()
		must(t, d.Update(ctx, func(b *Tx) error { return b.Collection("s").Put(Row{Key: []byte(key), Features: f}) }))
	}
	put("a", Feature{"zebra", 3}, Feature{"ant", 4})
	put("b", Feature{"ant", 1}, Feature{"bee", 0}, Feature{"cat", 1})
	err = d.View(func(s *Snapshot) error {
		r, err := s.Collection("s").Get([]byte("a"))
		if err != nil {
			return err
		}
		slices.SortFunc(r.Features, func(x, y Feature) int { return len(x.Name) - len(y.Name) })
		if want := []Feature{{"ant", 4}, {"zebra", 3}}; !slices.Equal(r.Features, want) {
			return fmt.Errorf("features %v, want %v", r.Features, want)
		}
		info, err := s.Collection("s").Info()
		if err == nil && (!info.Sparse || !info.Named || info.Features != 4) {
			err = fmt.Errorf("collection %+v", info)
		}
		return err
	})
	must(t, err)
	must(t, d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil))
	info, err := d.Collection("s").Info()
	must(t, err)
	if _, err := d.Create(ctx, "like it", info.Schema); err != nil {
		t.Errorf("a collection with the schema of another: %v", err)
	}
	must(t, d.Drop(ctx, "s"))
	must(t, d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil))
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
