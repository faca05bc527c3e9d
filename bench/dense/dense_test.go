package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/bench/internal/vectors"
	"github.com/anndb/anndb/vector"
)

// random is a set of n rows whose coordinates are whole or not.
func random(n, dim int, whole bool) *vectors.Set {
	r := rand.New(rand.NewPCG(1, 2))
	s := &vectors.Set{Name: "random", Metric: vector.L2, Dim: dim, Whole: whole}
	rows := func(n int) []float32 {
		out := make([]float32, n*dim)
		for i := range out {
			out[i] = float32(r.NormFloat64())
			if whole {
				out[i] = float32(r.IntN(256))
			}
		}
		return out
	}
	s.Base, s.Test, s.Valid = rows(n), rows(20), rows(20)
	return s
}

// naive is the rows by distance to a query.
func naive(s *vectors.Set, q []float32) []uint32 {
	ids := make([]uint32, s.Rows())
	for i := range ids {
		ids[i] = uint32(i)
	}
	d := func(i uint32) float64 {
		sum := 0.0
		for j, x := range q {
			sum += math.Pow(float64(x)-float64(s.Base[int(i)*s.Dim+j]), 2)
		}
		return sum
	}
	slices.SortStableFunc(ids, func(a, b uint32) int {
		switch x, y := d(a), d(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	return ids
}

func TestRecall(t *testing.T) {
	s := random(500, 7, false)
	// A copy of the nearest row of query 0 ties with it.
	copied := naive(s, s.Test[:s.Dim])[k-1]
	s.Base = append(s.Base, s.Base[int(copied)*s.Dim:(int(copied)+1)*s.Dim]...)
	dir := t.TempDir()
	tr, err := exact(s, dir, "test", s.Test)
	must(t, err)
	var ids []uint32
	for i := range len(s.Test) / s.Dim {
		ids = append(ids, naive(s, s.Test[i*s.Dim:(i+1)*s.Dim])[:k]...)
	}
	if r := recall(s, tr, s.Test, ids); r != 1 {
		t.Errorf("the true rows have recall %v", r)
	}
	ids[slices.Index(ids[:k], copied)] = uint32(s.Rows() - 1)
	if r := recall(s, tr, s.Test, ids); r != 1 {
		t.Errorf("a tie is not counted: recall %v", r)
	}
	one := 1.0 / float64(len(ids))
	for name, wrong := range map[string]uint32{"missing": child.Missing, "twice": ids[1], "far": naive(s, s.Test[:s.Dim])[100]} {
		bad := slices.Clone(ids)
		bad[0] = wrong
		if r := recall(s, tr, s.Test, bad); math.Abs(1-one-r) > 1e-12 {
			t.Errorf("%s: recall %v, want %v", name, r, 1-one)
		}
	}
	again, err := exact(s, dir, "test", nil)
	if err == nil && len(again.Kth) == len(tr.Kth) {
		t.Error("the truth of other queries was taken from the file")
	}
}

// TestFresh: a cache of other rows is emptied, one of these rows kept.
func TestFresh(t *testing.T) {
	s := random(300, 9, false)
	l := &lab{set: s, dir: t.TempDir()}
	index := filepath.Join(l.dir, "hnswlib.index")
	for _, c := range []struct {
		change, kept bool
	}{{false, false}, {false, true}, {true, false}} {
		must(t, os.WriteFile(index, []byte("x"), 0o644))
		if c.change {
			s.Valid[0]++
		}
		must(t, l.fresh())
		if _, err := os.Stat(index); (err == nil) != c.kept {
			t.Errorf("rows changed: %v; index: %v", c.change, err)
		}
	}
}

func TestChoose(t *testing.T) {
	trials := []trial{{"a", 0.7, 9}, {"b", 0.91, 30}, {"c", 0.93, 20}, {"d", 0.99, 50}}
	steps := &system{ladder: true, settings: []string{"a", "b", "c", "d"}}
	free := &system{settings: steps.settings}
	for _, c := range []struct {
		s      *system
		target float64
		want   string
	}{{steps, 0.9, "b"}, {free, 0.9, "c"}, {free, 0.95, "d"}, {steps, 0.999, ""}, {free, 0.999, ""}} {
		if got, ok := c.s.choose(trials, c.target); got != c.want || ok != (c.want != "") {
			t.Errorf("ladder %v at %v: %q, want %q", c.s.ladder, c.target, got, c.want)
		}
	}
	asks := &system{settings: []string{"recall=0.8"}}
	if got, ok := asks.choose(nil, 0.95); got != "recall=0.95" || !ok {
		t.Errorf("a system that is asked for a recall got %q", got)
	}
}

func TestSystems(t *testing.T) {
	for _, s := range []*vectors.Set{random(300, 16, true), random(300, 16, false)} {
		seen := map[string]bool{}
		for _, x := range systems(s) {
			if seen[x.name] {
				t.Errorf("two systems are called %s", x.name)
			}
			seen[x.name] = true
			if strings.HasSuffix(x.name, "u8") && !s.Whole {
				t.Errorf("%s would lose something", x.name)
			}
		}
		if !seen["anndb"] || !seen["hnswlib"] {
			t.Errorf("systems %v", seen)
		}
		if got := pick(systems(s), []string{"hnsw*", "anndb"}); got[0].name != "anndb" || len(got) < 3 {
			t.Errorf("picked %v", got)
		}
	}
}

// TestEngine drives anndb through the protocol: build, save, open in a second
// child, search at a target recall and with the tuner's settings.
func TestEngine(t *testing.T) {
	dir := t.TempDir()
	s := &vectors.Set{Name: "small", Metric: vector.L2, Dim: vectors.GenDim}
	g := vectors.NewGenerator(vectors.Family[0], 1)
	s.Base, s.Test = g.Rows(1, 3000), g.Rows(2, 100)
	f := files{dir: dir, set: s}
	say := func(e child.Engine, commands ...string) *bytes.Buffer {
		t.Helper()
		var out bytes.Buffer
		must(t, child.Serve(e, 0, strings.NewReader(strings.Join(commands, "\n")), &out))
		if i := strings.Index(out.String(), "error "); i == 0 || i > 0 && out.String()[i-1] == '\n' {
			t.Fatalf("answers %.300q", out.String())
		}
		return &out
	}
	base, n, err := f.path("base", "f32")
	must(t, err)
	index := filepath.Join(dir, "index")
	say(&engine{}, fmt.Sprintf("base %s %d %d f32", base, n, s.Dim),
		fmt.Sprintf("build 2 scratch=%s.new metric=l2 labels=12 trees=4", index), "save "+index)
	queries, n, err := f.path("test", "f32")
	must(t, err)
	out := say(&engine{}, fmt.Sprintf("queries q %s %d %d f32", queries, n, s.Dim), fmt.Sprintf("open %s %d", index, s.Dim), "run q 10 1 0 0 recall=0.95")
	for range 3 {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	ids := make([]uint32, n*k)
	must(t, binary.Read(out, binary.NativeEndian, ids))
	tr, err := exact(s, dir, "test", s.Test)
	must(t, err)
	if r := recall(s, tr, s.Test, ids); r < 0.85 {
		t.Errorf("recall %.3f where 0.95 was asked for", r)
	}
	e := &engine{}
	must(t, e.Open(index, s.Dim, nil))
	defer e.Close()
	list, err := e.Settings()
	if err != nil || len(list) == 0 {
		t.Fatalf("%d settings, %v", len(list), err)
	}
	for _, w := range list {
		if strings.ContainsAny(w, " \n") {
			t.Errorf("setting %q is not one word", w)
		}
	}
	if err := e.Build(context.Background(), &child.Rows{N: 1, Dim: 1, F32: []float32{1}}, child.Words{}, 1); err == nil {
		t.Error("a build without a file succeeded")
	}
}

func TestTable(t *testing.T) {
	r := &report{Set: "x", Rows: 10, Dim: 2, Lines: []*line{{System: "anndb", Cells: map[string]cell{"0.95": {Setting: "s", Recall: 0.951, Micros: 12.34, P50: 11, P99: 30}}}}}
	var out strings.Builder
	r.table(&out, []float64{0.9, 0.95})
	if !strings.Contains(out.String(), "| anndb | – | 12.3 (0.951) |") {
		t.Errorf("table:\n%s", out.String())
	}
	c := &config{out: t.TempDir(), targets: []float64{0.95}}
	if err := c.scale(0.95); err == nil {
		t.Error("a scale plot without reports")
	}
	for i, name := range scaleSets {
		r.Set, r.Rows = name, 1000*(i+1)
		must(t, save(filepath.Join(c.out, name+".json"), r))
	}
	must(t, c.scale(0.95))
	if text, err := os.ReadFile(filepath.Join(c.out, "scale.md")); err != nil || !strings.Contains(string(text), "| anndb | 12.3 | 12.3 | 12.3 |") {
		t.Errorf("%s %v", text, err)
	}
}

// TestQuantizedGraphs: SymphonyQG and pyglass are peers of every set. By cosine pyglass
// compares by inner product; SymphonyQG compares unit rows by L2, its only distance.
func TestQuantizedGraphs(t *testing.T) {
	for _, c := range []struct {
		metric vector.Metric
		glass  string
	}{{vector.L2, "metric=l2 "}, {vector.Cosine, "metric=ip "}} {
		list := pick(systems(&vectors.Set{Metric: c.metric, Dim: 100}), []string{"symphonyqg*", "pyglass*"})
		if len(list) != 5 {
			t.Fatalf("%v: %d systems, want 5", c.metric, len(list))
		}
		for _, s := range list {
			if s.rows != "f32" || !s.ladder || s.settings[0] != "ef=10" {
				t.Errorf("%v: %s: rows %s, first setting %s", c.metric, s.name, s.rows, s.settings[0])
			}
			want := c.glass
			if s.driver == "symphonyqg" {
				want = "metric=l2 "
			}
			if !strings.HasPrefix(s.build, want) {
				t.Errorf("%v: %s is built with %q, want %q first", c.metric, s.name, s.build, want)
			}
		}
	}
}

// TestPeerRecall: drivers, if they are built, find nearly all nearest rows of a small set
// whose row length is no multiple of 8 or 16.
func TestPeerRecall(t *testing.T) {
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine} {
		s := random(1000, 100, false)
		if s.Metric = metric; metric == vector.Cosine {
			for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
				vectors.Normalise(rows, s.Dim)
			}
		}
		dir := t.TempDir()
		l := &lab{set: s, dir: dir, drivers: "../peers/bin", files: files{dir: dir, set: s}, say: t.Logf}
		truth, err := exact(s, dir, "test", s.Test)
		must(t, err)
		for _, x := range pick(systems(s), []string{"hnswlib", "usearch", "faiss-hnsw*", "symphonyqg*", "pyglass*"}) {
			t.Run(fmt.Sprintf("%v/%s", metric, x.name), func(t *testing.T) {
				if _, err := l.argv(x.driver); err != nil {
					t.Skip(err)
				}
				must(t, l.builds(t.Context(), &x, []int{1}))
				p, err := l.open(t.Context(), &x)
				must(t, err)
				r, err := p.run("test", k, 1, 0, 0, "ef=200")
				must(t, errors.Join(err, p.stop()))
				want := 0.95
				if strings.Contains(x.build, "SQ4U") {
					want = 0.85 // of 15 rows by 4-bit codes
				}
				if got := recall(s, truth, s.Test, r.ids); got < want {
					t.Errorf("recall %.3f, want %.2f", got, want)
				}
			})
		}
	}
}

// must ends a test that has got an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
