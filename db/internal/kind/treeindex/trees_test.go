package treeindex_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// topics opens a database of documents of one or two topics, which are their labels: words of a topic are ten
// features of its own, and there is noise. It returns queries with their labels, too.
func topics(t *testing.T) (d *db.DB, rows []db.Row, queries []db.Query, truth [][]string) {
	t.Helper()
	d = dbtest.OpenAt(t, filepath.Join(t.TempDir(), "topics"), &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Named: true}))
	rng := rand.New(rand.NewPCG(11, 12))
	draw := func() (f []vector.Feature, names []string) {
		counts := make([]float32, 130)
		for range 1 + rng.IntN(2) {
			topic := rng.IntN(8)
			if n := fmt.Sprint("topic ", topic); !slices.Contains(names, n) {
				names = append(names, n)
			}
			for range 6 {
				counts[topic*10+rng.IntN(10)]++
			}
		}
		for range 4 {
			counts[80+rng.IntN(50)]++
		}
		for i, v := range counts {
			if v > 0 {
				f = append(f, vector.Feature{Name: fmt.Sprint("w", i), Value: v})
			}
		}
		return f, names
	}
	for i := range 900 {
		f, l := draw()
		rows = append(rows, db.Row{Key: fmt.Append(nil, "d", i), Features: f, Labels: l})
	}
	dbtest.Must(t, dbtest.Put(d, "docs", rows...))
	for range 100 {
		f, l := draw()
		f = append(f, vector.Feature{Name: "never seen", Value: 3})
		queries, truth = append(queries, db.Query{Features: f}), append(truth, l)
	}
	return d, rows, queries, truth
}

// points opens a database of points near the axes, whose numbers are their classes.
func points(t *testing.T, classes int) *db.DB {
	t.Helper()
	d := dbtest.OpenAt(t, filepath.Join(t.TempDir(), "points"), &db.Options{NoSync: true})
	dbtest.Must(t, dbtest.Create(t.Context(), d, "points", db.Schema{Dim: 4}))
	var rows []db.Row
	for i := range 40 * classes {
		x := dbtest.Vector(uint64(i), 4)
		for j := range x {
			x[j] = x[j]/1000 + 0.1
		}
		x[i%classes] += 2
		rows = append(rows, db.Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{fmt.Sprint("class ", i%classes)}})
	}
	dbtest.Must(t, dbtest.Put(d, "points", rows...))
	return d
}

func predictAll(t *testing.T, c db.Collection, queries []db.Query, o *db.PredictOptions) [][]db.Prediction {
	t.Helper()
	out, err := dbtest.PredictBatch(t.Context(), c, queries, o, 2)
	dbtest.Must(t, err)
	return out
}

