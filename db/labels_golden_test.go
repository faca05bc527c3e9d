package db

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// putLabelled writes rows of the collections of that golden file, one of counts
// and one dense; later rows bring features and labels.
func putLabelled(d *DB, from, to int) error {
	return d.Update(context.Background(), func(b *Tx) error {
		for i := from; i < to; i++ {
			r := Row{Key: fmt.Appendf(nil, "key-%d", i), Labels: []string{fmt.Sprint("l", 9-i%3), fmt.Sprint("m", i/40)}}
			dense := r
			dense.Vector = make([]float32, 9)
			for f := range 9 {
				if (i*i+f*i+f*f)%4 != 0 {
					dense.Vector[f] = float32(1 + (i+f)%3)
					r.Sparse.Index = append(r.Sparse.Index, uint32(f+i/40))
					r.Sparse.Value = append(r.Sparse.Value, dense.Vector[f])
				}
			}
			if err := errors.Join(b.Collection("counts").Put(r), b.Collection("dense").Put(dense)); err != nil {
				return err
			}
		}
		return nil
	})
}

// labelsGolden makes a database of label models that have followed changes: in
// segments, with changed pairs beside the others, with rows and labels that came
// and went, weighed and plain, sparse and dense.
func labelsGolden(path string) (err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	build := func(coll, name string, o LCIF) func() error {
		o.Params = &lcif.Params{K: 4, Lambda: 0.4, Beta: 1.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}
		return func() error {
			_, err := d.Collection(coll).Build(ctx, name, &o, nil)
			return err
		}
	}
	maintain := func() error { _, err := d.Maintain(ctx, 0, nil); return err }
	return errorsOf(
		func() error { return create(ctx, d, "counts", Schema{Sparse: true}) },
		func() error { return create(ctx, d, "dense", Schema{Dim: 9}) },
		func() error { return putLabelled(d, 0, 120) },
		build("counts", "plain", LCIF{}),
		build("counts", "weighed", LCIF{Weight: "tfidf"}),
		build("dense", "plain", LCIF{Neighbors: Flat}),
		func() error { return putLabelled(d, 117, 124) },
		maintain,
		func() error { return putLabelled(d, 2, 3) },
		maintain,
		func() error { return d.Compact(ctx, nil) },
	)
}

// TestGoldenLabels opens the golden file of label models that have followed
// changes, which is written as the other ones are: their sums are those of the
// rows, the plain ones predict what models relearned do, and all follow on.
func TestGoldenLabels(t *testing.T) {
	d := openGolden(t, "labels.anndb.gz", labelsGolden, nil)
	defer d.Close()
	ctx := t.Context()
	compare := func(coll string) error {
		o := &LCIF{Neighbors: Flat, Params: &lcif.Params{
			K: 4, Lambda: 0.4, Beta: 1.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true},
		}}
		if coll == "counts" {
			o.Neighbors = ""
		}
		if _, err := d.Collection(coll).Build(ctx, "fresh", o, nil); err != nil {
			return err
		}
		err := d.View(func(s *Snapshot) error {
			for i := range 20 {
				q := Query{Sparse: vector.Sparse{Index: []uint32{uint32(i % 7), 7, 8}, Value: []float32{3, 1, 2}}}
				if coll == "dense" {
					q = Query{Vector: []float32{1, 0, 2, 0, float32(i), 1, 0, 0, 1}}
				}
				got, _, err1 := predict(ctx, s.Collection(coll), q, &PredictOptions{Index: "plain"})
				want, _, err2 := predict(ctx, s.Collection(coll), q, &PredictOptions{Index: "fresh"})
				if err := errors.Join(err1, err2); err != nil {
					return err
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, query %d: %v, by a new model %v", coll, i, got, want)
				}
			}
			st := s.gen.Collections[coll]
			for _, r := range st.Entry.Indexes {
				m, err := st.ManifestOf(&r)
				if err != nil {
					return err
				}
				a, err := lcifindex.ReadArrays(context.Background(), st, m)
				if err != nil {
					return err
				}
				if len(r.Parts) == 0 && r.Name != "fresh" {
					t.Errorf("%s, %s: index of one part", coll, r.Name)
				}
				_, counts, names, err := inMemory(ctx, st, a, m)
				if err := errors.Join(err, samePairs(a, m, counts, names)); err != nil {
					return fmt.Errorf("%s: %w", r.Name, err)
				}
			}
			return nil
		})
		return errors.Join(err, d.Collection(coll).DropIndex(ctx, "fresh"))
	}
	if err := errors.Join(mustCheck(d), compare("counts"), compare("dense")); err != nil {
		t.Error(err)
	}
	must(t, putLabelled(d, 123, 126))
	steps, err := d.Maintain(ctx, 0, nil)
	if err != nil || len(steps) != 3 || slices.ContainsFunc(steps, func(s MaintainStep) bool { return s.Action == "relearn" }) {
		t.Fatalf("steps %v, %v", steps, err)
	}
	if err := errors.Join(mustCheck(d), compare("counts"), compare("dense")); err != nil {
		t.Error(err)
	}
}
