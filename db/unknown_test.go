package db_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// twins holds the same rows in the collections "numbers" and "names", whose features have the same numbers.
func twins(t *testing.T, n, dim int) (*db.DB, []vector.Sparse) {
	t.Helper()
	d, rng := dbtest.OpenTemp(t, &db.Options{NoSync: true}), rand.New(rand.NewPCG(7, 9))
	rows := make([]vector.Sparse, n)
	var numbers, names []db.Row
	for i := range rows {
		rows[i] = dbtest.RandomSparse(rng, 2+rng.IntN(6), dim)
		if i == 0 { // gives every name its number
			rows[i] = dbtest.RandomSparse(rng, dim, dim)
		}
		r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", rows[i].Index[0]%4)}, Sparse: rows[i]}
		numbers = append(numbers, r)
		r.Sparse, r.Features = vector.Sparse{}, features(rows[i])
		names = append(names, r)
	}
	dbtest.Must(t, errors.Join(
		dbtest.Create(t.Context(), d, "numbers", db.Schema{Sparse: true}), dbtest.Create(t.Context(), d, "names", db.Schema{Named: true}),
		dbtest.Put(d, "numbers", numbers...), dbtest.Put(d, "names", names...),
	))
	return d, rows
}

// features gives numbered features names in the same order.
func features(s vector.Sparse) (out []vector.Feature) {
	for i, f := range s.Index {
		out = append(out, vector.Feature{Name: fmt.Sprintf("f%06d", f), Value: s.Value[i]})
	}
	return out
}

// TestUnknownFeatures: features that no row has are reported, and count in the length of queries, in named and
// numbered collections alike, whatever finds the rows or labels.
func TestUnknownFeatures(t *testing.T) {
	const n, dim = 200, 40
	d, rows := twins(t, n, dim)
	numbers, names := d.Collection("numbers"), d.Collection("names")
	only := &lcif.Params{K: 5, Alpha: 1, Beta: 1, Lambda: 0.5, Top: 4}
	models := map[string]index.Options{"plain": &index.LCIF{Params: only}, "weighs": &index.LCIF{Params: only, Weight: "tfidf"}, "tree": &index.Trees{Kind: "at"}, "linear": &index.LabelTree{}}
	for _, coll := range []string{"numbers", "names"} {
		dbtest.Builds(t, d, coll, "lists", nil)
		for name, o := range models {
			dbtest.Builds(t, d, coll, name, o)
		}
	}
	ctx, rng := t.Context(), rand.New(rand.NewPCG(3, 4))
	for range 20 {
		known := dbtest.RandomSparse(rng, 3, dim)
		q := vector.Sparse{Index: append(slices.Clone(known.Index), dim+3, dim+100), Value: append(slices.Clone(known.Value), 2, 3)}
		named := features(q)
		slices.Reverse(named)
		unknown := func(what string, byNumber, byName []string) {
			t.Helper()
			if !slices.Equal(byNumber, []string{"43", "140"}) || !slices.Equal(byName, []string{"f000043", "f000140"}) {
				t.Errorf("%s: unknown %q, %q", what, byNumber, byName)
			}
		}
		for _, o := range []db.SearchOptions{{Index: db.Flat}, {Index: "lists"}} {
			want, stats, err1 := dbtest.Nearest(ctx, numbers, db.Query{Sparse: q}, 10, &o)
			got, others, err2 := dbtest.Nearest(ctx, names, db.Query{Features: named}, 10, &o)
			dbtest.Must(t, errors.Join(err1, err2))
			unknown(o.Index, stats.Unknown, others.Unknown)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%+v: named %v, numbered %v", o, got, want)
			}
			for _, h := range want {
				if cos := vector.DotSparse(q, rows[h.Row]) / q.Norm() / rows[h.Row].Norm(); math.Abs(1-cos-float64(h.Distance)) > 1e-5 {
					t.Errorf("%+v: row %d has distance %g, want %g", o, h.Row, h.Distance, 1-cos)
				}
			}
		}
		for name := range models {
			o := &db.PredictOptions{Index: name, Top: 4}
			want, stats, err1 := dbtest.Predict(ctx, numbers, db.Query{Sparse: q}, o)
			got, others, err2 := dbtest.Predict(ctx, names, db.Query{Features: named}, o)
			both, err3 := dbtest.PredictBatch(ctx, names, []db.Query{{Features: named}, {Features: named}}, o, 1)
			dbtest.Must(t, errors.Join(err1, err2, err3))
			unknown(name, stats.Unknown, others.Unknown)
			if !slices.Equal(got, want) || !slices.Equal(both[1], want) {
				t.Errorf("%s: named %v, together %v, numbered %v", name, got, both[1], want)
			}
			if name == "tree" {
				continue
			}
			// Neighbors are similar to all of a query. Unknown features weigh nothing by tf-idf.
			share := 1.0
			if name == "plain" {
				share = known.Norm() / q.Norm()
			}
			if a, b := mostSimilar(t, numbers, name, known), mostSimilar(t, numbers, name, q); math.Abs(b-a*share) > 1e-5 {
				t.Errorf("%s: similarity %g with unknown features, %g without", name, b, a)
			}
		}
	}
	q := db.Query{Features: []vector.Feature{
		{Name: "word", Value: 1}, {Name: "another", Value: 2}, {Name: "zero"},
	}}
	hits, stats, err := dbtest.Nearest(ctx, names, q, 3, nil)
	if err != nil || len(hits) != 0 || !slices.Equal(stats.Unknown, []string{"another", "word"}) {
		t.Errorf("unknown features only: %d hits, unknown %q, %v", len(hits), stats.Unknown, err)
	}
}

