package db

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/trees/budget"
)

func smallTrees(kind budget.Kind) IndexOptions { return treesOf(kind, Trees{Budget: 10}) }

// treesOf returns options of budgeted trees as those of a kind.
func treesOf(kind budget.Kind, o Trees) IndexOptions {
	o.Kind = string(kind)
	return &o
}

// checkPath checks that a path's decisions are made of what it says.
func checkPath(t *testing.T, why *Reason, has func(feature string) bool) {
	t.Helper()
	for i, d := range why.Parts {
		sum := 0.0
		for _, c := range d.Parts {
			sum += c.Score
			if (c.Feature == "") != (c.Text == "offset") || c.Feature != "" && (!has(c.Feature) || c.Value == 0) {
				t.Errorf("decision %d: %+v", i, c)
			}
		}
		if math.Abs(sum-d.Score) > 1e-4 || !strings.Contains(d.Text, "? ") {
			t.Errorf("decision %d: %+v adds up to %g", i, d, sum)
		}
		if votes := strings.Contains(d.Text, " votes, "); !votes && d.Score > 0 != strings.Contains(d.Text, "? yes (") {
			t.Errorf("decision %d: %+v", i, d)
		}
	}
}

// finds reports whether a decision found a label present.
func finds(d Reason, label string) bool {
	_, always, _ := strings.Cut(d.Text, ", always ")
	return strings.HasPrefix(d.Text, label+"? yes (") || slices.Contains(strings.Split(always, ", "), label)
}

func TestTreesExplain(t *testing.T) {
	t.Parallel()
	d, _, queries, _ := topicDB(t, true)
	defer d.Close()
	for _, kind := range []budget.Kind{budget.AT, budget.PT} {
		if _, err := d.Collection("docs").Build(t.Context(), "tree", smallTrees(kind), nil); err != nil {
			t.Fatal(err)
		}
		plain := predictAll(t, d, queries, nil, 1)
		contributions, leaves, labels := 0, 0, 0
		err := d.View(func(s *Snapshot) error {
			for i, q := range queries {
				path, err := pathThrough(t.Context(), s.Collection("docs"), q, "tree")
				if err != nil {
					return err
				}
				checkPath(t, path, func(f string) bool {
					return slices.ContainsFunc(q.Features, func(x Feature) bool { return x.Name == f })
				})
				out, _, err := predict(t.Context(), s.Collection("docs"), q, &PredictOptions{Explain: true})
				if err != nil {
					return err
				}
				var found []string
				for j, p := range out {
					found = append(found, p.Label)
					labels++
					if p.Score != plain[i][j].Score || p.Label != plain[i][j].Label {
						t.Errorf("%+v explained, %+v without", p, plain[i][j])
					}
					if p.Why != out[0].Why || fmt.Sprintf("%+v", *p.Why) != fmt.Sprintf("%+v", *path) {
						t.Fatalf("query %d: %v, another path than %v", i, p.Why, path)
					}
					if kind == budget.AT && !slices.ContainsFunc(path.Parts, func(d Reason) bool { return finds(d, p.Label) }) {
						leaves++ // all rows of the leaf have it
					}
				}
				answer, _, _ := strings.Cut(path.Text, " in ")
				if want := strings.Split(answer, ", "); !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))) {
					t.Errorf("query %d: predicted %q, explained %v", i, found, path)
				}
				for _, d := range path.Parts {
					contributions += len(d.Parts) - 1
				}
			}
			return nil
		})
		must(t, err)
		if contributions < len(queries) || 4*leaves > labels {
			t.Errorf("%s: %d contributions; %d of %d labels by leaves", kind, contributions, leaves, labels)
		}
	}
}

// Of trees one against the rest the path is that of each class, of one tree for
// two classes it is shared.
func TestClassTreesExplain(t *testing.T) {
	for classes := 2; classes <= 3; classes++ {
		d := classDB(t, classes)
		if _, err := d.Collection("points").Build(t.Context(), "tree", smallTrees(budget.SBT), nil); err != nil {
			t.Fatal(err)
		}
		q := Query{Vector: []float32{0, 2, 0, 0}}
		err := d.View(func(s *Snapshot) error {
			path, err := pathThrough(t.Context(), s.Collection("points"), q, "")
			if err != nil {
				return err
			}
			checkPath(t, path, func(f string) bool { return f == "1" })
			if !strings.HasPrefix(path.Text, "class 1 in ") || path.Score <= 0 || path.Score > 1 {
				t.Errorf("%d classes: %v", classes, path)
			}
			out, _, err := predict(t.Context(), s.Collection("points"), q, &PredictOptions{Top: 9, Explain: true})
			if err != nil {
				return err
			}
			if len(out) != classes || out[0].Label != "class 1" || !slices.IsSortedFunc(out, func(a, b Prediction) int { return int(math.Copysign(1, float64(b.Score-a.Score))) }) {
				t.Errorf("%d classes: %+v", classes, out)
			}
			for _, p := range out {
				if classes > 2 && strings.HasPrefix(p.Why.Text, p.Label+" in ") != (p.Score > 0) {
					t.Errorf("%+v by %v", p, p.Why)
				}
				if classes == 2 && p.Why != out[0].Why {
					t.Errorf("%+v by %v", p, p.Why)
				}
			}
			best, _, err := predict(t.Context(), s.Collection("points"), q, nil)
			if err == nil && (len(best) != 1 || best[0] != (Prediction{Label: out[0].Label, Score: out[0].Score, Predicted: true})) {
				t.Errorf("best %+v, first of all %+v", best, out[0])
			}
			return err
		})
		must(t, err)
		must(t, d.Close())
	}
}

