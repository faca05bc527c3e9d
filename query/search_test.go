package query

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

func search(t testing.TB, v *View, q []float32, p Params) []vector.Neighbor {
	t.Helper()
	found, _, err := NewSearcher().Search(context.Background(), v, q, &p, nil)
	must(t, err)
	return found
}

// full is a setting that uses every stage.
var full = Params{K: 10, Trees: 6, Tau: 0.01, Sketch: true, R: 40, Beam: 60}

// stages are settings with one stage more each.
func stages() map[string]Params {
	return map[string]Params{
		"flat": {K: 10, Method: Flat}, "natural": {K: 10, Tau: 0.05}, "zero": {K: 10, Method: NaturalZero},
		"voting": {K: 10, Method: Voting, Votes: 2}, "lookup": {K: 10, Method: Lookup, Trees: 3},
		"extra": {K: 10, Trees: 2, Extra: 9}, "sketch": {K: 10, Sketch: true},
		"full": full,
		"beam": {K: 10, Trees: 1, Sketch: true, R: 15, Beam: 25},
	}
}

// Flat is brute force, ties by row, for every metric and way to store rows.
func TestFlatIsBruteForce(t *testing.T) {
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		for _, bytes := range []bool{false, true} {
			m := clustered(600, 9, 2)
			for i := range 40 {
				copy(m.row(i), m.row(599-i)) // ties
			}
			v := build(t, m, spec{metric: metric, bytes: bytes, shift: 6})
			if v.Rows.Uint8[0] != bytes || len(v.Rows.Tail) == 0 {
				t.Fatal("not the rows the test is about")
			}
			for qi := range 30 {
				q := m.row(qi * 7)
				got := search(t, v, q, Params{K: 15, Method: Flat})
				want := exactly(m, metric, q, 15, nil)
				if metric == vector.L2 && !slices.Equal(idsOf(got), want) {
					t.Fatalf("bytes %v: %v, want %v", bytes, got, want)
				}
				// Other metrics round: the distances must agree, and order
				// their own ties by row.
				for i, id := range want {
					ref := search(t, v, q, Params{K: 1, Method: Flat, Filter: roaring.BitmapOf(id)})[0].Distance
					if d := math.Abs(float64(got[i].Distance - ref)); d > 1e-6*math.Max(1, math.Abs(float64(ref))) {
						t.Fatalf("%v: answer %d has distance %v, want %v", metric, i, got[i].Distance, ref)
					}
					if i > 0 && nearer(got[i-1], got[i]) >= 0 {
						t.Fatalf("%v: answers out of order: %v", metric, got)
					}
				}
			}
		}
	}
}

// Distances are the metric's, for whole and broken queries, in chunks, tail
// and with or without stored norms.
func TestDistances(t *testing.T) {
	m := clustered(300, 17, 3)
	for i := range m.d {
		m.data[i] = 0 // a zero row in a chunk
		m.data[299*m.d+i] = 0
	}
	for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
		for _, bytes := range []bool{false, true} {
			for _, norms := range []bool{false, true} {
				v := build(t, m, spec{metric: metric, bytes: bytes, shift: 5})
				if !norms {
					v.Rows.InvNorm = nil
				}
				for _, shift := range []float32{0, 0.25, -300} {
					q := slices.Clone(m.row(50))
					q[3] += shift
					for _, n := range search(t, v, q, Params{K: 300, Method: Flat}) {
						x := m.row(int(n.ID))
						want := vector.L2Squared(q, x)
						switch metric {
						case vector.Cosine:
							want = vector.CosineDistance(q, x)
						case vector.InnerProduct:
							want = -vector.Dot(q, x)
						}
						if math.Abs(float64(n.Distance-want)) > 1e-6*math.Max(1, math.Abs(float64(want))) {
							t.Fatalf("%v bytes %v norms %v: row %d at %v, want %v", metric, bytes, norms, n.ID, n.Distance, want)
						}
					}
				}
			}
		}
	}
}