// TestPredict: trees predict the labels of documents like theirs, also after reopening, and their explanations
// are the paths to these.
func TestPredict(t *testing.T) {
	d, rows, queries, truth := topics(t)
	c := d.Collection("docs")
	var train []db.Query
	for _, r := range rows {
		train = append(train, db.Query{Features: r.Features})
	}
	for _, o := range []index.Trees{{Kind: "at", Weight: "tfidf"}, {Kind: "pt", Weight: "none"}, {Kind: "at", Weight: "none"}} {
		o.Budget = 10
		if o.Kind == "at" {
			o.Params.Threshold = 1e-9 // so that sets are those of leaves
		}
		info, err := c.Build(t.Context(), "tree", &o, nil)
		dbtest.Must(t, err)
		if info.Tree == nil || info.Tree.Nodes == 0 || info.Bytes["budget"] == 0 || info.TrainingPoints != len(rows) {
			t.Errorf("%s: index %+v", o.Kind, info)
		}
		right, best := 0, 0
		sets, top := predictAll(t, c, queries, nil), predictAll(t, c, queries, &db.PredictOptions{Top: 1})
		for i, p := range sets {
			var got []string
			for _, l := range p {
				got = append(got, l.Label)
			}
			if slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(truth[i]))) {
				right++
			}
			if slices.Contains(truth[i], top[i][0].Label) {
				best++
			}
			explained(t, c, queries[i], p, o.Kind)
		}
		if right < map[string]int{"at": 75, "pt": 50}[o.Kind] || best < 88 {
			t.Errorf("%s, %s: %d of 100 label sets and %d first labels are right", o.Kind, o.Weight, right, best)
		}
		again, err := c.PredictBatch(t.Context(), train, nil)
		decisions := 0.0
		for _, p := range again {
			decisions += float64(p.Stats.Decisions) / float64(len(train))
		}
		// Rows may leave the path of training, which goes by their labels.
		if want := info.Tree.Decisions; err != nil || math.Abs(decisions-want) > 0.1*want || want < info.Tree.Entropy {
			t.Errorf("%s: %g decisions, %g in training, entropy %g: %v", o.Kind, decisions, want, info.Tree.Entropy, err)
		}
	}
	before := predictAll(t, c, queries, nil)
	dbtest.Must(t, dbtest.Check(d))
	var b strings.Builder
	_, err := d.Backup(t.Context(), &b)
	dbtest.Must(t, err)
	dbtest.WithFile(t, dbtest.WriteFile(t, []byte(b.String())), func(d *db.DB, _ *db.Snapshot) {
		for i, p := range predictAll(t, d.Collection("docs"), queries, nil) {
			if !slices.Equal(p, before[i]) {
				t.Fatalf("query %d: %v after reopening, %v before", i, p, before[i])
			}
		}
		dbtest.Must(t, errors.Join(d.Collection("docs").DropIndex(t.Context(), "tree"), dbtest.Check(d)))
	})
}

// explained checks the path of a prediction: decisions add up, and lead to the labels.
func explained(t *testing.T, c db.Collection, q db.Query, labels []db.Prediction, kind string) {
	t.Helper()
	path, err := dbtest.TreePath(t.Context(), c, q, "")
	dbtest.Must(t, err)
	var want []string
	for _, l := range labels {
		want = append(want, l.Label)
	}
	answer, _, _ := strings.Cut(path.Text, " in ")
	if got := strings.Split(answer, ", "); kind == "at" && !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%s: predicted %q, explained %v", kind, want, path)
	}
	for i, d := range path.Parts {
		sum := 0.0
		for _, p := range d.Parts {
			sum += p.Score
			is := func(f vector.Feature) bool { return f.Name == p.Feature }
			known := slices.ContainsFunc(q.Features, is)
			if (p.Feature == "") != (p.Text == "offset") || p.Feature != "" && (!known || p.Value == 0) {
				t.Errorf("decision %d: %+v", i, p)
			}
		}
		if math.Abs(sum-d.Score) > 1e-4 || d.Score > 0 != strings.Contains(d.Text, "? yes (") {
			t.Errorf("decision %d: %+v adds up to %g", i, d, sum)
		}
	}
}

// TestClasses: trees of classes of points tell them apart; the path of a class is its own where there is a tree
// for each class. They find no rows.
func TestClasses(t *testing.T) {
	for classes := 2; classes <= 3; classes++ {
		d := points(t, classes)
		c := d.Collection("points")
		dbtest.Builds(t, d, "points", "tree", &index.Trees{Kind: "sbt", Budget: 2})
		for i := range classes {
			q := db.Query{Vector: make([]float32, 4)}
			q.Vector[i] = 2
			out, _, err := dbtest.Predict(t.Context(), c, q, &db.PredictOptions{Top: 9, Explain: true})
			dbtest.Must(t, err)
			label := fmt.Sprint("class ", i)
			if len(out) != classes || out[0].Label != label || out[0].Score <= 0 || !strings.HasPrefix(out[0].Why.Text, label+" in ") {
				t.Errorf("%d classes: %+v", classes, out)
			}
			for _, p := range out {
				if classes > 2 && strings.HasPrefix(p.Why.Text, p.Label+" in ") != (p.Score > 0) || classes == 2 && &p.Why.Parts[0] != &out[0].Why.Parts[0] {
					t.Errorf("%+v by %v", p, p.Why)
				}
			}
			if best := predictAll(t, c, []db.Query{q}, nil)[0]; len(best) != 1 || best[0].Label != label || !best[0].Predicted {
				t.Errorf("%d classes: best %+v", classes, best)
			}
		}
		q := db.Query{Vector: []float32{1, 0, 0, 0}}
		if hits, _, err := dbtest.Nearest(t.Context(), c, q, 3, nil); err != nil || len(hits) != 3 {
			t.Errorf("%v, %v", hits, err)
		}
		if _, err := c.Search(t.Context(), q, &db.SearchOptions{Index: "tree"}); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("search by the tree: %v", err)
		}
		if p, err := c.Predict(t.Context(), q, nil); err != nil || classes > 2 && p.Stats.Decisions < 3 {
			t.Errorf("%d decisions in %d trees, %v", p.Stats.Decisions, classes, err)
		}
		dbtest.Must(t, dbtest.Check(d))
	}
}