// classDB has points of several classes in four dimensions.
func classDB(t *testing.T, classes int) *DB {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.anndb"), nil)
	must(t, err)
	if _, err := d.Create(t.Context(), "points", Schema{Dim: 4}); err != nil {
		t.Fatal(err)
	}
	err = d.Update(t.Context(), func(b *Tx) error {
		for i := range 40 * classes {
			x := modelVector(uint64(i), 4)
			for j := range x {
				x[j] = x[j]/100 + 0.1
			}
			x[i%classes] += 2
			if err := b.Collection("points").Put(Row{Key: fmt.Append(nil, i), Vector: x, Labels: []string{fmt.Sprint("class ", i%classes)}}); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	return d
}

func TestTreePicture(t *testing.T) {
	d, _, queries, _ := topicDB(t, true)
	defer d.Close()
	if _, err := d.Collection("docs").Build(t.Context(), "tree", smallTrees(budget.AT), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Collection("docs").Build(t.Context(), "index", &Postings{}, nil); err != nil {
		t.Fatal(err)
	}
	points := classDB(t, 3)
	defer points.Close()
	if _, err := points.Collection("points").Build(t.Context(), "tree", smallTrees(budget.SBT), nil); err != nil {
		t.Fatal(err)
	}
	err := d.View(func(s *Snapshot) error {
		p, err := s.Collection("docs").TreePicture("", &budget.PictureOptions{Nodes: 3})
		if err != nil {
			return err
		}
		var b strings.Builder
		if err := p.WriteText(&b); err != nil {
			return err
		}
		if !strings.Contains(b.String(), "·w") || !strings.Contains(b.String(), "topic") || p.Hidden == 0 {
			t.Errorf("%d hidden in\n%s", p.Hidden, b.String())
		}
		for _, n := range p.Nodes {
			for _, term := range n.Terms {
				if _, name, ok := strings.Cut(term, "·"); ok && !strings.HasPrefix(name, "w") {
					t.Errorf("feature %q", name)
				}
			}
		}
		_, kind := pathThrough(t.Context(), s.Collection("docs"), queries[0], "index")
		_, index := s.Collection("docs").TreePicture("x", nil)
		_, class := s.Collection("docs").TreePicture("tree", nil, "topic 1")
		_, dense := pathThrough(t.Context(), s.Collection("docs"), Query{Vector: []float32{1}}, "")
		_, value := pathThrough(t.Context(), s.Collection("docs"), Query{Features: []Feature{{"w1", float32(math.NaN())}}}, "")
		_, _, params := predict(t.Context(), s.Collection("docs"), queries[0], &PredictOptions{Explain: true, Index: "index"})
		for name, c := range map[string]struct{ err, want error }{
			"explain by postings": {kind, fail.Kind}, "no index": {index, fail.NoIndex}, "class": {class, fail.Option},
			"dense": {dense, fail.Kind}, "not finite": {value, fail.Features}, "predict by postings": {params, fail.Kind},
		} {
			if !errors.Is(c.err, c.want) {
				t.Errorf("%s: %v, want %v", name, c.err, c.want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	err = points.View(func(s *Snapshot) error {
		p, err := s.Collection("points").TreePicture("tree", nil, "class 2")
		if err != nil {
			return err
		}
		if p.Nodes[0].Heading != "class 2 against the rest" || slices.ContainsFunc(p.Nodes[1:], func(n budget.PictureNode) bool { return n.Heading != "" }) {
			t.Errorf("%+v", p.Nodes)
		}
		_, err = s.Collection("points").TreePicture("tree", nil, "class 7")
		if !errors.Is(err, fail.Option) || !strings.Contains(err.Error(), `"class 7"`) {
			t.Errorf("class 7: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The training rows take as many decisions as the description of the tree says.
func TestTreeDecisions(t *testing.T) {
	t.Parallel()
	d, rows, _, _ := topicDB(t, true)
	defer d.Close()
	points := classDB(t, 3)
	defer points.Close()
	if _, err := points.Collection("points").Build(t.Context(), "tree", smallTrees(budget.SBT), nil); err != nil {
		t.Fatal(err)
	}
	var queries []Query
	for _, r := range rows {
		queries = append(queries, Query{Features: r.Features})
	}
	for _, kind := range []budget.Kind{budget.PT, budget.AT} {
		info, err := d.Collection("docs").Build(t.Context(), "tree", smallTrees(kind), nil)
		must(t, err)
		err = d.View(func(s *Snapshot) error {
			got, err := s.Collection("docs").TreeDecisions(t.Context(), queries, "")
			// Rows may leave the path of training, which goes by their labels.
			if want := info.Tree.Decisions; math.Abs(got-want) > 0.05*want || want < info.Tree.Entropy {
				t.Errorf("%s: %g decisions, %g in training, entropy %g", kind, got, want, info.Tree.Entropy)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	err := points.View(func(s *Snapshot) error {
		got, err := s.Collection("points").TreeDecisions(t.Context(), []Query{{Vector: []float32{1, 0, 0, 0}}}, "tree")
		if got < 3 {
			t.Errorf("%g decisions in three trees", got)
		}
		if n, err := s.Collection("points").TreeDecisions(t.Context(), nil, "tree"); err != nil || n != 0 {
			t.Errorf("no queries: %g decisions, %v", n, err)
		}
		_, dim := s.Collection("points").TreeDecisions(t.Context(), []Query{{Vector: []float32{1, 0, 0, 0}}, {Vector: []float32{1}}}, "tree")
		if !errors.Is(dim, fail.Dimension) || !strings.Contains(dim.Error(), "query 1") {
			t.Errorf("dimension: %v", dim)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