// Every stage finds most true neighbours, and full ones nearly all.
func TestRecall(t *testing.T) {
	for _, f := range fixtures() {
		metric := f.v.Metric
		queries, truth := f.heldOut(10)
		for name, p := range stages() {
			hits := 0
			for i, q := range queries {
				hits += common(search(t, f.v, q, p), truth[i])
			}
			least := 0.6
			switch {
			case name == "flat":
				least = 1
			case metric == vector.InnerProduct:
				// The largest products are of few rows far from all queries.
				least = 0.3
			case name == "full":
				least = 0.95
			}
			if r := float64(hits) / float64(10*f.queries.n); r < least {
				t.Errorf("%v %s: recall %.3f", metric, name, r)
			}
		}
	}
}

// Sketches that keep everything change nothing.
func TestFiltersThatKeepEverythingChangeNothing(t *testing.T) {
	f := small()
	for i := range f.queries.n {
		q := f.queries.row(i)
		p := Params{K: 10, Tau: 0.02}
		want := search(t, f.v, q, p)
		p.Sketch, p.R = true, 5000
		if got := search(t, f.v, q, p); !slices.Equal(got, want) {
			t.Fatalf("sketch: %v, want %v", got, want)
		}
		p.Sketch = false
		lone := f.with(func(v *View) { v.Sketch, v.Neighbors = nil, nil })
		if got := search(t, lone, q, full); len(got) != 10 {
			t.Fatalf("parts that are missing are used: %v", got)
		}
	}
}

// Row numbers in damaged label lists are ignored.
func TestDamagedLabelLists(t *testing.T) {
	f := small()
	v := f.with(func(v *View) {
		nv := *v.Neighbors
		nv.Blocks = slices.Clone(nv.Blocks)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range nv.Blocks {
			b := &nv.Blocks[i]
			b.Starts, b.IDs = slices.Clone(b.Starts), slices.Clone(b.IDs)
			for j := range b.Starts {
				if rng.IntN(4) == 0 {
					b.Starts[j] = uint16(rng.Uint32())
				}
			}
			for j := range b.IDs {
				if rng.IntN(2) == 0 {
					b.IDs[j] = rng.Uint32() | 1<<11
				}
			}
		}
		if err := nv.Check(v.N); !errors.Is(err, ErrView) {
			t.Errorf("damaged lists: %v", err)
		}
		v.Neighbors = &nv
	})
	for i := range f.queries.n {
		if found := search(t, v, f.queries.row(i), full); len(found) != 10 {
			t.Fatalf("%d answers", len(found))
		}
	}
}

// Answers are min(k, live rows that pass), all of them pass, none is deleted,
// fresh rows are found, and restricted answers are good.
func TestFilters(t *testing.T) {
	f := small()
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.SampledFrom([]float64{0, 0.001, 0.01, 0.1, 0.5, 1}).Draw(t, "share")
		dead := rapid.SampledFrom([]float64{0, 0.3, 0.99, 1}).Draw(t, "dead")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		pass, deleted := roaring.New(), roaring.New()
		for i := range uint32(f.v.Rows.N + 50) {
			if rng.Float64() < share {
				pass.Add(i)
			}
			if rng.Float64() < dead {
				deleted.Add(i)
			}
		}
		v := f.with(func(v *View) { v.Deleted = deleted })
		allowed := func(row uint32) bool { return pass.Contains(row) && !deleted.Contains(row) }
		names := []string{"flat", "natural", "zero", "voting", "lookup", "extra", "sketch", "full"}
		p := stages()[rapid.SampledFrom(names).Draw(t, "stage")]
		p.K = rapid.SampledFrom([]int{1, 10, 300, 3000}).Draw(t, "k")
		if rapid.Bool().Draw(t, "bitmap") {
			p.Filter = pass
		} else {
			p.Accept = pass.Contains
		}
		p.NoWiden = rapid.Bool().Draw(t, "narrow")
		q := f.queries.row(rapid.IntRange(0, f.queries.n-1).Draw(t, "query"))
		got, stats, err := NewSearcher().Search(context.Background(), v, q, &p, nil)
		must(t, err)
		want := exactly(f.all, vector.L2, q, p.K, allowed)
		if len(got) > len(want) || len(got) < len(want) && !p.NoWiden {
			t.Fatalf("%d answers, want %d", len(got), len(want))
		}
		for i, n := range got {
			if !allowed(n.ID) {
				t.Fatalf("row %d does not pass", n.ID)
			}
			if i > 0 && nearer(got[i-1], n) >= 0 {
				t.Fatalf("out of order: %v", got)
			}
		}
		few := p.Filter != nil && !p.NoWiden && pass.GetCardinality() <= fewPassing
		if (p.Method == Flat || few) && !slices.Equal(idsOf(got), want) {
			t.Fatalf("an exact scan found %v, want %v", idsOf(got), want)
		}
		if p.NoWiden && stats.Widened > 0 {
			t.Fatal("widened")
		}
	})
}

