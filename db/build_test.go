package db_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// uses is parameters that make use of everything an index was built with.
func uses(o *index.Forest) *query.Params {
	p := &query.Params{Sketch: true, R: 150, Beam: 150}
	if o.NoTables {
		p.Method = query.Voting
	}
	if o.Learner == "kd-chrono" {
		p.Extra = 8 // all its trees are equal, so one leaf a tree is one leaf
	}
	return p
}

// TestBuildKinds takes every learner through the life of an index: rows are
// deleted and replaced before the build and after it, an index is built,
// asked, and asked again by another handle.
func TestBuildKinds(t *testing.T) {
	t.Parallel()
	const n, dim = 1000, 20
	at := 0
	for m, metric := range dbtest.Metrics {
		for i, l := range dbtest.Learners {
			if testing.Short() && i%len(dbtest.Metrics) != m {
				at++
				continue
			}
			o := l.In(dbtest.ForestOptions[at%len(dbtest.ForestOptions)], dim)
			o.Seed, o.NoTune = uint64(100+at), true
			name := fmt.Sprintf("%v/%s_rotate%d_extra%d", metric, l.Kind, l.Rotate, at%len(dbtest.ForestOptions))
			at++
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := newBed(t, metric, dim)
				b.Put("a", dbtest.Mixture(o.Seed, n, dim))
				for i := range 60 {
					b.Drop(fmt.Sprintf("a%d", i*7))
				}
				b.Put("a", dbtest.Mixture(99, 20, dim))
				covered := n + 20
				info := b.Build("x", o)
				b.checkInfo(info, o, covered)

				queries := dbtest.Mixture(7, 15, dim)
				search := &db.SearchOptions{Params: uses(o)}
				if r := b.Recall(queries, 10, search); r < 0.85 {
					t.Errorf("recall %.3f", r)
				}
				// Rows that come and go after the build.
				b.Put("b", dbtest.Mixture(8, 40, dim))
				b.Put("a", dbtest.Mixture(9, 15, dim))
				for i := range 15 {
					b.Drop(fmt.Sprintf("a%d", 500+i), fmt.Sprintf("b%d", 2*i))
				}
				if r := b.Recall(queries, 10, search); r < 0.85 {
					t.Errorf("recall %.3f after changes", r)
				}
				b.eachFresh(search, 100)
				all, _ := b.Search(queries[0], len(b.Rows), search)
				b.Same(queries[0], all, b.Exact(queries[0], nil), nil)

				before := b.answers(queries, search)
				b.Check()
				b.Reopen()
				b.Check()
				if after := b.answers(queries, search); before != after {
					t.Error("answers changed by reopening")
				}
				b.Must(b.D.View(func(s *db.Snapshot) error {
					again, err := s.Collection("c").Index("x")
					same := err == nil && reflect.DeepEqual(again.Options, info.Options)
					again.Options, info.Options = nil, nil // printed as addresses
					again.Given, info.Given = nil, nil
					info.Default = again.Default // of the collection, which Build does not describe
					info.Fresh = again.Fresh     // written since
					if err == nil && (!same || fmt.Sprint(again) != fmt.Sprint(info)) {
						t.Errorf("stored description\n%+v\nis not the one Build returned\n%+v", again, info)
					}
					return err
				}))
			})
		}
	}
}

// answersK is the number of neighbors that answers searches for.
const answersK = 7

// answers is all keys, distances and counts in one string.
func (b *bed) answers(queries [][]float32, o *db.SearchOptions) string {
	b.T.Helper()
	var out strings.Builder
	for _, q := range queries {
		hits, stats := b.Search(q, answersK, o)
		fmt.Fprintln(&out, stats)
		for _, h := range hits {
			fmt.Fprintf(&out, "%s %d %x\n", h.Key, h.Row, math.Float32bits(h.Distance))
		}
	}
	return out.String()
}