// mostSimilar returns the similarity of the nearest of the rows that explain a prediction.
func mostSimilar(t *testing.T, c db.Collection, index string, x vector.Sparse) (best float64) {
	t.Helper()
	found, _, err := dbtest.Predict(t.Context(), c, db.Query{Sparse: x}, &db.PredictOptions{Index: index, Top: 4, Explain: true})
	dbtest.Must(t, err)
	for _, p := range found {
		near, _ := dbtest.Evidence(p.Why)
		for _, n := range near {
			best = max(best, n.Value)
		}
	}
	return best
}

// TestUnseenFeatures: features that no row has do not change the scores of labels, whatever their numbers are;
// nor do features whose rows were deleted.
func TestUnseenFeatures(t *testing.T) {
	const dim, gone, never = 12, 5, 7
	d, _ := twins(t, 0, 0)
	for _, name := range []string{"numbers", "names"} {
		var rows []db.Row
		for i := range uint32(40) {
			x := vector.Sparse{Index: []uint32{i % 4, 8 + i%4}, Value: []float32{1, 2}}
			if i < 3 {
				x = vector.Sparse{Index: []uint32{i, gone, 8}, Value: []float32{1, 1, 1}}
			}
			r := db.Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}}
			if r.Sparse = x; name == "names" {
				r.Sparse, r.Features = vector.Sparse{}, features(x)
			}
			rows = append(rows, r)
		}
		dbtest.Must(t, dbtest.Put(d, name, rows...))
		for _, weight := range []string{"none", "tfidf"} {
			dbtest.Builds(t, d, name, weight, &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5, Top: 3}, Weight: weight})
		}
		dbtest.Must(t, dbtest.Delete(d, name, "0", "1", "2"))
	}
	_, err := d.Maintain(t.Context(), 0, nil)
	dbtest.Must(t, err)
	for _, weight := range []string{"none", "tfidf"} {
		var want []db.Prediction
		for _, more := range []int{-1, gone, never, dim, dim + 100} {
			x := vector.Sparse{Index: []uint32{0, 9}, Value: []float32{1, 3}}
			if more >= 0 {
				at, _ := slices.BinarySearch(x.Index, uint32(more))
				x.Index, x.Value = slices.Insert(x.Index, at, uint32(more)), slices.Insert(x.Value, at, 4)
			}
			for name, q := range map[string]db.Query{"numbers": {Sparse: x}, "names": {Features: features(x)}} {
				got, _, err := dbtest.Predict(t.Context(), d.Collection(name), q, &db.PredictOptions{Index: weight})
				dbtest.Must(t, err)
				if want == nil {
					want = got
				}
				if len(got) != 3 || !slices.EqualFunc(got, want, func(a, b db.Prediction) bool {
					return a.Label == b.Label && math.Abs(float64(a.Score-b.Score)) < 1e-6
				}) {
					t.Errorf("%s, %s, with feature %d: %v, want %v", name, weight, more, got, want)
				}
			}
		}
	}
}
