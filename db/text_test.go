package db_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/db/rescue"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// textBed is a collection of texts, some with vectors, and an account of its rows.
type textBed struct {
	t     *testing.T
	d     *db.DB
	rng   *rand.Rand
	texts map[string]string
	vecs  map[string][]float32
	row   map[string]uint32
	next  uint32
}

const textDim = 4

func newTextBed(t *testing.T, schema db.Schema) *textBed {
	b := &textBed{t: t, rng: rand.New(rand.NewPCG(1, 2)), texts: map[string]string{}, vecs: map[string][]float32{},
		row: map[string]uint32{}}
	b.open(filepath.Join(t.TempDir(), "t.anndb"))
	dbtest.Must(t, dbtest.Create(t.Context(), b.d, "docs", schema))
	t.Cleanup(func() { dbtest.Must(t, dbtest.Closed(b.d, dbtest.Check(b.d), dbtest.LeavesNothing(b.d))) })
	return b
}

func (b *textBed) open(path string) {
	d, err := dbtest.Open(b.t.Context(), path, &db.Options{NoSync: true})
	dbtest.Must(b.t, err)
	b.d = d
}

// sentence draws words of which some are frequent.
func (b *textBed) sentence() string {
	var out []string
	for range b.rng.IntN(12) {
		out = append(out, fmt.Sprint("w", int(math.Pow(40, b.rng.Float64()))))
	}
	return strings.Join(out, " ")
}

func (b *textBed) vector() []float32 { return normal(b.rng, textDim) }