// A filter of many rows keeps the recall by widening.
func TestRecallUnderAccept(t *testing.T) {
	f := small()
	hits, total := 0, 0
	for i := range f.queries.n {
		p := Params{K: 10, Trees: 2, Tau: 0.1, Sketch: true, R: 30}
		p.Accept = func(row uint32) bool { return row%16 == 3 }
		want := exactly(f.all, vector.L2, f.queries.row(i), 10, p.Accept)
		hits += common(search(t, f.v, f.queries.row(i), p), want)
		total += len(want)
	}
	if r := float64(hits) / float64(total); r < 0.8 {
		t.Errorf("recall %.3f", r)
	}
}

// Rows newer than the index are found by every setting.
func TestFreshRows(t *testing.T) {
	f := small()
	for name, p := range stages() {
		for row := f.v.N; row < f.v.Rows.N; row += 9 {
			p.K = 1
			got, stats, err := NewSearcher().Search(context.Background(), f.v, f.all.row(row), &p, nil)
			if err != nil || len(got) != 1 || got[0].Distance != 0 {
				t.Fatalf("%s: row %d: %v, %v", name, row, got, err)
			}
			if p.Method != Flat && stats.Fresh != 100 {
				t.Fatalf("%s: %d fresh rows", name, stats.Fresh)
			}
		}
	}
}

// A range search returns the found rows within the radius, bounded by k.
func TestRange(t *testing.T) {
	f := small()
	for i := range 20 {
		q := f.queries.row(i)
		order := exactly(f.all, vector.L2, q, 200, nil)
		radius := vector.L2Squared(q, f.all.row(int(order[50])))
		within := 0
		for j := range f.all.n {
			if vector.L2Squared(q, f.all.row(j)) <= radius {
				within++
			}
		}
		got := search(t, f.v, q, Params{Method: Flat, Range: true, Radius: radius})
		if !slices.Equal(idsOf(got), order[:within]) {
			t.Fatalf("%v, want %v", idsOf(got), order[:within])
		}
		got = search(t, f.v, q, Params{Method: Flat, Range: true, Radius: radius, K: 7})
		if !slices.Equal(idsOf(got), order[:7]) {
			t.Fatalf("%v, want %v", idsOf(got), order[:7])
		}
		if got = search(t, f.v, q, Params{Range: true, Radius: -1, K: 7}); len(got) != 0 {
			t.Fatalf("negative radius: %v", got)
		}
		found := search(t, f.v, q, Params{Range: true, Radius: radius})
		if common(found, order[:within]) != len(found) || len(found) < within/2 {
			t.Fatalf("%d of %d rows within, of them true %d", len(found), within, common(found, order[:within]))
		}
	}
}