// eachFresh checks that rows put after the build, up to most of them, are
// found by asking for themselves where that is their nearest row, and through
// a filter always.
func (b *bed) eachFresh(o *db.SearchOptions, most int) {
	b.T.Helper()
	for key, x := range b.Rows {
		if key[0] != 'b' {
			continue
		}
		if most--; most < 0 {
			return
		}
		if b.Metric != vector.InnerProduct {
			hits, _ := b.Search(x, 1, o)
			if string(hits[0].Key) != key {
				b.T.Errorf("row %q put after the build: nearest to itself is %q at %g", key, hits[0].Key, hits[0].Distance)
			}
		}
		one := *o
		one.Where = filter.Func(func(k []byte) bool { return string(k) == key })
		if hits, _ := b.Search(x, 1, &one); len(hits) != 1 {
			b.T.Errorf("row %q put after the build is not found by its key", key)
		}
	}
}

// checkInfo checks the description of an index that was just built.
func (b *bed) checkInfo(info index.Info, o *index.Forest, covered int) {
	t := b.T
	t.Helper()
	if info.Name != "x" || info.Rows != covered || info.TrainingPoints != len(b.Rows) || info.Curve != nil || info.Created.IsZero() {
		t.Errorf("index is %q over %d rows from %d points, curve %v, created %v", info.Name, info.Rows, info.TrainingPoints, info.Curve, info.Created)
	}
	got, trees := info.Options.(*index.Forest), 2
	sketched, listed, tables := !o.NoSketches, !o.NoLists, !o.NoTables
	if !sketched || !listed || !tables {
		trees = 16
	}
	if info.Kind != o.Learner || got.Learner != o.Learner || got.Seed != o.Seed || got.Trees != trees ||
		got.Depth < 1 || got.LeafNeighbors < 1 || !got.NoTune {
		t.Errorf("resolved options %+v", got)
	}
	var want []string
	for kind, there := range map[codec.Kind]bool{
		codec.KindNodes: true, codec.KindLeafDir: true,
		codec.KindLeaves: tables, codec.KindMembers: o.Members,
		codec.KindDirections: o.Learner == "rp" || o.Learner == "pca",
		codec.KindRotation:   sketched || got.Coordinates > 0,
		codec.KindSketch:     sketched, codec.KindNeighbors: listed,
		codec.KindCenters: sketched && o.SketchBytes > 64,
	} {
		if there {
			want = append(want, kind.String())
		}
	}
	slices.Sort(want)
	if sections := slices.Sorted(maps.Keys(info.Bytes)); !slices.Equal(sections, want) {
		t.Errorf("sections %q, want %q", sections, want)
	}
	var sum int64
	for _, n := range info.Bytes {
		sum += n
	}
	if sum != info.TotalBytes() || sum <= 0 {
		t.Errorf("TotalBytes %d, want %d", info.TotalBytes(), sum)
	}
	for _, stage := range []string{"read", "labels", "trees", "write"} {
		if _, ok := info.BuildSeconds[stage]; !ok {
			t.Errorf("no time of stage %q in %v", stage, info.BuildSeconds)
		}
	}
	if w := o.SketchBytes; sketched {
		if n := info.Bytes[codec.KindSketch.String()]; n < int64(covered*max(w, 64)) {
			t.Errorf("%d bytes of sketches", n)
		}
	}
}

// TestBuildTuned tunes on held-out rows, and on training queries.
func TestBuildTuned(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("tunes two forests")
	}
	const dim = 12
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 2000, dim))
	info := b.Build("tuned", &index.Forest{Trees: 8, Holdout: 100, TuneK: 5})
	if c := info.Curve; c == nil || len(c.Points) == 0 || c.K != 5 || c.Queries != 87 { // all but an eighth
		t.Fatalf("curve %+v", c)
	}
	if _, ok := info.Curve.Setting(0.9, 10); !ok {
		t.Errorf("no setting reaches the target: %+v", info.Curve)
	}
	for i, p := range info.Curve.Points[1:] {
		if q := info.Curve.Points[i]; p.Recall < q.Recall || p.Micros <= q.Micros {
			t.Errorf("point %d of the curve is no better than the one before: %+v, %+v", i+1, q, p)
		}
	}
	if r := b.Recall(dbtest.Mixture(3, 100, dim), 5, &db.SearchOptions{Recall: 0.9}); r < 0.87 {
		t.Errorf("recall %.3f at target 0.9", r)
	}

	// A training set apart from the rows.
	sep := b.Build("apart", &index.Forest{TrainingQueries: dbtest.Mixture(4, 600, dim), Holdout: 60, Trees: 8, Members: true})
	if sep.TrainingPoints != 600 || sep.Curve == nil || sep.Curve.Queries != 52 || sep.Rows != 2000 {
		t.Errorf("%d training points, %d rows, curve %+v", sep.TrainingPoints, sep.Rows, sep.Curve)
	}
	if r := b.Recall(dbtest.Mixture(5, 100, dim), 10, &db.SearchOptions{Index: "apart"}); r < 0.92 {
		t.Errorf("recall %.3f at the default target 0.95 with training queries", r)
	}
	b.Check()
}

