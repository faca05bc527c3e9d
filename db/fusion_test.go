package db_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// pairs makes queries whose vector is near to that of the row with their key, and whose words are some.
func (b *textBed) pairs(n int, noise float32) (queries []db.Query, keys [][]byte) {
	rows, err := b.d.Collection("docs").MatchingKeys(b.t.Context(), nil)
	dbtest.Must(b.t, err)
	for len(keys) < n {
		key := rows[b.rng.IntN(len(rows))]
		x := slices.Clone(b.vecs[string(key)])
		if x == nil {
			continue
		}
		for i := range x {
			x[i] += noise * float32(b.rng.NormFloat64())
		}
		queries, keys = append(queries, db.Query{Vector: x, Text: b.sentence() + " w1"}), append(keys, key)
	}
	return queries, keys
}

// reciprocal is the mean reciprocal rank of the keys, of which ranks up to 10 count, as searches find them.
func (b *textBed) reciprocal(queries []db.Query, keys [][]byte, f rank.Options) (sum float64) {
	for i, q := range queries {
		res, err := b.d.Collection("docs").Search(b.t.Context(), q, &db.SearchOptions{Rank: f, Recall: 1})
		dbtest.Must(b.t, err)
		at := slices.IndexFunc(res.Hits, func(h db.Hit) bool { return string(h.Key) == string(keys[i]) })
		if at >= 0 {
			sum += 1 / float64(at+1)
		}
	}
	return sum / float64(len(keys))
}

// TestTuneFusion compares what TuneFusion measures with searches, and looks for the weight it stores.
func TestTuneFusion(t *testing.T) {
	b := newTextBed(t, db.Schema{Dim: textDim, Metric: vector.Cosine, Text: &text.Schema{}})
	b.put(400, true)
	dbtest.Builds(t, b.d, "docs", "near", &index.Forest{})
	exact := &db.SearchOptions{Recall: 1, K: 3}
	tune := func(queries []db.Query, keys [][]byte) rank.Tuning {
		done := 0
		run := &db.Run{Workers: 2, Progress: func(_ string, n, total int) {
			if done = n; total != len(keys) {
				t.Errorf("%d of %d pairs, want %d", n, total, len(keys))
			}
		}}
		got, err := b.d.Collection("docs").TuneFusion(t.Context(), queries, keys, exact, run)
		dbtest.Must(t, err)
		if done != len(keys) {
			t.Errorf("%d of %d pairs reported", done, len(keys))
		}
		parts := [2][]db.Query{}
		for _, q := range queries {
			parts[0], parts[1] = append(parts[0], db.Query{Text: q.Text}),
				append(parts[1], db.Query{Vector: q.Vector})
		}
		for what, x := range map[string][2]float64{
			"text":    {got.Text, b.reciprocal(parts[0], keys, rank.Options{})},
			"vector":  {got.Vector, b.reciprocal(parts[1], keys, rank.Options{})},
			"ranks":   {got.Ranks, b.reciprocal(queries, keys, rank.Options{Reciprocal: true})},
			"default": {got.Default, b.reciprocal(queries, keys, rank.Options{Weight: rank.DefaultWeight})},
		} {
			if math.Abs(x[0]-x[1]) > 1e-9 {
				t.Errorf("%d pairs, %s: %g, by searches %g", len(keys), what, x[0], x[1])
			}
		}
		info, err := b.d.Collection("docs").Info()
		dbtest.Must(t, err)
		if len(keys) >= 20 && info.Weight != got.Weight || got.Weight <= 0 {
			t.Errorf("weight %g, stored %g", got.Weight, info.Weight)
		}
		return got
	}
	queries, keys := b.pairs(100, 0.2)
	got := tune(queries, keys)
	best := b.reciprocal(queries, keys, rank.Options{Weight: got.Weight})
	for _, w := range []float64{0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99} {
		if x := b.reciprocal(queries, keys, rank.Options{Weight: w}); x > best+1e-9 {
			t.Errorf("weight %g has %g, and %g, which was chosen, %g", w, x, got.Weight, best)
		}
	}
	if got.Kept != "" || got.Weight <= rank.DefaultWeight || got.Tuned <= got.Default || got.Found < 90 {
		t.Errorf("%+v", got)
	}
	dbtest.Must(t, b.d.Close())
	b.open(b.d.Path())
	if x := b.reciprocal(queries, keys, rank.Options{}); math.Abs(x-best) > 1e-9 {
		t.Errorf("after reopening %g, want %g", x, best)
	}
	dbtest.Must(t, b.d.Compact(t.Context(), nil))
	info, err := b.d.Collection("docs").Info()
	dbtest.Must(t, errors.Join(err, dbtest.Create(t.Context(), b.d, "copy", info.Schema)))
	if copied, err := b.d.Collection("copy").Info(); err != nil || copied.Weight != got.Weight {
		t.Errorf("copy: weight %g, want %g: %v", copied.Weight, got.Weight, err)
	}
	// Few pairs change nothing, and pairs of which no part knows anything lead to the default.
	if few := tune(queries[:19], keys[:19]); few.Weight != got.Weight ||
		!strings.Contains(few.Kept, "19 pairs are too few") {
		t.Errorf("%+v", few)
	}
	random, _ := b.pairs(100, 100)
	if none := tune(random, keys); none.Weight != rank.DefaultWeight ||
		!strings.Contains(none.Kept, "no weight is surely better") {
		t.Errorf("%+v", none)
	}

	dbtest.Must(t, dbtest.Create(t.Context(), b.d, "texts", db.Schema{Text: &text.Schema{}}))
	one := func(q db.Query) []db.Query { return []db.Query{queries[0], q} }
	for want, c := range map[string]struct {
		coll    string
		queries []db.Query
		keys    [][]byte
		is      error
	}{
		"0 queries and 0 keys":             {"docs", nil, nil, db.ErrInvalid},
		"1 queries and 100 keys":           {"docs", queries[:1], keys, db.ErrInvalid},
		`the rows of "texts" have one`:     {"texts", queries, keys, db.ErrInvalid},
		"query 1: invalid option: it has ": {"docs", one(db.Query{Text: "a"}), keys[:2], db.ErrInvalid},
		"query 1: no such row": {"docs", queries[:2], [][]byte{keys[0], []byte("nowhere")},
			db.ErrNotFound},
		"neither a vector nor": {"docs", one(db.Query{}), keys[:2], db.ErrInvalid},
	} {
		_, err := b.d.Collection(c.coll).TuneFusion(t.Context(), c.queries, c.keys, nil, nil)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for want, s := range map[string]db.Schema{
		"weight 1 of the vector":  {Dim: 2, Sparse: true, Weight: 1},
		"rows that have one part": {Dim: 2, Weight: 0.5},
	} {
		if _, err := b.d.Create(t.Context(), "bad", s); !errors.Is(err, db.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