// The same search gives the same answer, whatever the Searcher did before.
func TestDeterminism(t *testing.T) {
	f := small()
	other := cosine()
	used := NewSearcher()
	for name, p := range stages() {
		for i := range 8 {
			q := f.queries.row(i)
			want := search(t, f.v, q, p)
			if _, _, err := used.Search(context.Background(), other.v, other.queries.row(i), &full, nil); err != nil {
				t.Fatal(err)
			}
			got, _, err := used.Search(context.Background(), f.v, q, &p, nil)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %v, want %v (%v)", name, got, want, err)
			}
		}
	}
}

// The marks of visited rows survive the wrap of their counter.
func TestEpochWraps(t *testing.T) {
	f := small()
	s := NewSearcher()
	q := f.queries.row(1)
	want := search(t, f.v, q, full)
	for i := range 5 {
		got, _, err := s.Search(context.Background(), f.v, q, &full, nil)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("search %d: %v, want %v", i, got, want)
		}
		if i == 1 {
			s.epoch = math.MaxUint16 - 1
		}
	}
}

// Steady state allocates nothing.
func TestZeroAllocations(t *testing.T) {
	ctx := context.Background()
	for _, f := range fixtures() {
		v := f.with(func(v *View) { v.Deleted = roaring.BitmapOf(1, 2, 3) })
		p := stages()
		p["range"] = Params{Range: true, Radius: 2000, K: 5}
		p["filter"] = Params{K: 10, Accept: func(row uint32) bool { return row%2 == 0 }}
		for name, p := range p {
			s := NewSearcher()
			dst := make([]vector.Neighbor, 0, 4000)
			run := func() {
				for i := range 10 {
					if _, _, err := s.Search(ctx, v, f.queries.row(i), &p, dst[:0]); err != nil {
						t.Fatal(err)
					}
				}
			}
			run()
			if n := testing.AllocsPerRun(5, run); n != 0 {
				t.Errorf("%v %s: %v allocations", v.Metric, name, n)
			}
		}
	}
}

// A context that ends stops the search, and dst stays as it was.
func TestCancellation(t *testing.T) {
	f := small()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dst := []vector.Neighbor{{ID: 7}}
	for name, p := range stages() {
		got, _, err := NewSearcher().Search(ctx, f.v, f.queries.row(0), &p, dst)
		if !errors.Is(err, context.Canceled) || !slices.Equal(got, dst) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// In the middle of a scan.
	m := clustered(20_000, 4, 1)
	v := build(t, m, spec{metric: vector.L2})
	for _, filter := range []*roaring.Bitmap{nil, roaring.New()} {
		ctx, cancel = context.WithCancel(context.Background())
		seen := 0
		p := Params{K: 1, Method: Flat, Filter: filter, Accept: func(uint32) bool { seen++; cancel(); return true }}
		if filter != nil {
			filter.AddRange(0, 20_000)
		}
		if _, _, err := NewSearcher().Search(ctx, v, m.row(0), &p, nil); !errors.Is(err, context.Canceled) || seen != 1 {
			t.Errorf("stopped after %d rows: %v", seen, err)
		}
	}
}

// Views of no rows, one row, and no forest answer.
func TestTinyViews(t *testing.T) {
	empty := &View{Metric: vector.L2, Dim: 2, Rows: RowSet{Dim: 2}}
	must(t, empty.Validate())
	if got := search(t, empty, []float32{1, 2}, Params{K: 3, Method: Flat}); len(got) != 0 {
		t.Fatal(got)
	}
	m := clustered(3, 5, 1)
	v := build(t, m, spec{
		metric: vector.L2, labelsK: 3, rotate: 2, sketch: 64, hops: 2,
		forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 1, Members: true, Natural: true},
	})
	for name, p := range stages() {
		if got := search(t, v, m.row(1), p); len(got) != 3 || got[0].Distance != 0 {
			t.Fatalf("%s: %v", name, got)
		}
	}
}