// TestBuildLifeCycle replaces, lists and drops indexes, beside a snapshot that
// goes on using what it saw.
func TestBuildLifeCycle(t *testing.T) {
	const dim = 8
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 500, dim))
	old := b.Build("x", &index.Forest{NoTune: true, Trees: 4})
	b.Build("w", &index.Forest{NoTune: true, Trees: 2, Learner: "rp"})

	held, err := b.D.Snapshot()
	b.Must(err)
	defer held.Release()
	q := dbtest.Mixture(2, 1, dim)[0]
	params := &db.SearchOptions{Index: "x", Params: &query.Params{}}
	before, _, err := dbtest.Nearest(t.Context(), held.Collection("c"), db.Query{Vector: q}, 5, params)
	b.Must(err)

	fresh := b.Build("x", &index.Forest{NoTune: true, Trees: 7, Learner: "rp"})
	if !fresh.Created.After(old.Created) {
		t.Error("the new index is not newer")
	}
	list := func(s *db.Snapshot) string {
		infos, err := s.Collection("c").Indexes()
		b.Must(err)
		var out []string
		for _, i := range infos {
			out = append(out, fmt.Sprintf("%s:%s:%d", i.Name, i.Kind, i.Options.(*index.Forest).Trees))
		}
		c, err := s.Collection("c").Info()
		b.Must(err)
		return strings.Join(out, " ") + " " + strings.Join(c.Indexes, ",")
	}
	latest := func() (out string) {
		b.Must(b.D.View(func(s *db.Snapshot) error { out = list(s); return nil }))
		return out
	}
	if got, want := latest(), "w:rp:2 x:rp:7 w,x"; got != want {
		t.Errorf("indexes %q, want %q", got, want)
	}
	if got, want := list(held), "w:rp:2 x:kd:4 w,x"; got != want {
		t.Errorf("indexes of the old snapshot %q, want %q", got, want)
	}
	b.Must(b.D.Collection("c").DropIndex(t.Context(), "x"))
	if err := b.D.Collection("c").DropIndex(t.Context(), "x"); !errors.Is(err, db.ErrNotFound) {
		t.Errorf("second drop: %v", err)
	}
	if got, want := latest(), "w:rp:2 w"; got != want {
		t.Errorf("indexes %q after the drop, want %q", got, want)
	}
	after, _, err := dbtest.Nearest(t.Context(), held.Collection("c"), db.Query{Vector: q}, 5, params)
	b.Must(err)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Error("a held snapshot answers differently after its index was dropped")
	}
	held.Release()
	b.Check()
	b.Must(dbtest.LeavesNothing(b.D))
	b.Must(b.D.Drop(t.Context(), "c"))
	b.Check()
	b.Reopen()
	f, err := dbtest.ReadFile(b.Path)
	b.Must(err)
	for _, p := range f.Pairs {
		if object, kind, _ := codec.ParseKey(p.Key); p.Bucket == "blocks" && object != 0 {
			t.Errorf("%v of object %d in an empty database", kind, object)
		}
	}
	b.Must(dbtest.Create(t.Context(), b.D, "c", db.Schema{Dim: dim}))
}

