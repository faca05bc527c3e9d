package db_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
)

// reasonLabels are the labels of the rows of reasonsDB. Words begin with that of a row's first label.
var reasonLabels = []string{"a", "b", "c"}

// reasonText draws a text, mostly of the words of some labels.
func reasonText(r *rand.Rand, of []string) string {
	var words []string
	for range 2 + r.IntN(6) {
		first := of[r.IntN(len(of))]
		if r.IntN(4) == 0 {
			first = reasonLabels[r.IntN(3)]
		}
		words = append(words, fmt.Sprint(first, r.IntN(6)))
	}
	return strings.Join(words, " ")
}

// reasonModels are the models that reasons are checked of, by name.
var reasonModels = map[string]index.Options{
	"plain":     &index.LCIF{Params: &lcif.Params{K: 7, Lambda: 0.5, Alpha: 1.5, Beta: 0.5}, Weight: "none"},
	"second":    &index.LCIF{Params: &lcif.Params{K: 5, Lambda: 0.6, SecondOrder: 0.5}, Weight: "none"},
	"both":      &index.LCIF{Params: &lcif.Params{K: 6, Lambda: 0.7}, Neighbors: "both", VectorWeight: 0.4},
	"vector":    &index.LCIF{Params: &lcif.Params{K: 6, Lambda: 0.7}, Neighbors: "vector"},
	"tuned":     &index.LCIF{Weight: "tfidf", Folds: 3},
	"threshold": &index.LCIF{Params: &lcif.Params{K: 20, Lambda: 0.3}, Cut: &lcif.Cut{Share: 1}},
	"linear":    &index.LabelTree{},
	"at":        &index.Trees{Kind: "at", Budget: 8},
	"auto":      &index.Auto{},
}

// reasonsDB is a collection of texts with vectors and the models, to which rows were added and of which some
// were deleted and relabelled after the builds.
func reasonsDB(t *testing.T) (c db.Collection, rows map[string]db.Row) {
	d := dbtest.OpenTemp(t, &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Text: &text.Schema{}, Dim: 4}))
	r := rand.New(rand.NewPCG(3, 6))
	rows = map[string]db.Row{}
	put := func(n int) {
		for range n {
			of := slices.Clone(reasonLabels[r.IntN(3):])
			x := db.Row{Key: fmt.Append(nil, "d", len(rows)), Text: reasonText(r, of[:1])}
			x.Labels = of[:1+r.IntN(len(of))]
			if r.IntN(5) > 0 {
				x.Vector = []float32{float32(len(of)), r.Float32(), r.Float32(), 1}
			}
			if r.IntN(3) == 0 {
				x.Attributes = map[string]any{"title": fmt.Sprint("Title of ", len(rows))}
			}
			rows[string(x.Key)] = x
			dbtest.Must(t, dbtest.Put(d, "docs", x))
		}
	}
	put(150)
	for name, o := range reasonModels {
		dbtest.Builds(t, d, "docs", name, o)
	}
	put(20)
	for _, key := range []string{"d3", "d77", "d160"} {
		delete(rows, key)
		dbtest.Must(t, dbtest.Delete(d, "docs", key))
	}
	return d.Collection("docs"), rows
}

// checker checks reasons against rows.
type checker struct {
	*rapid.T
	rows  map[string]db.Row
	words map[string]bool // of the query
	seen  map[string]int  // what was compared
}

func (c *checker) sums(what string, want float64, parts []explain.Reason, of func(r *explain.Reason) float64) {
	sum := 0.
	for i := range parts {
		sum += of(&parts[i])
	}
	if !(math.Abs(sum-want) < 1e-5) {
		c.Fatalf("%s: parts of %v, want %v: %+v", what, sum, want, parts)
	}
}

func score(r *explain.Reason) float64 { return r.Score }
func value(r *explain.Reason) float64 { return r.Value }

// row checks the reason of a row.
func (c *checker) row(r *explain.Reason, label string, has bool) {
	row, ok := c.rows[string(r.Key)]
	if !ok || slices.Contains(row.Labels, label) != has {
		c.Fatalf("%+v is a row with or without %q: %+v", r, label, row)
	}
	if len(r.Labels) == 0 {
		return // not one of the first ten
	}
	title, _ := row.Attributes["title"].(string)
	if title == "" && strings.HasPrefix(row.Text, r.Title) {
		title = r.Title
	}
	if !slices.Equal(r.Labels, row.Labels) || title == "" || r.Title != title {
		c.Fatalf("%+v of %+v", r, row)
	}
	if len(r.Parts) == 0 {
		return
	}
	c.sums("score of "+r.Text, r.Score, r.Parts, score)
	if r.Parts[0].Text != "its own nearest rows" {
		c.sums("similarity of "+r.Text, r.Value, r.Parts, value)
	}
	for _, p := range r.Parts {
		if p.Feature != "" {
			c.seen["shared word"]++
			if !c.words[p.Feature] || !slices.Contains(strings.Fields(row.Text), p.Feature) || p.Value <= 0 {
				c.Fatalf("%+v is in the query %v and in %q", p, c.words, row.Text)
			}
		}
	}
}

// feature checks what the reason of a feature says of its rows, and returns whether these have the label less
// often than all rows.
func (c *checker) feature(r *explain.Reason, label string) (seldom bool) {
	all, with, both := 0, 0, 0
	for _, x := range c.rows {
		has := slices.Contains(x.Labels, label)
		if has {
			all++
		}
		if slices.Contains(strings.Fields(x.Text), r.Feature) {
			with++
			if has {
				both++
			}
		}
	}
	if want := fmt.Sprintf("%s (label in %d of its %d row", r.Feature, both, with); !strings.HasPrefix(r.Text, want) {
		c.Fatalf("%q, want %q", r.Text, want)
	}
	return both*len(c.rows) < all*with
}

