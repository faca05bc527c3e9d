package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// maintainedGolden makes a database whose indexes have been maintained: an
// inverted index of several segments, a forest with rows folded in.
func maintainedGolden(path string) (err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	sparse := func(i int) vector.Sparse {
		return vector.Sparse{Index: []uint32{uint32(i % 5), uint32(5 + i%7)}, Value: []float32{1, float32(1 + i%3)}}
	}
	put := func(from, to int) error {
		return d.Update(ctx, func(b *Tx) error {
			for i := from; i < to; i++ {
				key := fmt.Appendf(nil, "key-%d", i)
				err1 := b.Collection("dense").Put(Row{Key: key, Vector: goldenVector(i, 6, 0)})
				err2 := b.Collection("sparse").Put(Row{Key: key, Sparse: sparse(i)})
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
			}
			return nil
		})
	}
	build := func(coll string, o IndexOptions) error {
		_, err := d.Collection(coll).Build(ctx, "x", o, nil)
		return err
	}
	maintain := func() error {
		_, err := d.Maintain(ctx, 0, nil)
		return err
	}
	return errorsOf(
		func() error { return create(ctx, d, "dense", Schema{Dim: 6}) },
		func() error { return create(ctx, d, "sparse", Schema{Sparse: true}) },
		func() error { return put(0, 100) },
		func() error {
			return build("dense", &Forest{NoTune: true, Trees: 4, Depth: 3, LeafNeighbors: 8, ListNeighbors: 4, Members: true, Quantize: true})
		},
		func() error { return build("sparse", &Postings{}) },
		func() error { return put(100, 108) },
		maintain,
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				return errors.Join(b.Collection("dense").Delete([]byte("key-7")), b.Collection("sparse").Delete([]byte("key-7")))
			})
		},
		func() error { return put(108, 110) },
		maintain,
	)
}

// TestGoldenMaintained opens the golden file of maintained indexes, which is
// written as the other one is, and asks the indexes what exact scans answer.
func TestGoldenMaintained(t *testing.T) {
	t.Parallel()
	d := openGolden(t, "maintained.anndb.gz", maintainedGolden, nil)
	defer d.Close()
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	err := d.View(func(s *Snapshot) error {
		refs := []*layout.IndexRef{s.gen.Collections["dense"].Entry.Index("x"), s.gen.Collections["sparse"].Entry.Index("x")}
		for _, r := range refs {
			if len(r.Parts) == 0 {
				return fmt.Errorf("index has no parts: %+v", r)
			}
		}
		for i := range 110 {
			q := goldenVector(i, 6, 0.5)
			var hits [2][]Hit
			for j, o := range []*SearchOptions{{Index: Flat}, {Params: &query.Params{Method: query.Lookup, Extra: 28, NoWiden: true}}} {
				var err error
				if hits[j], _, err = nearest(ctx, s.Collection("dense"), Query{Vector: q}, 9, o); err != nil {
					return err
				}
			}
			if !slices.EqualFunc(hits[0], hits[1], func(a, b Hit) bool { return a.Row == b.Row && a.Distance == b.Distance }) {
				t.Fatalf("row %d: %v by scan, %v by the forest", i, hits[0], hits[1])
			}
			for j, o := range []*SearchOptions{{Index: Flat}, {}} {
				var err error
				q := Query{Sparse: vector.Sparse{Index: []uint32{uint32(i % 5), 5 + uint32(i%7)}, Value: []float32{1, 2}}}
				if hits[j], _, err = nearest(ctx, s.Collection("sparse"), q, 9, o); err != nil {
					return err
				}
			}
			if !slices.EqualFunc(hits[0], hits[1], func(a, b Hit) bool {
				return a.Row == b.Row && math.Abs(float64(a.Distance-b.Distance)) < 1e-6
			}) {
				t.Fatalf("row %d: %v by scan, %v by the inverted index", i, hits[0], hits[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// And it goes on: what is fresh can be folded in.
	err = d.Update(ctx, func(b *Tx) error {
		return b.Collection("dense").Put(Row{Key: []byte("more"), Vector: goldenVector(3, 6, 0)})
	})
	steps, err2 := d.Maintain(ctx, 0, nil)
	if err := errors.Join(err, err2, mustCheck(d)); err != nil || len(steps) != 1 || steps[0].Action != "insert" {
		t.Errorf("steps %v, %v", steps, err)
	}
}
