package group_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/group"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// open returns n new files with a collection "c".
func open(t *testing.T, n int, s db.Schema) (files []*db.DB, sources []group.Source) {
	for range n {
		d := dbtest.OpenAt(t, filepath.Join(t.TempDir(), "a.anndb"), &db.Options{NoSync: true})
		dbtest.Must(t, dbtest.Create(t.Context(), d, "c", s))
		files, sources = append(files, d), append(sources, group.Source{DB: d, Collection: "c"})
	}
	return files, sources
}

// TestForests: forests over parts have the recall that they promise, for few rows and for many.
func TestForests(t *testing.T) {
	dbtest.Whole(t)
	files, sources := open(t, 3, db.Schema{Dim: 8})
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() []float32 {
		x := make([]float32, 8)
		for i := range x {
			x[i] = float32(rng.NormFloat64()) + float32(rng.IntN(4))
		}
		return x
	}
	for i, d := range files {
		var rows []db.Row
		for j := range 1500 {
			rows = append(rows, db.Row{Key: fmt.Append(nil, i, " ", j), Vector: draw()})
		}
		dbtest.Must(t, dbtest.Put(d, "c", rows...))
		if i > 0 {
			dbtest.Builds(t, d, "c", "main", &index.Forest{Seed: 1})
		}
	}
	g, err := group.Open(t.Context(), sources...)
	dbtest.Must(t, err)
	defer g.Release()
	for _, k := range []int{10, 200} {
		found, all := 0, 0
		for range 40 {
			q := db.Query{Vector: draw()}
			want, err := g.Search(t.Context(), q, &db.SearchOptions{K: k, Recall: 1})
			dbtest.Must(t, err)
			got, err := g.Search(t.Context(), q, &db.SearchOptions{K: k, Recall: 0.9})
			dbtest.Must(t, err)
			if len(got.Hits) != k || len(want.Hits) != k {
				t.Fatalf("%d and %d hits, want %d", len(got.Hits), len(want.Hits), k)
			}
			for _, h := range got.Hits {
				if all++; h.Distance <= want.Hits[k-1].Distance {
					found++
				}
			}
		}
		if recall := float64(found) / float64(all); recall < 0.9 {
			t.Errorf("k %d: recall %.3f", k, recall)
		}
	}
}

// TestOrderOfWords: scores of texts are the same whatever the order in which files have met their words.
func TestOrderOfWords(t *testing.T) {
	files, _ := open(t, 2, db.Schema{Text: &text.Schema{}})
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []db.Row
	for i := range 300 {
		var s strings.Builder
		for range 1 + rng.IntN(30) {
			fmt.Fprintf(&s, "w%d ", min(rng.IntN(80), rng.IntN(80)))
		}
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Text: s.String()})
	}
	dbtest.Must(t, dbtest.Put(files[0], "c", rows...))
	for _, i := range rng.Perm(len(rows)) {
		dbtest.Must(t, dbtest.Put(files[1], "c", rows[i]))
	}
	dbtest.Builds(t, files[1], "c", "main", &index.Postings{})
	for range 50 {
		q := db.Query{Text: rows[rng.IntN(len(rows))].Text}
		var scores [2]map[string]float32
		for i, d := range files {
			res, err := d.Collection("c").Search(t.Context(), q, &db.SearchOptions{K: 1000})
			dbtest.Must(t, err)
			scores[i] = map[string]float32{}
			for _, h := range res.Hits {
				scores[i][string(h.Key)] = h.Distance
			}
		}
		for key, want := range scores[0] {
			if got := scores[1][key]; got != want || len(scores[0]) != len(scores[1]) {
				t.Fatalf("%s: %v, want %v", key, got, want)
			}
		}
	}
}