// TestRefused: calls that make no sense for trees are refused.
func TestRefused(t *testing.T) {
	d, _, queries, _ := topics(t)
	c, ctx := d.Collection("docs"), t.Context()
	dbtest.Builds(t, d, "docs", "tree", &index.Trees{Kind: "at", Budget: 10})
	dbtest.Builds(t, d, "docs", "lists", nil)
	picture, err := c.TreePicture("", &budget.PictureOptions{Nodes: 3})
	dbtest.Must(t, err)
	var text strings.Builder
	dbtest.Must(t, picture.WriteText(&text))
	if !strings.Contains(text.String(), "·w") || !strings.Contains(text.String(), "topic") || picture.Hidden == 0 {
		t.Errorf("%d hidden in\n%s", picture.Hidden, text.String())
	}
	_, none := c.TreePicture("x", nil)
	_, class := c.TreePicture("tree", nil, "topic 1")
	_, kind := dbtest.TreePath(ctx, c, queries[0], "lists")
	_, dense := dbtest.TreePath(ctx, c, db.Query{Vector: []float32{1}}, "")
	nan := []vector.Feature{{Name: "w1", Value: float32(math.NaN())}}
	_, value := dbtest.TreePath(ctx, c, db.Query{Features: nan}, "")
	_, negative := dbtest.TreePath(ctx, c, db.Query{Features: []vector.Feature{{Name: "w1", Value: -1}}}, "")
	_, params := c.Predict(ctx, queries[0], &db.PredictOptions{Params: &lcif.Params{K: 1}})
	for name, x := range map[string]struct{ err, want error }{
		"explain by postings": {kind, db.ErrInvalid}, "no index": {none, db.ErrNotFound}, "class": {class, db.ErrInvalid},
		"dense": {dense, db.ErrInvalid}, "not finite": {value, db.ErrInvalid}, "negative": {negative, db.ErrInvalid},
		"parameters": {params, db.ErrInvalid},
	} {
		if !errors.Is(x.err, x.want) {
			t.Errorf("%s: %v, want %v", name, x.err, x.want)
		}
	}
	classes := points(t, 3)
	dbtest.Builds(t, classes, "points", "tree", &index.Trees{Kind: "sbt", Budget: 2})
	p, err := classes.Collection("points").TreePicture("tree", nil, "class 2")
	if err != nil || p.Nodes[0].Heading != "class 2 against the rest" || slices.ContainsFunc(p.Nodes[1:], func(n budget.PictureNode) bool { return n.Heading != "" }) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := classes.Collection("points").TreePicture("tree", nil, "class 7"); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), `"class 7"`) {
		t.Errorf("class 7: %v", err)
	}
	two := []db.Query{{Vector: []float32{1, 0, 0, 0}}, {Vector: []float32{1}}}
	if _, err := classes.Collection("points").PredictBatch(ctx, two, &db.PredictOptions{Index: "tree"}); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "query 1") {
		t.Errorf("dimension: %v", err)
	}
}