// TestBuildDeterministic builds the same index with one worker and with three,
// and another seed for contrast: with the tuner's clock out of the way, every
// stored block is a function of rows, options and seed.
func TestBuildDeterministic(t *testing.T) {
	t.Parallel()
	const dim = 20
	n := 1000
	if testing.Short() {
		n = 400
	}
	for i, l := range dbtest.Learners {
		if testing.Short() && l.Rotate > 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s_rotate%d", l.Kind, l.Rotate), func(t *testing.T) {
			t.Parallel()
			metric := dbtest.Metrics[i%len(dbtest.Metrics)]
			build := func(workers int, seed uint64) (blocks map[string]string, answers string) {
				b := newBed(t, metric, dim)
				b.Put("a", dbtest.Mixture(1, n, dim))
				b.Drop("a10", "a20")
				o := l.In(index.Forest{
					NoTune: true, Members: true, Seed: seed, Trees: 6,
					Source: []string{"exact", "approximate"}[i%2],
				}, dim)
				_, err := b.D.Collection("c").Build(t.Context(), "x", o, &db.Run{Workers: workers})
				b.Must(err)
				b.Put("b", dbtest.Mixture(2, n/10, dim))
				_, err = b.D.Maintain(t.Context(), 0, &db.Run{Workers: workers}) // a small segment
				b.Must(err)
				answers = b.answers(dbtest.Mixture(5, 20, dim), &db.SearchOptions{Params: uses(o)})
				b.Must(b.D.Close())
				f, err := dbtest.ReadFile(b.Path)
				b.Must(err)
				b.Open()
				blocks = map[string]string{}
				for _, p := range f.Pairs {
					if _, kind, _ := codec.ParseKey(p.Key); p.Bucket == "blocks" && kind != codec.KindManifest { // which has the time
						blocks[string(p.Key)] = string(p.Value)
					}
				}
				return blocks, answers
			}
			one, answers := build(1, 42)
			three, same := build(3, 42)
			if len(one) != len(three) || len(one) < 6 {
				t.Fatalf("%d and %d blocks", len(one), len(three))
			}
			for k, v := range one {
				if three[k] != v {
					object, kind, chunk := codec.ParseKey([]byte(k))
					t.Errorf("block %d %v %d depends on the number of workers", object, kind, chunk)
				}
			}
			if answers != same {
				t.Error("answers depend on the number of workers")
			}
			if l.Kind == forest.KDChrono {
				return // knows no chance
			}
			if other, _ := build(1, 43); maps.Equal(one, other) {
				t.Error("the seed has no effect")
			}
		})
	}
}

// stages are those of a build that report while they run, in order.
var stages = []string{"read", "labels", "trees", "tune", "write"}

// TestBuildProgress checks what a build reports of itself.
func TestBuildProgress(t *testing.T) {
	t.Parallel()
	const dim = 16
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 3000, dim))
	var inside atomic.Int32
	var seen []string
	last := dbtest.Progress{}
	_, err := b.D.Collection("c").Build(t.Context(), "x", &index.Forest{Trees: 4, Holdout: 50}, dbtest.Reporting(func(p dbtest.Progress) {
		if inside.Add(1) != 1 {
			t.Error("called from two goroutines at once")
		}
		defer inside.Add(-1)
		if p.Stage != last.Stage {
			seen = append(seen, p.Stage)
			last = dbtest.Progress{}
		}
		if p.Done < last.Done || p.Total > 0 && p.Done > p.Total || p.Total < 0 || p.Done < 0 {
			t.Errorf("%+v after %+v", p, last)
		}
		last = p
	}))
	b.Must(err)
	want := []string{"read", "rotate", "labels", "sketch", "tune", "tuning trees", "tune", "trees", "write"}
	if !slices.Equal(seen, want) {
		t.Errorf("stages %q, want %q", seen, want)
	}
}