// TestMeans compares predictions by models that do not add up with the means of the predictions of each.
func TestMeans(t *testing.T) {
	files, sources := open(t, 3, db.Schema{Sparse: true})
	rng := rand.New(rand.NewPCG(1, 2))
	models := map[string]index.Options{
		"tree":      &index.LabelTree{Objective: lcif.MicroF1},
		"neighbors": &index.LCIF{Objective: lcif.MicroF1, Folds: 2},
	}
	rows := []int{150, 100, 200}
	draw := func(label int) db.Query {
		x := dbtest.RandomSparse(rng, 4, 30)
		x.Index, x.Value = append(x.Index, uint32(40+label)), append(x.Value, 1)
		return db.Query{Sparse: x}
	}
	for i, d := range files {
		var list []db.Row
		for j := range rows[i] {
			label := rng.IntN(5 + i) // the first part does not have all labels
			list = append(list, db.Row{Key: fmt.Append(nil, i, " ", j), Sparse: draw(label).Sparse,
				Labels: []string{fmt.Sprint("label", label), fmt.Sprint("other", rng.IntN(3))}})
		}
		dbtest.Must(t, dbtest.Put(d, "c", list...))
		for name, o := range models {
			dbtest.Builds(t, d, "c", name, o)
		}
	}
	g, err := group.Open(t.Context(), sources...)
	dbtest.Must(t, err)
	defer g.Release()
	for name := range models {
		info, err := files[0].Collection("c").Index(name)
		dbtest.Must(t, err)
		c := info.Calibration
		if c.LabelCuts != nil {
			t.Fatalf("%s has cuts by label, which TestCutsOfLabels is for", name)
		}
		for i := range 30 {
			q, o := draw(rng.IntN(8)), db.PredictOptions{Index: name, Top: []int{0, 2, 2}[i%3], Set: i%3 == 2}
			if i%5 == 4 {
				o.MinProbability = 0.3
			}
			sums := map[string]float64{}
			for part, d := range files {
				all, err := d.Collection("c").Predict(t.Context(), q, &db.PredictOptions{Index: name, Top: 100})
				dbtest.Must(t, err)
				for _, l := range all.Labels {
					sums[l.Label] += float64(l.Probability) * float64(rows[part])
				}
			}
			type answer struct {
				label     string
				p         float32
				predicted bool
			}
			var want, got []answer
			for label, sum := range sums {
				if p := float32(sum / 450); p > 0 {
					want = append(want, answer{label, p, false})
				}
			}
			slices.SortFunc(want, func(a, b answer) int {
				return cmp.Or(cmp.Compare(b.p, a.p), cmp.Compare(a.label, b.label))
			})
			for j := range want {
				a := &want[j]
				a.predicted = a.p >= c.Cut || c.KeepTop && j == 0
				if o.MinProbability > 0 {
					a.predicted = float64(a.p) >= o.MinProbability
				}
			}
			kept := want[:0:0]
			for j, a := range want {
				if (a.predicted || o.MinProbability == 0) && (j < o.Top || a.predicted && (o.Top == 0 || o.Set)) {
					kept = append(kept, a)
				}
			}
			found, err := g.Predict(t.Context(), q, &o)
			dbtest.Must(t, err)
			for _, l := range found.Labels {
				if got = append(got, answer{l.Label, l.Probability, l.Predicted}); l.Score != l.Probability {
					t.Fatalf("score %v", l)
				}
			}
			if !slices.Equal(got, kept) {
				t.Fatalf("%s %+v\ngot  %v\nwant %v", name, o, got, kept)
			}
		}
		stranger := db.Query{Sparse: vector.Sparse{Index: []uint32{99}, Value: []float32{1}}}
		found, err := g.Predict(t.Context(), stranger, &db.PredictOptions{Index: name})
		if dbtest.Must(t, err); len(found.Labels) > 0 || !found.Stats.NoEvidence {
			t.Fatalf("%s of nothing known: %+v", name, found)
		}
	}
}

// TestRefused: what does not add up over collections is an error.
func TestRefused(t *testing.T) {
	files, sources := open(t, 2, db.Schema{Sparse: true})
	rng := rand.New(rand.NewPCG(1, 2))
	for i, d := range files {
		var rows []db.Row
		for j := range 60 {
			rows = append(rows, db.Row{Key: fmt.Append(nil, i, " ", j), Sparse: dbtest.RandomSparse(rng, 4, 20),
				Labels: []string{fmt.Sprint(rng.IntN(3))}})
		}
		dbtest.Must(t, dbtest.Put(d, "c", rows...))
		dbtest.Builds(t, d, "c", "tree", &index.LabelTree{})
		dbtest.Builds(t, d, "c", "given", &index.LCIF{
			Weight: "tfidf", Params: &lcif.Params{K: 3, Thresholds: &labels.Thresholds{Single: 0.3}},
		})
		dbtest.Builds(t, d, "c", "sums", &index.LCIF{Weight: "none", Params: &lcif.Params{K: 3}})
	}
	g, err := group.Open(t.Context(), sources...)
	dbtest.Must(t, err)
	defer g.Release()
	q := db.Query{Sparse: dbtest.RandomSparse(rng, 4, 20)}
	for _, o := range []db.PredictOptions{
		{Index: "given"}, {Index: "sums", MinProbability: 0.5}, {Index: "sums", Recall: 0.5},
		{Index: "sums", Explain: true}, {Index: "tree", Recall: 0.5}, {Index: "tree", Explain: true},
		{Index: "tree", MinProbability: 2}, {Index: "tree", Frequent: true},
		{Index: "tree", Params: &lcif.Params{}},
	} {
		if _, err := g.Predict(t.Context(), q, &o); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, o := range []db.SearchOptions{
		{Rank: rank.Options{Diversity: 0.5}}, {Rank: rank.Options{Boosts: []rank.Boost{{Factor: 2}}}}, {K: -1},
	} {
		if _, err := g.Search(t.Context(), q, &o); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	like := db.Query{Key: []byte("0 1")}
	if _, err := g.Search(t.Context(), like, &db.SearchOptions{K: -1}); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	if _, err := g.Predict(t.Context(), q, &db.PredictOptions{Index: "none"}); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	other, _ := open(t, 1, db.Schema{Dim: 3})
	another := group.Source{DB: other[0], Collection: "c"}
	if _, err := group.Open(t.Context(), sources[0], another); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	if _, err := group.Open(t.Context(), group.Source{}); !errors.Is(err, db.ErrClosed) {
		t.Error(err)
	}
	var zero group.Group
	if _, err := zero.Search(t.Context(), q, nil); !errors.Is(err, db.ErrClosed) || zero.Info().Live != 0 {
		t.Error(err)
	}
	if _, err := zero.Predict(t.Context(), q, nil); err == nil {
		t.Error("a group without parts predicts")
	}
	g.Release()
	if _, err := g.Search(t.Context(), q, nil); !errors.Is(err, db.ErrClosed) {
		t.Error(err)
	}
	if _, err := group.Open(t.Context()); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
	none := group.Source{DB: files[0], Collection: "none"}
	if _, err := group.Open(t.Context(), none); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
}