// TestKeepBest: an annotation tree answers a label for every row unless it may answer none.
func TestKeepBest(t *testing.T) {
	d := dbtest.OpenTemp(t, nil)
	dbtest.Must(t, dbtest.Create(t.Context(), d, "docs", db.Schema{Sparse: true}))
	query := func(i int) vector.Sparse {
		return vector.Sparse{Index: []uint32{uint32(i % 3), 3}, Value: []float32{1, 2}}
	}
	var rows []db.Row
	for i := range 200 {
		row := db.Row{Key: fmt.Append(nil, i), Sparse: query(i)}
		if i%5 < 3 {
			row.Labels = []string{fmt.Sprintf("topic %d", i%3)}
		}
		rows = append(rows, row)
	}
	dbtest.Must(t, dbtest.Put(d, "docs", rows...))
	params := budget.Params{BAC: budget.BACParams{Budget: 3, C: 1}, Threshold: 0.9}
	for name, allow := range map[string]bool{"kept": false, "empty": true} {
		dbtest.Builds(t, d, "docs", name, &index.Trees{Kind: "at", Params: params, AllowEmpty: allow})
	}
	for i := range 3 {
		ask := func(o db.PredictOptions) []db.Prediction {
			out, _, err := dbtest.Predict(t.Context(), d.Collection("docs"), db.Query{Sparse: query(i)}, &o)
			dbtest.Must(t, err)
			return out
		}
		kept, ranked, none := ask(db.PredictOptions{Index: "kept"}), ask(db.PredictOptions{Index: "empty", Top: 1}), ask(db.PredictOptions{Index: "empty"})
		if len(none) != 0 || len(kept) != 1 || kept[0].Label != ranked[0].Label || !kept[0].Predicted {
			t.Errorf("feature %d: %v, ranked first %v; %v where there may be none", i, kept, ranked, none)
		}
	}
}

// TestMaintain: trees stay while at most a fifth of their rows were written, deleted or relabelled, and are then
// retrained with the options and trials that they were built with, without tuning.
func TestMaintain(t *testing.T) {
	d := points(t, 3)
	c, ctx := d.Collection("points"), t.Context()
	built, err := c.Build(ctx, "tree", &index.Trees{Kind: "sbt", Grid: &budget.Grid{Budgets: []int{1, 3}, Folds: 2}}, nil)
	dbtest.Must(t, err)
	maintain := func(want int) {
		t.Helper()
		tuned := false
		steps, err := d.Maintain(ctx, 0, dbtest.Reporting(func(p dbtest.Progress) { tuned = tuned || p.Stage == "tune" }))
		if err != nil || len(steps) != want || want > 0 && steps[0].Action != "relearn" || tuned {
			t.Errorf("steps %+v, want %d, tuned %v: %v", steps, want, tuned, err)
		}
	}
	// A fifth: 10 rows written, 8 deleted, 6 relabelled.
	var rows []db.Row
	for i := range 10 {
		rows = append(rows, db.Row{Key: fmt.Append(nil, "more", i), Vector: []float32{2, 0, 0, float32(i) / 10}, Labels: []string{"class 0"}})
	}
	dbtest.Must(t, errors.Join(dbtest.Put(d, "points", rows...), dbtest.Delete(d, "points", "0", "1", "2", "3", "4", "5", "6", "7")))
	relabel := func(i int) {
		dbtest.Must(t, d.Update(ctx, func(tx *db.Tx) error {
			return tx.Collection("points").SetLabels(fmt.Append(nil, i), fmt.Sprint("class ", (i+1)%3))
		}))
	}
	for i := range 6 {
		relabel(20 + i)
	}
	maintain(0)
	relabel(30)
	maintain(1)
	maintain(0)
	is, err := c.Index("tree")
	if err != nil || is.Rows != 130 || is.TrainingPoints != 122 || !reflect.DeepEqual(is.Options, built.Options) || !reflect.DeepEqual(is.TreeTrials, built.TreeTrials) {
		t.Errorf("%+v, was %+v, %v", is, built, err)
	}
	dbtest.Must(t, dbtest.Check(d))
}
