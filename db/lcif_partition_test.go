package db

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
)

// TestLCIFPartition builds a label model with a partition and maintains it: all
// strategies predict the same, in one segment and in several, and say which they
// are.
func TestLCIFPartition(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	p := &lcif.Params{K: 5, Lambda: 0.5, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true}}
	build := func(name string, o Postings) error {
		_, err := d.Collection("counts").Build(ctx, name, &LCIF{Params: p, Postings: o}, nil)
		return err
	}
	err = errorsOf(
		func() error { return create(ctx, d, "counts", Schema{Sparse: true}) },
		func() error { return putRowless(d, "counts", 0, 300) },
		func() error { return build("parted", Postings{Partition: true, M: 2}) },
		func() error { return build("plain", Postings{}) },
	)
	must(t, err)
	compare := func(segments int) {
		t.Helper()
		err := d.View(func(s *Snapshot) error {
			st := s.gen.Collections["counts"]
			x, err := st.OpenIndex(ctx, st.Entry.Index("parted"))
			if err != nil {
				return err
			}
			if n := x.Manifest.Own.SegmentCount(); n != segments {
				t.Errorf("%d segments, want %d", n, segments)
			}
			for i := range 12 {
				q := Query{Sparse: rowlessRow("counts", i).Sparse}
				if q.Sparse.Len() == 0 {
					continue // such rows have no neighbors
				}
				want, _, err := predict(ctx, s.Collection("counts"), q, &PredictOptions{Index: "plain", Top: 5, Explain: true})
				if err != nil {
					return err
				}
				for _, strategy := range []postings.Strategy{postings.Auto, postings.Partitioned, postings.Compact, postings.Union} {
					o := PredictOptions{Index: "parted", Top: 5, Explain: true, Strategy: strategy.String()}
					got, stats, err := predict(ctx, s.Collection("counts"), q, &o)
					if err != nil {
						return err
					}
					if strategy != postings.Auto && stats.Search.Strategy != strategy {
						t.Errorf("strategy %v searched by %v", strategy, stats.Search.Strategy)
					}
					if !slices.EqualFunc(got, want, nearPrediction) {
						t.Fatalf("query %d, %v: %s, want %s", i, strategy, predictionsText(got), predictionsText(want))
					}
				}
			}
			o := PredictOptions{Index: "parted", Top: 5}
			queries := []Query{{Sparse: rowlessRow("counts", 0).Sparse}, {Sparse: rowlessRow("counts", 3).Sparse}}
			want, err := predictBatch(ctx, s.Collection("counts"), queries, &o, 1)
			if err != nil {
				return err
			}
			o.Strategy = "partitioned"
			got, err := predictBatch(ctx, s.Collection("counts"), queries, &o, 1)
			if err != nil {
				return err
			}
			for i := range want {
				if !slices.Equal(got[i], want[i]) {
					t.Errorf("batch, query %d: %s, want %s", i, predictionsText(got[i]), predictionsText(want[i]))
				}
			}
			_, _, err = predict(ctx, s.Collection("counts"), queries[0], &PredictOptions{Index: "plain", Strategy: "partitioned"})
			if !errors.Is(err, fail.Option) {
				t.Errorf("a strategy that the model has no lists for: %v", err)
			}
			return nil
		})
		must(t, err)
	}
	compare(1)
	must(t, putRowless(d, "counts", 300, 330))
	compare(1) // with rows that the index does not cover
	if _, err := d.Maintain(ctx, 0, nil); err != nil {
		t.Fatal(err)
	}
	compare(2)
	// Rows of the second segment are among the neighbors of their own features.
	many := &PredictOptions{Index: "parted", Top: 3, Explain: true, Params: &lcif.Params{K: 60, Lambda: 1}}
	for i := 300; i < 330; i++ {
		row := rowlessRow("counts", i)
		if row.Sparse.Len() == 0 {
			continue
		}
		predicted, err := d.Collection("counts").Predict(ctx, Query{Sparse: row.Sparse}, many)
		must(t, err)
		if !slices.ContainsFunc(predicted.Labels, func(p Prediction) bool {
			near, _ := evidence(p.Why)
			return slices.ContainsFunc(near, func(n Reason) bool {
				return bytes.Equal(n.Key, row.Key)
			})
		}) {
			t.Errorf("row %d is no neighbor of itself", i)
		}
	}
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
}

// TestPartitionMisuse asks for partitions where there is no place for them.
func TestPartitionMisuse(t *testing.T) {
	ctx := t.Context()
	d, err := Open(ctx, filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	defer d.Close()
	err = errorsOf(
		func() error { return create(ctx, d, "counts", Schema{Sparse: true}) },
		func() error { return putRowless(d, "counts", 0, 30) },
		func() error { return create(ctx, d, "dense", Schema{Dim: 2}) },
		func() error {
			return d.Update(ctx, func(b *Tx) error {
				return b.Collection("dense").Put(Row{Key: []byte("a"), Vector: []float32{1, 2}, Labels: []string{"x"}})
			})
		},
	)
	must(t, err)
	model := LCIF{Params: &lcif.Params{K: 1, Lambda: 1}}
	for _, c := range []struct {
		coll string
		o    IndexOptions
	}{
		{"counts", &Postings{M: 3}},
		{"counts", &Postings{Partition: true, M: -2}},
		{"dense", &LCIF{Params: model.Params, Postings: Postings{Partition: true}}},
	} {
		if _, err := d.Collection(c.coll).Build(ctx, "x", c.o, nil); !errors.Is(err, fail.Option) {
			t.Errorf("%s, %T %+v: %v", c.coll, c.o, c.o, err)
		}
	}
	if _, err := d.Collection("dense").Build(ctx, "x", &model, nil); err != nil {
		t.Fatal(err)
	}
	err = d.View(func(s *Snapshot) error {
		_, _, err := predict(ctx, s.Collection("dense"), Query{Vector: []float32{1, 1}}, &PredictOptions{Strategy: "union"})
		return err
	})
	if !errors.Is(err, fail.Option) {
		t.Errorf("a strategy for a dense collection: %v", err)
	}
}