// lcif checks the reason of a label by a model of kind lcif. lambda is that of the model, or -1.
func (c *checker) lcif(why *explain.Reason, label string, lambda float64, second bool) {
	c.sums("score", why.Score, why.Parts, score)
	for i := range why.Parts {
		part := &why.Parts[i]
		c.sums(part.Text, part.Score, part.Parts, score)
		for j := range part.Parts {
			if p := &part.Parts[j]; p.Key == nil {
				c.feature(p, label)
			} else if !second {
				c.row(p, label, true)
			}
		}
	}
	without := 0.
	for i := range why.Against {
		part := &why.Against[i]
		c.sums(part.Text, part.Score, part.Parts, score)
		for j := range part.Parts {
			switch p := &part.Parts[j]; {
			case p.Key != nil:
				without += p.Score
				c.row(p, label, false)
				c.seen["row without the label"]++
			case !c.feature(p, label):
				c.Fatalf("%+v is no feature whose rows seldom have %q", p, label)
			default:
				c.seen["feature against"]++
			}
		}
	}
	if rows := why.Parts[0].Score + without; lambda >= 0 && !second && rows > 0 && math.Abs(rows-lambda) > 1e-5 {
		c.Fatalf("rows with and without the label have %v of λ = %v", rows, lambda)
	}
}

// path checks the reason of a label by classifiers.
func (c *checker) path(why *explain.Reason) {
	for i := range why.Parts {
		c.sums(why.Parts[i].Text, why.Parts[i].Score, why.Parts[i].Parts, score)
	}
}

// threshold checks how far a label is from the set that is predicted.
func (c *checker) threshold(p *db.Prediction, place int) {
	x := p.Why.Threshold
	switch of := p.Probability; {
	case x == nil:
		c.Fatalf("no threshold: %+v", p.Why)
	case x.Value == 0 && x.Distance == 0:
		c.seen["rule"]++
		if p.Predicted != (place == 0) && strings.Contains(x.Text, "best label") {
			c.Fatalf("%+v by %+v", p, x)
		}
	case strings.HasPrefix(x.Text, "the best label is predicted; score"):
		c.seen["below the best"]++
		if p.Predicted || place == 0 || x.Distance > 0 || math.Abs(x.Value+x.Distance-float64(p.Score)) > 1e-6 {
			c.Fatalf("%+v by %+v", p, x)
		}
	default:
		if strings.HasPrefix(x.Text, "score") {
			of = p.Score
			c.seen["score"]++
		}
		above := strings.Contains(x.Text, map[bool]string{true: " above ", false: " below "}[x.Distance >= 0])
		best := strings.Contains(x.Text, "; predicted as the label of highest ")
		if math.Abs(x.Value+x.Distance-float64(of)) > 1e-6 || !above || p.Predicted != (x.Distance >= 0 || best) {
			c.Fatalf("%+v by %+v", p, x)
		}
	}
}

// TestReasonsAreTrue: parts add up, shared words are in both texts, rows have their labels and titles, counts
// are those of the rows, and the threshold is that of the set.
func TestReasonsAreTrue(t *testing.T) {
	dbtest.Whole(t)
	coll, rows := reasonsDB(t)
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 5))
		q := db.Query{Text: reasonText(r, reasonLabels)}
		c := &checker{T: rt, rows: rows, seen: seen, words: map[string]bool{}}
		for _, w := range strings.Fields(q.Text) {
			c.words[w] = true
		}
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(reasonModels))).Draw(rt, "model")
		if name == "both" || name == "vector" {
			q.Vector = []float32{r.Float32(), r.Float32(), r.Float32(), 1}
		}
		ask := db.PredictOptions{Index: name, Top: 3, Explain: true}
		if o, ok := reasonModels[name].(*index.LCIF); ok && o.Cut == nil && r.IntN(2) == 0 {
			ask.Params = o.Params // without probabilities
		}
		out, err := coll.Predict(t.Context(), q, &ask)
		if err != nil {
			rt.Fatal(err)
		}
		for i := range out.Labels {
			p := &out.Labels[i]
			c.threshold(p, i)
			switch o := reasonModels[name].(type) {
			case *index.LCIF:
				lambda := -1.
				if o.Params != nil {
					lambda = o.Params.Lambda
				}
				if math.Abs(p.Why.Score-float64(p.Score)) > 1e-5 {
					rt.Fatalf("%+v by %+v", p, p.Why)
				}
				c.lcif(p.Why, p.Label, lambda, name == "second")
			case *index.Auto:
				c.sums("models", float64(p.Score), p.Why.Parts, score)
				for j := range p.Why.Parts {
					if own := &p.Why.Parts[j].Parts[0]; strings.HasPrefix(p.Why.Parts[j].Text, "lcif") {
						c.seen["model"]++
						c.lcif(own, p.Label, -1, false)
					} else {
						c.path(own)
					}
				}
			default:
				c.path(p.Why)
			}
		}
	})
	for _, what := range []string{"shared word", "row without the label", "feature against", "rule", "score", "below the best"} {
		if seen[what] == 0 {
			t.Errorf("no %s was checked: %v", what, seen)
		}
	}
}
