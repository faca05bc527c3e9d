package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/query/lcif"
)

// TestMaintainPostings mixes puts, updates, deletes, maintenance and reopening
// at random. After every maintenance the index covers all rows, and its answers
// are those of a new one, bit for bit, filtered or not.
func TestMaintainPostings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		runs++
		path := filepath.Join(dir, fmt.Sprint(runs))
		open := func() *DB {
			d, err := Open(ctx, path, &Options{NoSync: true})
			must(t, err)
			return d
		}
		d := open()
		defer func() { _ = d.Close(); _ = os.Remove(path) }()
		must(t, create(ctx, d, "s", Schema{Sparse: true}))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		width := rapid.SampledFrom([]int{40, 400}).Draw(t, "width")
		put := func(n, keys int) {
			must(t, d.Update(ctx, func(b *Tx) error {
				for _, k := range rng.Perm(keys)[:min(n, keys)] {
					x := randomSparse(rng, rng.IntN(12), width)
					if err := b.Collection("s").Put(Row{Key: fmt.Append(nil, k), Sparse: x}); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		o := &Postings{}
		put(rng.IntN(150)+1, 150)
		_, err := d.Collection("s").Build(ctx, "kept", o, nil)
		must(t, err)
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			width += rng.IntN(20) // features that the index does not know
			switch rng.IntN(3) {
			case 0:
				put(rng.IntN(80)+1, 250)
			case 1:
				put(rng.IntN(10)+1, 5000)
			}
			must(t, d.Update(ctx, func(b *Tx) error {
				for _, k := range rng.Perm(250)[:rng.IntN(80)] {
					if err := b.Collection("s").Delete(fmt.Append(nil, k)); err != nil {
						return err
					}
				}
				return nil
			}))
			if rng.IntN(4) == 0 {
				must(t, d.Close())
				d = open()
			}
			put(1, 2) // so that rows are left
			_, err := d.Maintain(ctx, 0, nil)
			must(t, err)
			_, err = d.Collection("s").Build(ctx, "fresh", o, nil)
			must(t, err)
			must(t, d.View(func(s *Snapshot) error {
				sameAnswers(ctx, t, s, rng, width)
				info, err := s.Collection("s").Index("kept")
				if c, _ := s.Collection("s").Info(); info.Rows != c.Rows {
					t.Fatalf("index covers %d of %d rows", info.Rows, c.Rows)
				}
				return err
			}))
			if again, err := d.Maintain(ctx, 0, nil); err != nil || len(again) > 0 {
				t.Fatalf("maintenance at once again: %v, %v", again, err)
			}
		}
		must(t, d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil))
		// What is no longer part of an index is gone.
		must(t, d.View(func(s *Snapshot) error {
			held := map[uint64]bool{0: true, s.gen.Catalog.Collections[0].ID: true}
			for _, r := range s.gen.Catalog.Collections[0].Indexes {
				for _, object := range r.Objects() {
					held[object] = true
				}
			}
			for _, bucket := range [][]byte{layout.BucketBlocks, layout.BucketMeta} {
				c := s.gen.Tx.Bucket(bucket).Cursor()
				for k, _ := c.First(); k != nil; k, _ = c.Next() {
					if object, kind, chunk := codec.ParseKey(k); !held[object] {
						t.Fatalf("%s holds %v %d of object %d, which nothing uses", bucket, kind, chunk, object)
					}
				}
			}
			return nil
		}))
	})
}

// sameAnswers compares the answers of the indexes "kept" and "fresh".
func sameAnswers(ctx context.Context, t *rapid.T, s *Snapshot, rng *rand.Rand, width int) {
	c, err := s.Collection("s").Info()
	must(t, err)
	filter := roaring.New()
	for row := range uint32(c.Rows) {
		if rng.IntN(3) > 0 {
			filter.Add(row)
		}
	}
	filtered, err := s.Collection("s").RowFilter(filter)
	must(t, err)
	for range 3 {
		q := Query{Sparse: randomSparse(rng, 1+rng.IntN(12), width)}
		k := 1 + rng.IntN(30)
		for _, f := range []*Filter{nil, filtered} {
			var hits [2][]Hit
			for i, name := range []string{"kept", "fresh"} {
				o := &SearchOptions{Index: name, Where: f}
				if hits[i], _, err = nearest(ctx, s.Collection("s"), q, k, o); err != nil {
					t.Fatal(err)
				}
			}
			same := slices.EqualFunc(hits[0], hits[1], func(a, b Hit) bool {
				return a.Row == b.Row && bytes.Equal(a.Key, b.Key) && math.Float32bits(a.Distance) == math.Float32bits(b.Distance)
			})
			if !same {
				t.Fatalf("%d hits of the maintained index differ from %d of a fresh one:\n%v\n%v", len(hits[0]), len(hits[1]), hits[0], hits[1])
			}
		}
	}
}

// TestMaintainLabels changes the rows under label models and maintains them:
// they predict what new models with the same parameters do, bit for bit,
// unless weights of features stay those that were learned.
func TestMaintainLabels(t *testing.T) {
	t.Parallel()
	for _, weight := range []string{"none", "tfidf"} {
		ctx := t.Context()
		d, rows, queries, _ := topicDB(t, false)
		o := map[string]IndexOptions{
			"lcif": &LCIF{Weight: weight, Params: &lcif.Params{K: 10, Alpha: 1, Beta: 1, Lambda: 0.5}},
		}
		for name, o := range o {
			if _, err := d.Collection("docs").Build(ctx, name, o, nil); err != nil {
				t.Fatal(err)
			}
		}
		rng := rand.New(rand.NewPCG(5, 6))
		err := d.Update(ctx, func(b *Tx) error {
			for i := range 40 {
				x, names := topicRow(rng, 9)
				if err := b.Collection("docs").Put(Row{Key: fmt.Append(nil, "more", i), Sparse: x, Labels: append(names, fmt.Sprint("new ", i%3))}); err != nil {
					return err
				}
			}
			for i := range 30 {
				if err := b.Collection("docs").Delete(rows[i].Key); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
		// A change below the share is left alone.
		if steps, err := d.Maintain(ctx, 0.9, nil); err != nil || len(steps) != 0 {
			t.Errorf("steps %v, %v", steps, err)
		}
		steps, err := d.Maintain(ctx, 0, nil)
		if err != nil || len(steps) != len(o) {
			t.Fatalf("steps %v, %v", steps, err)
		}
		for name, o := range o {
			if o, ok := o.(*LCIF); ok && o.Weight != "none" {
				continue
			}
			if _, err := d.Collection("docs").Build(ctx, name+" rebuilt", o, nil); err != nil {
				t.Fatal(err)
			}
			err := d.View(func(s *Snapshot) error {
				for i, q := range queries {
					got, _, err1 := predict(ctx, s.Collection("docs"), q, &PredictOptions{Index: name, Top: 5})
					want, _, err2 := predict(ctx, s.Collection("docs"), q, &PredictOptions{Index: name + " rebuilt", Top: 5})
					if err := errors.Join(err1, err2); err != nil {
						return err
					}
					if !slices.EqualFunc(got, want, func(a, b Prediction) bool { return a.Label == b.Label && a.Score == b.Score }) {
						t.Errorf("%s, query %d: %v, rebuilt %v", name, i, got, want)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		if err := d.Check(ctx, func(p *CorruptError) { t.Log(p) }, nil); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
