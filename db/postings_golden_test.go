package db

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// rowlessRow is row i of the collections of that golden file: of one value
// each, or of counts.
func rowlessRow(coll string, i int) Row {
	r := Row{Key: fmt.Appendf(nil, "key-%d", i), Labels: []string{fmt.Sprint("l", i%3)}}
	for f := range uint32(40) {
		if (int(f)*int(f)+i*7+i*i)%5 == 0 {
			v := float32(2)
			if coll == "counts" {
				v = float32(1 + (i+int(f))%4)
			}
			r.Sparse.Index, r.Sparse.Value = append(r.Sparse.Index, f), append(r.Sparse.Value, v)
		}
	}
	return r
}

func putRowless(d *DB, coll string, from, to int) error {
	return d.Update(context.Background(), func(b *Tx) error {
		for i := from; i < to; i++ {
			if err := b.Collection(coll).Put(rowlessRow(coll, i)); err != nil {
				return err
			}
		}
		return nil
	})
}

// learnRowless learns the label model of the counts, which weighs and thins rows.
func learnRowless(d *DB) error {
	model := &LCIF{Weight: "tfidf", Params: &lcif.Params{
		K: 4, Lambda: 0.5, Beta: 2, Features: 30, Thresholds: &labels.Thresholds{Single: 0.2, KeepTop: true},
	}}
	_, err := d.Collection("counts").Build(context.Background(), "labels", model, nil)
	return err
}

// deleteRowless deletes a row of the counts.
func deleteRowless(d *DB) error {
	return d.Update(context.Background(), func(b *Tx) error { return b.Collection("counts").Delete([]byte("key-3")) })
}

// rowlessSealed is how many rows of the counts the first segment has, rowlessRows
// how many there are.
const (
	rowlessSealed = 1<<rows.SparseShift + 20
	rowlessRows   = rowlessSealed + 10
)

// rowlessGolden makes a database whose inverted indexes have no rows of their
// own: of rows of one value and of several, one in segments, one weighed and
// thinned, with sealed rows and others.
func rowlessGolden(path string) (err error) {
	ctx := context.Background()
	d, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	build := func(coll string, o IndexOptions) error {
		_, err := d.Collection(coll).Build(ctx, "rows", o, nil)
		return err
	}
	return errorsOf(
		func() error { return create(ctx, d, "binary", Schema{Sparse: true}) },
		func() error { return create(ctx, d, "counts", Schema{Sparse: true}) },
		func() error { return putRowless(d, "binary", 0, 50) },
		func() error { return putRowless(d, "counts", 0, rowlessSealed) },
		func() error { return deleteRowless(d) },
		func() error { return build("binary", nil) },
		func() error { return build("counts", &Postings{}) },
		func() error { return putRowless(d, "counts", rowlessSealed, rowlessRows) },
		func() error { _, err := d.Maintain(ctx, 0, nil); return err },
		func() error { return learnRowless(d) },
		func() error { return d.Compact(ctx, nil) },
	)
}

// TestGoldenRowless opens the golden file of inverted indexes without rows,
// which is written as the other ones are: the lists answer as a scan
// does, bit for bit, and the label model as one relearned, but for rounding.
func TestGoldenRowless(t *testing.T) {
	d := openGolden(t, "postings.anndb.gz", rowlessGolden, nil)
	defer d.Close()
	if err := mustCheck(d); err != nil {
		t.Error(err)
	}
	ctx := t.Context()
	ask := func(s *Snapshot, coll string, i int, o SearchOptions) []Hit {
		t.Helper()
		hits, _, err := nearest(ctx, s.Collection(coll), Query{Sparse: rowlessRow("counts", i).Sparse}, 9, &o)
		must(t, err)
		return hits
	}
	same := func(a, b Hit) bool { return a.Row == b.Row && a.Distance == b.Distance }
	err := d.View(func(s *Snapshot) error {
		if parts := s.gen.Collections["counts"].Entry.Index("rows").Parts; len(parts) == 0 {
			t.Error("index of one segment")
		}
		for _, coll := range []string{"binary", "counts"} {
			for i := range 25 {
				want := ask(s, coll, i, SearchOptions{Index: Flat})
				if got := ask(s, coll, i, SearchOptions{Index: "rows"}); !slices.EqualFunc(want, got, same) {
					t.Fatalf("%s, query %d: %v, want %v", coll, i, got, want)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	rebuilt, err := Open(ctx, filepath.Join(t.TempDir(), "new.anndb"), nil)
	must(t, err)
	defer rebuilt.Close()
	err = errorsOf(
		func() error { return create(ctx, rebuilt, "counts", Schema{Sparse: true}) },
		func() error { return putRowless(rebuilt, "counts", 0, rowlessRows) },
		func() error { return deleteRowless(rebuilt) },
		func() error { return learnRowless(rebuilt) },
	)
	must(t, err)
	compare := func() {
		t.Helper()
		for i := range 20 {
			q := vector.Sparse{Index: []uint32{uint32(i), 25, 39}, Value: []float32{3, 1, 2}}
			if got, want := predictCounts(t, d, q), predictCounts(t, rebuilt, q); !slices.EqualFunc(got, want, nearPrediction) {
				t.Errorf("query %d: %s, by a new model %s", i, predictionsText(got), predictionsText(want))
			}
		}
	}
	compare()
	// The model follows further changes, with the weights that features had.
	err = putRowless(d, "counts", rowlessRows, rowlessRows+3)
	steps, err2 := d.Maintain(ctx, 0, nil)
	must(t, errors.Join(err, err2, mustCheck(d)))
	if !slices.ContainsFunc(steps, func(s MaintainStep) bool { return s.Index == "labels" && s.Action != "relearn" }) {
		t.Errorf("steps %v", steps)
	}
}

// predictCounts explains the three best labels of a query.
func predictCounts(t *testing.T, d *DB, q vector.Sparse) (out []Prediction) {
	err := d.View(func(s *Snapshot) (err error) {
		out, _, err = predict(t.Context(), s.Collection("counts"), Query{Sparse: q}, &PredictOptions{Top: 3, Explain: true})
		return err
	})
	must(t, err)
	return out
}

// nearPrediction says whether predictions are the same but for the rounding of
// feature–label similarities, which models of later versions round elsewhere.
func nearPrediction(a, b Prediction) bool {
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-7 }
	rows, features := evidence(a.Why)
	otherRows, otherFeatures := evidence(b.Why)
	return a.Label == b.Label && a.Predicted == b.Predicted && near(float64(a.Score), float64(b.Score)) &&
		slices.EqualFunc(rows, otherRows, func(x, y Reason) bool { return x.Text == y.Text && x.Score == y.Score }) &&
		slices.EqualFunc(features, otherFeatures, func(x, y Reason) bool { return x.Feature == y.Feature && near(x.Score, y.Score) })
}
