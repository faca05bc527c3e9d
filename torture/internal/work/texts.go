package work

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
)

// textDim is the dimension of the vectors of Both.
const textDim = 4

// words draws a text, often with a word twice.
func words(rng *rand.Rand) string {
	out := make([]string, 1+rng.IntN(12))
	for i := range out {
		out[i] = fmt.Sprint("word", rng.IntN(1+rng.IntN(30)))
	}
	return strings.Join(out, " ")
}

// textRow draws a row of Both: a text, a vector, or both.
func textRow(rng *rand.Rand) (r db.Row) {
	kind := rng.IntN(4)
	if kind > 0 {
		r.Text = words(rng)
	}
	if kind != 1 {
		r.Vector = denseVector(rng, textDim)
	}
	return r
}

// bm25 returns the distance, the score below zero, of every row with a word of the query that passes.
func (m model) bm25(query string, passes func(db.Row) bool) map[string]float64 {
	const k1, b = 1.2, 0.75
	rows, total, have := 0.0, 0.0, map[string]float64{}
	for _, r := range m.rows[Both] {
		words := strings.Fields(r.Text)
		if len(words) == 0 {
			continue
		}
		rows, total = rows+1, total+float64(len(words))
		seen := map[string]bool{}
		for _, w := range words {
			if !seen[w] {
				seen[w] = true
				have[w]++
			}
		}
	}
	out := map[string]float64{}
	for k, r := range m.rows[Both] {
		if passes != nil && !passes(r) {
			continue
		}
		words, score := strings.Fields(r.Text), 0.0
		for _, w := range strings.Fields(query) {
			n := 0.0
			for _, x := range words {
				if x == w {
					n++
				}
			}
			idf := math.Log1p((rows - have[w] + 0.5) / (have[w] + 0.5))
			score += idf * n * (k1 + 1) / (n + k1*(1-b+b*float64(len(words))/(total/rows)))
		}
		if score > 0 {
			out[k] = -score
		}
	}
	return out
}

// verifyTexts compares searches of Both by words with the definition of BM25, those by vectors with brute
// force, and asks for both and for labels.
func verifyTexts(ctx context.Context, v *db.Snapshot, m model, q db.Query) error {
	if err := verifyDense(ctx, v, m, Both, q.Vector); err != nil {
		return err
	}
	coll := v.Collection(Both)
	for _, by := range []struct {
		where  *filter.Filter
		passes func(db.Row) bool
	}{{}, {filter.HasLabel(labelNames[0]), amber}} {
		want := m.bm25(q.Text, by.passes)
		for _, k := range []int{3, len(m.rows[Both])} {
			found, err := coll.Search(ctx, db.Query{Text: q.Text}, &db.SearchOptions{K: k, Where: by.where})
			if err == nil {
				err = sameHits(found.Hits, want, k, true)
			}
			if err != nil {
				return fmt.Errorf("search of %q, k = %d: %w", q.Text, k, err)
			}
		}
	}
	if _, err := coll.Search(ctx, q, &db.SearchOptions{Index: db.Flat}); err != nil {
		return fmt.Errorf("search of %q and a vector: %w", q.Text, err)
	}
	indexes, err := coll.Indexes()
	for _, x := range indexes {
		if _, ok := x.Options.(*index.LCIF); ok && err == nil {
			_, err = coll.Predict(ctx, db.Query{Text: q.Text}, &db.PredictOptions{Index: x.Name, Top: 3})
		}
	}
	return err
}