// normal draws a vector of normally distributed coordinates.
func normal(rng *rand.Rand, dim int) []float32 {
	x := make([]float32, dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// labelOf returns the label of the row with a key.
func labelOf(key string) string { return fmt.Sprint("l", len(key)%2, key[len(key)-1]%3) }

func (b *textBed) put(n int, vectors bool) {
	var rows []db.Row
	for range n {
		key := fmt.Sprint("k", b.rng.IntN(900))
		r := db.Row{Key: []byte(key), Text: b.sentence(), Labels: []string{labelOf(key)}}
		if vectors && (b.rng.IntN(3) > 0 || r.Text == "") {
			r.Vector = b.vector()
		}
		if vectors && b.rng.IntN(4) == 0 && r.Vector != nil {
			r.Text = ""
		}
		if len(rows) > 0 && b.rng.IntN(5) == 0 { // a tie
			r.Text, r.Vector = rows[len(rows)-1].Text, rows[len(rows)-1].Vector
		}
		if slices.ContainsFunc(rows, func(x db.Row) bool { return string(x.Key) == key }) {
			continue
		}
		b.texts[key], b.vecs[key], b.row[key] = r.Text, r.Vector, b.next
		b.next++
		rows = append(rows, r)
	}
	dbtest.Must(b.t, dbtest.Put(b.d, "docs", rows...))
}

func (b *textBed) remove(n int) {
	keys := slices.Sorted(maps.Keys(b.texts))
	b.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:min(n, len(keys))]
	for _, key := range keys {
		delete(b.texts, key)
		delete(b.vecs, key)
	}
	dbtest.Must(b.t, dbtest.Delete(b.d, "docs", keys...))
}

// scored is a row and its score by definition.
type scored struct {
	key   string
	score float64
}

// countsOf counts words.
func countsOf(words []string) map[string]float64 {
	out := map[string]float64{}
	for _, w := range words {
		out[w]++
	}
	return out
}

// bm25 scores texts by the definition. Pairs of words are terms, too, if leastPairs is above zero, and those
// count that at least so many texts have.
func bm25(texts map[string]string, query string, leastPairs int) map[string]float64 {
	const k1, b = 1.2, 0.75
	terms := func(s string) map[string]float64 {
		words := strings.Fields(s)
		for i, w := range words {
			if i > 0 && leastPairs > 0 {
				words = append(words, words[i-1]+" "+w)
			}
		}
		return countsOf(words)
	}
	counts, have, total := map[string]map[string]float64{}, map[string]float64{}, 0.0
	for key, s := range texts {
		c := terms(s)
		for w, times := range c {
			have[w]++
			total += times
		}
		if len(c) > 0 {
			counts[key] = c
		}
	}
	n, queried := float64(len(counts)), terms(query)
	out := map[string]float64{}
	for key, c := range counts {
		length := 0.0
		for _, times := range c {
			length += times
		}
		for _, w := range slices.Sorted(maps.Keys(queried)) {
			if c[w] == 0 || strings.Contains(w, " ") && have[w] < float64(leastPairs) {
				continue
			}
			idf := float64(float32(queried[w]) * float32(math.Log1p((n-have[w]+0.5)/(have[w]+0.5))))
			out[key] += idf * c[w] * (k1 + 1) / (c[w] + k1*(1-b+b*length/(total/n)))
		}
	}
	return out
}

// bm25 scores the live rows by the definition, the best first.
func (b *textBed) bm25(query string) (out []scored) {
	for key, score := range bm25(b.texts, query, 0) {
		out = append(out, scored{key, score})
	}
	return b.sorted(out)
}

func (b *textBed) sorted(all []scored) []scored {
	slices.SortFunc(all, func(x, y scored) int {
		return cmp.Or(cmp.Compare(float32(y.score), float32(x.score)), cmp.Compare(b.row[x.key], b.row[y.key]))
	})
	return all
}

// same compares hits with what is wanted; scores may differ in the last bits, since the reference adds in any order.
func (b *textBed) same(what string, hits []db.Hit, want []scored, k int) {
	b.t.Helper()
	scores := map[string]float64{}
	for _, s := range want {
		scores[s.key] = s.score
	}
	want = want[:min(k, len(want))]
	if len(hits) != len(want) {
		b.t.Fatalf("%s: %d hits, want %d", what, len(hits), len(want))
	}
	for i, h := range hits {
		score := -float64(h.Distance)
		if math.Abs(score-want[i].score) > 1e-5*(1+score) {
			b.t.Fatalf("%s: hit %d is %s of %g, want %s of %g", what, i, h.Key, score, want[i].key, want[i].score)
		}
		own, found := scores[string(h.Key)]
		if !found || math.Abs(score-own) > 1e-5*(1+math.Abs(score)) {
			b.t.Fatalf("%s: hit %d is %s of %g, whose score is %g, or which was a hit before", what, i, h.Key, score, own)
		}
		delete(scores, string(h.Key))
		if i > 0 && h.Distance == hits[i-1].Distance && h.Row < hits[i-1].Row {
			b.t.Fatalf("%s: hits %d and %d are equal and not in the order of their rows", what, i-1, i)
		}
	}
}

// filters are those of the searches that are compared: none, and one that about a third of the rows pass.
var filters = []*filter.Filter{nil, filter.HasLabel("l01")}

// passing returns the rows that pass a filter.
func passing(all []scored, where *filter.Filter) (out []scored) {
	for _, s := range all {
		if where == nil || labelOf(s.key) == "l01" {
			out = append(out, s)
		}
	}
	return out
}

// TestBM25 compares searches of texts with the definition: scanned and indexed, with fresh and deleted rows,
// maintained, reopened, filtered, with required and excluded words and phrases.
func TestBM25(t *testing.T) {
	dbtest.Whole(t)
	b := newTextBed(t, db.Schema{Text: &text.Schema{}})
	compare := func(stage string) {
		t.Helper()
		for range 15 {
			q := b.sentence() + " w1"
			for i, k := range []int{1, 10, 2000, 1, 10, 2000} {
				where := filters[i/3]
				res, err := b.d.Collection("docs").Search(t.Context(), db.Query{Text: q}, &db.SearchOptions{
					K: k, Include: db.Text, Where: where})
				dbtest.Must(t, err)
				b.same(fmt.Sprint(stage, ", where ", where), res.Hits, passing(b.bm25(q), where), k)
				for _, h := range res.Hits {
					if h.Text != b.texts[string(h.Key)] {
						t.Fatalf("%s: text %q", h.Key, h.Text)
					}
				}
			}
		}
		for query, pass := range map[string]func(words []string) bool{
			"w1 +w2":       func(w []string) bool { return slices.Contains(w, "w2") },
			"w1 w3 -w2":    func(w []string) bool { return !slices.Contains(w, "w2") },
			`"w1 w1" w4`:   func(w []string) bool { return strings.Contains(" "+strings.Join(w, " ")+" ", " w1 w1 ") },
			`w2 -"w1 w1"`:  func(w []string) bool { return !strings.Contains(" "+strings.Join(w, " ")+" ", " w1 w1 ") },
			"+w2 +nowhere": func([]string) bool { return false },
		} {
			plain := strings.NewReplacer("+", "", `"`, "").Replace(query)
			if i := strings.IndexByte(plain, '-'); i >= 0 {
				plain = plain[:i]
			}
			var want []scored
			for _, s := range b.bm25(plain) {
				if pass(strings.Fields(b.texts[s.key])) {
					want = append(want, s)
				}
			}
			res, err := b.d.Collection("docs").Search(t.Context(), db.Query{Text: query}, &db.SearchOptions{K: 20})
			dbtest.Must(t, err)
			b.same(stage+": "+query, res.Hits, want, 20)
		}
	}
	b.put(300, false)
	compare("scanned")
	dbtest.Builds(t, b.d, "docs", "words", nil)
	compare("indexed")
	old, err := b.d.Snapshot()
	dbtest.Must(t, err)
	before := b.bm25("w1 w2 w3")
	for round := range 3 {
		b.put(60, false)
		b.remove(20)
		compare("changed")
		res, err := old.Collection("docs").Search(t.Context(), db.Query{Text: "w1 w2 w3"}, &db.SearchOptions{K: 2000})
		dbtest.Must(t, err)
		b.same("an old snapshot", res.Hits, before, 2000)
		_, err = b.d.Maintain(t.Context(), 0, nil)
		dbtest.Must(t, err)
		if round == 1 {
			old.Release()
			dbtest.Must(t, b.d.Close())
			b.open(b.d.Path())
			old, err = b.d.Snapshot()
			dbtest.Must(t, err)
			before = b.bm25("w1 w2 w3")
		}
		compare("maintained")
	}
	old.Release()
	for key, want := range b.texts {
		r, err := b.d.Collection("docs").Get([]byte(key))
		if err != nil || r.Text != want || r.Features != nil {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// TestFusion compares searches by vector and text with the definition of both fusions.
func TestFusion(t *testing.T) {
	b := newTextBed(t,
		db.Schema{Dim: textDim, Metric: vector.Cosine, Text: &text.Schema{Analyzer: text.Words}})
	near := func(q []float32) []scored {
		var out []scored
		for key, x := range b.vecs {
			if x != nil {
				out = append(out, scored{key, -dbtest.Distance(vector.Cosine, q, x)})
			}
		}
		return b.sorted(out)
	}
	compare := func(stage string) {
		t.Helper()
		for i := range 10 {
			where := filters[i%2]
			stage := fmt.Sprint(stage, ", where ", where)
			q := db.Query{Text: b.sentence() + " w1", Vector: b.vector()}
			words, vectors := passing(b.bm25(q.Text), where), passing(near(q.Vector), where)
			for _, c := range []struct {
				name string
				q    db.Query
				want []scored
			}{{"text", db.Query{Text: q.Text}, words}, {"vector", db.Query{Vector: q.Vector}, vectors}} {
				res, err := b.d.Collection("docs").Search(t.Context(), c.q,
					&db.SearchOptions{K: 30, Recall: 1, Where: where})
				dbtest.Must(t, err)
				b.same(stage+": "+c.name, res.Hits, c.want, 30)
			}
			convex, ranks := map[string]float64{}, map[string]float64{}
			for i, s := range words {
				convex[s.key] += 0.7 * s.score / words[0].score
				ranks[s.key] += 1 / float64(60+i+1)
			}
			for i, s := range vectors {
				convex[s.key] += 0.3 * (s.score + 2) / (vectors[0].score + 2)
				ranks[s.key] += 1 / float64(60+i+1)
			}
			for _, f := range []struct {
				o    rank.Options
				want map[string]float64
			}{{rank.Options{Depth: 2000}, convex}, {rank.Options{Reciprocal: true, Depth: 2000}, ranks}} {
				var want []scored
				for key, s := range f.want {
					want = append(want, scored{key, s})
				}
				res, err := b.d.Collection("docs").Search(t.Context(), q, &db.SearchOptions{
					K: 40, Recall: 1, Rank: f.o, Explain: true, Where: where})
				dbtest.Must(t, err)
				b.same(fmt.Sprintf("%s: %+v", stage, f.o), res.Hits, b.sorted(want), 40)
				// By the indexes, with the recall of the default, the distances are those of the rows.
				plain, err := b.d.Collection("docs").Search(t.Context(), q, &db.SearchOptions{
					K: 40, Rank: f.o, Where: where})
				dbtest.Must(t, err)
				for _, h := range plain.Hits {
					x := b.vecs[string(h.Key)]
					if x == nil {
						continue
					}
					want := dbtest.Distance(vector.Cosine, q.Vector, x)
					if math.Abs(float64(h.Places.Distance)-want) > 1e-5 {
						t.Fatalf("%s: %s at distance %g", stage, h.Key, h.Places.Distance)
					}
				}
				for _, h := range res.Hits {
					if h.Places == nil || h.Why == nil || h.Places.TextRank == 0 && h.Places.VectorRank == 0 {
						t.Fatalf("%s: places %+v, %v", h.Key, h.Places, h.Why)
					}
				}
			}
		}
	}
	b.put(400, true)
	compare("scanned")
	dbtest.Builds(t, b.d, "docs", "near", &index.Forest{})
	dbtest.Builds(t, b.d, "docs", "words", &index.Postings{})
	compare("indexed")
	for range 2 {
		b.put(80, true)
		b.remove(30)
		compare("changed")
		_, err := b.d.Maintain(t.Context(), 0, nil)
		dbtest.Must(t, err)
		compare("maintained")
	}
	dbtest.Must(t, b.d.Close())
	b.open(b.d.Path())
	compare("reopened")
	b.remove(len(b.texts) / 2)
	dbtest.Must(t, b.d.Compact(t.Context(), nil))
	compare("compacted")
	dbtest.Must(t, b.d.Close())
	copied := filepath.Join(t.TempDir(), "copy.anndb")
	_, err := rescue.Salvage(t.Context(), b.d.Path(), copied, nil)
	dbtest.Must(t, err)
	b.open(copied)
	compare("salvaged")
}

// TestBadTexts: what no collection of texts can keep or look for is one clear error, and nothing is lost.
func TestBadTexts(t *testing.T) {
	b := newTextBed(t, db.Schema{Dim: textDim, Text: &text.Schema{Analyzer: text.English}})
	put := func(r db.Row) error { return dbtest.Put(b.d, "docs", db.Row{Key: []byte("good"), Text: "kept"}, r) }
	many := make([]string, 1<<16+1)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	for want, r := range map[string]db.Row{
		"NUL":                         {Text: "a\x00b"},
		"not valid UTF-8":             {Text: "a\xffb"},
		"divide it into several rows": {Text: strings.Repeat("word ", 1<<18)},
		"65537 different terms":       {Text: strings.Join(many, " ")},
		"its features are their":      {Text: "a", Features: []vector.Feature{{Name: "a", Value: 1}}},
		"3 coordinates":               {Text: "a", Vector: []float32{1, 2, 3}},
	} {
		r.Key = []byte("bad")
		err := put(r)
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"bad"`) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if n, err := b.d.Collection("docs").Count(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	dbtest.Must(t, errors.Join(put(db.Row{Key: []byte("empty"), Vector: b.vector()}),
		put(db.Row{Key: []byte("stop"), Text: "the of"}), put(db.Row{Key: []byte("none")})))
	c := b.d.Collection("docs")
	radius := 1.0
	for want, o := range map[string]struct {
		q db.Query
		o db.SearchOptions
	}{
		"only excluded words":  {db.Query{Text: "-x"}, db.SearchOptions{}},
		"NUL":                  {db.Query{Text: "a\x00"}, db.SearchOptions{}},
		"neither a vector nor": {db.Query{}, db.SearchOptions{}},
		"their distances":      {db.Query{Text: "a", Vector: b.vector()}, db.SearchOptions{Radius: &radius}},
		"weight 2":             {db.Query{Text: "a"}, db.SearchOptions{Rank: rank.Options{Weight: 2}}},
		"depth -1":             {db.Query{Text: "a"}, db.SearchOptions{Rank: rank.Options{Depth: -1}}},
		"by ranks": {db.Query{Text: "a"}, db.SearchOptions{
			Rank: rank.Options{Weight: 0.5, Reciprocal: true},
		}},
	} {
		if _, err := c.Search(t.Context(), o.q, &o.o); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for q, want := range map[string]int{"kept": 1, "the": 0, "nowhere": 0, "": 0} {
		if res, err := c.Search(t.Context(), db.Query{Text: q + " "}, nil); err != nil || len(res.Hits) != want {
			t.Errorf("%q: %d hits, %v", q, len(res.Hits), err)
		}
	}
}

// TestTextsByKey: a stored row is looked for by the parts that it has, and is not among its own hits.
func TestTextsByKey(t *testing.T) {
	b := newTextBed(t, db.Schema{Dim: textDim, Metric: vector.Cosine, Text: &text.Schema{}})
	b.put(60, true)
	for key, x := range b.vecs {
		q := db.Query{Vector: x}
		if words := b.texts[key]; words != "" {
			q.Text = words
		}
		want, err := b.d.Collection("docs").Search(t.Context(), q, &db.SearchOptions{K: 61, Recall: 1})
		dbtest.Must(t, err)
		got, err := b.d.Collection("docs").Search(t.Context(), db.Query{Key: []byte(key)}, &db.SearchOptions{K: 60, Recall: 1})
		dbtest.Must(t, err)
		others := slices.DeleteFunc(want.Hits, func(h db.Hit) bool { return string(h.Key) == key })
		if len(got.Hits) != len(others) {
			t.Fatalf("%s: %d hits, want %d", key, len(got.Hits), len(others))
		}
		if slices.ContainsFunc(got.Hits, func(h db.Hit) bool { return string(h.Key) == key }) {
			t.Fatalf("%s is a hit of itself", key)
		}
		for i, h := range got.Hits { // of both parts the row itself was the best, by which scores are scaled
			if (q.Text == "" || x == nil) && string(h.Key) != string(others[i].Key) {
				t.Fatalf("%s: hit %d is %s, want %s", key, i, h.Key, others[i].Key)
			}
		}
	}
}
