package db_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/text"
)

// TestPairs compares searches with pairs of words with BM25 over words and frequent pairs.
func TestPairs(t *testing.T) {
	t.Parallel()
	const least = 6
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Text: &text.Schema{Pairs: least}}))
	rng := rand.New(rand.NewPCG(8, 9))
	phrase := func(n int) string {
		var words []string
		for range n {
			words = append(words, fmt.Sprint("w", int(rng.ExpFloat64()*6)))
		}
		return strings.Join(words, " ")
	}
	rows := map[string]string{}
	write := func(from, to int) {
		t.Helper()
		var out []db.Row
		for i := from; i < to; i++ {
			s := phrase(rng.IntN(12))
			rows[fmt.Sprint(i)] = s
			out = append(out, db.Row{Key: fmt.Append(nil, i), Text: s})
		}
		dbtest.Must(t, dbtest.Put(d, "docs", out...))
	}
	check := func(when string) {
		t.Helper()
		frequent := 0
		for range 25 {
			q := phrase(1 + rng.IntN(4))
			want := bm25(rows, q, least)
			if !maps.Equal(want, bm25(rows, q, math.MaxInt)) {
				frequent++
			}
			res, err := d.Collection("docs").Search(t.Context(), db.Query{Text: q},
				&db.SearchOptions{K: len(rows), Explain: true})
			dbtest.Must(t, err)
			if len(res.Hits) != len(want) || len(res.Stats.Unknown) > len(strings.Fields(q)) {
				t.Fatalf("%s, %q: %d hits, want %d, %q unknown", when, q, len(res.Hits), len(want),
					res.Stats.Unknown)
			}
			for _, h := range res.Hits {
				if w := want[string(h.Key)]; math.Abs(w+float64(h.Distance)) > 1e-4 ||
					math.Abs(w-h.Why.Score) > 1e-4 {
					t.Fatalf("%s, %q: row %s has %g, explained %g, want %g", when, q, h.Key, -h.Distance,
						h.Why.Score, w)
				}
			}
			if len(res.Hits) > 0 {
				like, err := d.Collection("docs").Search(t.Context(), db.Query{Key: res.Hits[0].Key},
					&db.SearchOptions{K: 5})
				dbtest.Must(t, err)
				same, err := d.Collection("docs").Search(t.Context(),
					db.Query{Text: rows[string(res.Hits[0].Key)]}, &db.SearchOptions{K: 6})
				dbtest.Must(t, err)
				same.Hits = slices.DeleteFunc(same.Hits,
					func(h db.Hit) bool { return string(h.Key) == string(res.Hits[0].Key) })
				if len(like.Hits) > 0 && like.Hits[0].Distance != same.Hits[0].Distance {
					t.Errorf("%s: like row %s: %g, its text: %g", when, res.Hits[0].Key,
						like.Hits[0].Distance, same.Hits[0].Distance)
				}
			}
		}
		if frequent == 0 {
			t.Errorf("%s: no query had a frequent pair", when)
		}
	}
	write(0, 200)
	check("scanned")
	dbtest.Builds(t, d, "docs", "words", nil)
	check("built")
	write(190, 230)
	dbtest.Must(t, dbtest.Delete(d, "docs", "3", "5", "7"))
	for _, key := range []string{"3", "5", "7"} {
		delete(rows, key)
	}
	check("changed")
	_, err := d.Maintain(t.Context(), 0, nil)
	dbtest.Must(t, err)
	check("maintained")
	dbtest.Must(t, dbtest.Check(d))

	text.Register("spaced", func(s string, emit func(text.Token)) {
		emit(text.Token{Term: "a b", End: len(s)})
	})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "spaced",
		db.Schema{Text: &text.Schema{Analyzer: "spaced", Pairs: 1}}))
	if err := dbtest.Put(d, "spaced", db.Row{Key: []byte("a"), Text: "x"}); err == nil ||
		!strings.Contains(err.Error(), "has a space") {
		t.Errorf("a term with a space: %v", err)
	}
	if err := dbtest.Create(t.Context(), d, "x", db.Schema{Text: &text.Schema{Pairs: -1}}); err == nil {
		t.Error("pairs of -1 rows")
	}
}
