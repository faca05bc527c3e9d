package db

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/vector"
)

// twins holds the same rows in the collections "numbers" and "names", whose
// features have the same numbers.
func twins(t *testing.T, n, dim int) (*DB, []vector.Sparse) {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), &Options{NoSync: true})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	for name, o := range map[string]Schema{"numbers": {Sparse: true}, "names": {Named: true}} {
		if _, err := d.Create(t.Context(), name, o); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(7, 9))
	rows := make([]vector.Sparse, n)
	err = d.Update(t.Context(), func(b *Tx) error {
		for i := range rows {
			rows[i] = randomSparse(rng, 2+rng.IntN(6), dim)
			if i == 0 { // gives every name the number that it says
				rows[i] = vector.Sparse{}
				for f := range dim {
					rows[i].Index = append(rows[i].Index, uint32(f))
					rows[i].Value = append(rows[i].Value, 1)
				}
			}
			r := Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", rows[i].Index[0]%4)}}
			r.Sparse = rows[i]
			if err := b.Collection("numbers").Put(r); err != nil {
				return err
			}
			r.Sparse, r.Features = vector.Sparse{}, features(rows[i])
			if err := b.Collection("names").Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return d, rows
}

// features gives numbered features names in the same order.
func features(s vector.Sparse) (out []Feature) {
	for i, f := range s.Index {
		out = append(out, Feature{fmt.Sprintf("f%06d", f), s.Value[i]})
	}
	return out
}

// TestUnknownFeatures: features that no row has count in the length of queries, in
// named and numbered collections alike, whatever finds the rows.
func TestUnknownFeatures(t *testing.T) {
	const n, dim = 300, 40
	d, rows := twins(t, n, dim)
	for _, coll := range []string{"numbers", "names"} {
		if _, err := d.Collection(coll).Build(t.Context(), "lists", &Postings{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		q := randomSparse(rng, 3, dim)
		q.Index = append(q.Index, dim+3, dim+100)
		q.Value = append(q.Value, 2, 3)
		norm := q.Norm()
		err := d.View(func(s *Snapshot) error {
			for _, o := range []SearchOptions{{Index: Flat}, {Index: "lists"}} {
				want, stats, err := nearest(t.Context(), s.Collection("numbers"), Query{Sparse: q}, 10, &o)
				if err != nil {
					return err
				}
				if !slices.Equal(stats.Unknown, []string{"43", "140"}) {
					t.Errorf("unknown features of a numbered query: %q", stats.Unknown)
				}
				named := features(q)
				slices.Reverse(named)
				got, stats, err := nearest(t.Context(), s.Collection("names"), Query{Features: named}, 10, &o)
				if err != nil {
					return err
				}
				if !slices.Equal(stats.Unknown, []string{"f000043", "f000140"}) {
					t.Errorf("unknown features of a named query: %q", stats.Unknown)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%+v: named %v, numbered %v", o, got, want)
				}
				for _, h := range want {
					row := rows[h.Row]
					if cos := vector.DotSparse(q, row) / norm / row.Norm(); math.Abs(1-cos-float64(h.Distance)) > 1e-5 {
						t.Errorf("%+v: row %d has distance %g, want %g", o, h.Row, h.Distance, 1-cos)
					}
				}
			}
			return nil
		})
		must(t, err)
	}
}

// TestUnknownFeaturesPredict: the same of predictions, one by one and together,
// with weighed values or not: neighbours are similar to all of a query.
func TestUnknownFeaturesPredict(t *testing.T) {
	const n, dim = 120, 30
	d, _ := twins(t, n, dim)
	only := &lcif.Params{K: 5, Alpha: 1, Beta: 1, Lambda: 0.5, Top: 4}
	builds := map[string]IndexOptions{
		"plain":  &LCIF{Params: only},
		"weighs": &LCIF{Params: only, Weight: "tfidf"},
		"tree":   &Trees{Kind: "at"},
	}
	for name, o := range builds {
		for _, coll := range []string{"numbers", "names"} {
			if _, err := d.Collection(coll).Build(t.Context(), name, o, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		known := randomSparse(rng, 3, dim)
		q := vector.Sparse{
			Index: append(slices.Clone(known.Index), dim+1, dim+9), Value: append(slices.Clone(known.Value), 2, 2),
		}
		err := d.View(func(s *Snapshot) error {
			for name := range builds {
				o := &PredictOptions{Index: name, Top: 4}
				want, stats, err := predict(t.Context(), s.Collection("numbers"), Query{Sparse: q}, o)
				if err != nil {
					return err
				}
				if !slices.Equal(stats.Unknown, []string{"31", "39"}) {
					t.Errorf("%s: unknown %q", name, stats.Unknown)
				}
				asked := Query{Features: features(q)}
				got, stats, err := predict(t.Context(), s.Collection("names"), asked, o)
				if err != nil {
					return err
				}
				if !slices.Equal(stats.Unknown, []string{"f000031", "f000039"}) {
					t.Errorf("%s: unknown %q", name, stats.Unknown)
				}
				both, err := predictBatch(t.Context(), s.Collection("names"), []Query{asked, asked}, o, 1)
				if err != nil {
					return err
				}
				if !slices.Equal(got, want) || !slices.Equal(both[1], want) {
					t.Errorf("%s: named %v, together %v, numbered %v", name, got, both[1], want)
				}
				if name == "tree" {
					continue
				}
				if err := shorter(t, s, name, known, q); err != nil {
					return err
				}
			}
			return nil
		})
		must(t, err)
	}
}

// shorter checks how similar neighbours are to a query with unknown features.
func shorter(t *testing.T, s *Snapshot, index string, known, q vector.Sparse) error {
	t.Helper()
	var best [2]float64
	for i, x := range []vector.Sparse{known, q} {
		o := &PredictOptions{Index: index, Top: 4, Explain: true}
		found, _, err := predict(t.Context(), s.Collection("numbers"), Query{Sparse: x}, o)
		if err != nil {
			return err
		}
		for _, p := range found {
			near, _ := evidence(p.Why)
			for _, n := range near {
				best[i] = max(best[i], n.Value)
			}
		}
	}
	want := best[0] // unknown features weigh nothing by tf-idf
	if index == "plain" {
		want *= known.Norm() / q.Norm()
	}
	if math.Abs(best[1]-want) > 1e-5 {
		t.Errorf("%s: similarity %g with unknown features, want %g", index, best[1], want)
	}
	return nil
}

// TestUnknownFeaturesOnly: a query of unknown words has no hit and no label, and
// says why.
func TestUnknownFeaturesOnly(t *testing.T) {
	d, _ := twins(t, 20, 9)
	q := Query{Features: []Feature{{"word", 1}, {"another", 2}, {"zero", 0}}}
	err := d.View(func(s *Snapshot) error {
		hits, stats, err := nearest(t.Context(), s.Collection("names"), q, 3, nil)
		if err != nil {
			return err
		}
		want := []string{"another", "word"}
		if len(hits) != 0 || !slices.Equal(stats.Unknown, want) {
			t.Errorf("%d hits, unknown %q", len(hits), stats.Unknown)
		}
		return nil
	})
	must(t, err)
}

// TestUnseenFeaturesPredict: features that no row has do not change the scores of labels, whatever their
// numbers are; nor do features whose rows were deleted.
func TestUnseenFeaturesPredict(t *testing.T) {
	const dim, gone, never = 12, 5, 7
	d, _ := twins(t, 0, 0)
	err := d.Update(t.Context(), func(b *Tx) error {
		for i := range uint32(40) {
			x := vector.Sparse{Index: []uint32{i % 4, 8 + i%4}, Value: []float32{1, 2}}
			if i < 3 {
				x = vector.Sparse{Index: []uint32{i, gone, 8}, Value: []float32{1, 1, 1}}
			}
			r := Row{Key: fmt.Append(nil, i), Labels: []string{fmt.Sprint("l", i%3)}, Sparse: x}
			if err := b.Collection("numbers").Put(r); err != nil {
				return err
			}
			r.Sparse, r.Features = vector.Sparse{}, features(x)
			if err := b.Collection("names").Put(r); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	for _, name := range []string{"numbers", "names"} {
		for _, weight := range []string{"none", "tfidf"} {
			o := &LCIF{Params: &lcif.Params{K: 5, Lambda: 0.5, Top: 3}, Weight: weight}
			if _, err := d.Collection(name).Build(t.Context(), weight, o, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			must(t, d.Update(t.Context(), func(b *Tx) error { return b.Collection(name).Delete(fmt.Append(nil, i)) }))
		}
		if _, err := d.Maintain(t.Context(), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	known := vector.Sparse{Index: []uint32{0, 9}, Value: []float32{1, 3}}
	for _, weight := range []string{"none", "tfidf"} {
		var want []Prediction
		for i, more := range []uint32{0, gone, never, dim, dim + 100} {
			x := vector.Sparse{Index: slices.Clone(known.Index), Value: slices.Clone(known.Value)}
			if i > 0 {
				at, _ := slices.BinarySearch(x.Index, more)
				x.Index, x.Value = slices.Insert(x.Index, at, more), slices.Insert(x.Value, at, 4)
			}
			for name, q := range map[string]Query{"numbers": {Sparse: x}, "names": {Features: features(x)}} {
				err := d.View(func(s *Snapshot) error {
					o := &PredictOptions{Index: weight}
					got, _, err := predict(t.Context(), s.Collection(name), q, o)
					if err != nil {
						return err
					}
					both, err := predictBatch(t.Context(), s.Collection(name), []Query{q, q}, o, 1)
					if err != nil {
						return err
					}
					if want == nil {
						want = got
					}
					close := func(a, b Prediction) bool {
						return a.Label == b.Label && math.Abs(float64(a.Score-b.Score)) < 1e-6
					}
					if len(got) != 3 || !slices.EqualFunc(got, want, close) || !slices.EqualFunc(both[1], want, close) {
						t.Errorf("%s, %s, with feature %d: %v, together %v, want %v", name, weight, more, got, both[1], want)
					}
					return nil
				})
				must(t, err)
			}
		}
	}
}