// TestBuildCancel cancels builds at many of the points where they report
// progress, in every stage: nothing of them may stay, and the index that they
// were to replace must answer as before.
func TestBuildCancel(t *testing.T) {
	t.Parallel()
	const dim = 16
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 1200, dim))
	old := b.Build("x", &index.Forest{NoTune: true, Trees: 3, Learner: "rp"})
	queries := dbtest.Mixture(2, 5, dim)
	search := &db.SearchOptions{Index: "x", Params: &query.Params{}}
	want := b.answers(queries, search)

	rng := rand.New(rand.NewPCG(3, 3))
	runs := 24
	if testing.Short() {
		runs = len(stages)
	}
	for i := range runs {
		stage, at := stages[i%len(stages)], 0
		if i >= len(stages) {
			at = int(math.Exp(3 * rng.Float64()))
		}
		o := &index.Forest{Members: true, Trees: 8, Holdout: 30}
		if !strings.HasPrefix(stage, "tun") {
			o.NoTune = true
		}
		ctx, cancel := context.WithCancel(t.Context())
		reports, stopped := 0, false
		_, err := b.D.Collection("c").Build(ctx, "x", o, dbtest.Reporting(func(p dbtest.Progress) {
			if p.Stage == stage {
				if reports == at {
					stopped = true
					cancel()
				}
				reports++
			}
		}))
		cancel()
		switch {
		case !stopped && err == nil:
			// It made fewer reports than that: put the old index back.
			old = b.Build("x", old.Options)
			continue
		case !errors.Is(err, context.Canceled):
			t.Fatalf("cancelled at report %d of stage %q: %v", at, stage, err)
		}
		b.Must(b.D.View(func(s *db.Snapshot) error {
			infos, err := s.Collection("c").Indexes()
			if err == nil && (len(infos) != 1 || !infos[0].Created.Equal(old.Created)) {
				t.Errorf("cancelled at report %d of stage %q: indexes are now %+v", at, stage, infos)
			}
			return err
		}))
		if got := b.answers(queries, search); got != want {
			t.Fatalf("cancelled at report %d of stage %q: the old index answers differently", at, stage)
		}
	}
	b.Check()
	b.Must(dbtest.LeavesNothing(b.D))
	if got := b.answers(queries, search); got != want {
		t.Error("the old index answers differently after reopening")
	}
}

// TestBuildBesideWriters changes rows from within a build: every state of
// before, during and after must be searchable, and the build succeeds even
// where more rows are written and deleted during it than it learns from.
func TestBuildBesideWriters(t *testing.T) {
	t.Parallel()
	const dim = 10
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 600, dim))
	changed := map[string]bool{}
	info, err := b.D.Collection("c").Build(t.Context(), "x", &index.Forest{Holdout: 30, Trees: 4}, dbtest.Reporting(func(p dbtest.Progress) {
		if changed[p.Stage] {
			return
		}
		changed[p.Stage] = true
		if p.Stage == "read" {
			return // a write here is before or after the rows are read, as luck has it
		}
		prefix := fmt.Sprintf("b-%s-", p.Stage)
		b.Put(prefix, dbtest.Mixture(uint64(100+len(changed)), 1000, dim))
		var gone []string
		for i := range 700 {
			gone = append(gone, fmt.Sprintf("%s%d", prefix, i))
		}
		b.Drop(append(gone, fmt.Sprintf("a%d", len(changed)))...)
	}))
	b.Must(err)
	// Rows that the forest cannot know must not count against it.
	if c := info.Curve; c == nil || c.Points[len(c.Points)-1].Recall < 0.95 {
		t.Errorf("the tuner reached %+v", info.Curve)
	}
	if r := b.Recall(dbtest.Mixture(3, 40, dim), 10, &db.SearchOptions{Recall: 0.9}); r < 0.85 {
		t.Errorf("recall %.3f", r)
	}
	b.eachFresh(&db.SearchOptions{Recall: 0.9}, 20)
	b.Check()

	// The collection may also go away, even come back empty.
	_, err = b.D.Collection("c").Build(t.Context(), "y", &index.Forest{NoTune: true}, dbtest.Reporting(func(p dbtest.Progress) {
		if p.Stage == "trees" && b.Rows != nil {
			b.Rows = nil
			b.Must(b.D.Drop(t.Context(), "c"))
			b.Must(dbtest.Create(t.Context(), b.D, "c", db.Schema{Dim: dim}))
		}
	}))
	if !errors.Is(err, db.ErrNotFound) {
		t.Errorf("collection dropped during the build: %v", err)
	}
	b.Check()
	b.Must(dbtest.LeavesNothing(b.D))
}
