package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/dbtest"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// levels are vectors of whole numbers 0 to 255, which are stored as bytes once
// their chunk is sealed.
func levels(rows [][]float32) [][]float32 {
	for _, x := range rows {
		for j := range x {
			x[j] = float32(math.Round(float64(min(max(100+12*x[j], 0), 255))))
		}
	}
	return rows
}

// TestFlatExact compares the exact scan with brute force over all the ways in
// which rows are stored: in the tail, in sealed chunks of float32 or of bytes.
func TestFlatExact(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	for _, metric := range dbtest.Metrics {
		for _, c := range []struct {
			name   string
			n, dim int
			bytes  bool
		}{{"tail", 700, 9, false}, {"sealed", 700, 300, false}, {"bytes", 700, 300, true}} {
			t.Run(fmt.Sprintf("%v/%s", metric, c.name), func(t *testing.T) {
				b := newBed(t, metric, c.dim)
				rows, queries := dbtest.Mixture(1, c.n, c.dim), dbtest.Mixture(2, 12, c.dim)
				if c.bytes {
					rows = levels(rows)
					queries = append(queries, levels(dbtest.Mixture(3, 4, c.dim))...)
				}
				b.Put("a", rows)
				b.Drop("a0", "a511", "a512", "a699")
				b.Put("a", dbtest.Mixture(4, 5, c.dim))
				if info, _ := b.D.Collections(); (info[0].Sealed > 0) != (c.dim == 300) {
					t.Fatalf("%d rows are sealed", info[0].Sealed)
				}
				queries = append(queries, rows[17], make([]float32, c.dim))
				for _, q := range queries {
					want := b.Exact(q, nil)
					for _, k := range []int{1, 10, len(b.Rows)} {
						for _, o := range []*db.SearchOptions{nil, {Index: db.Flat}, {Params: &query.Params{Method: query.Flat}}} {
							hits, stats := b.Search(q, k, o)
							b.Same(q, hits, want[:k], nil)
							if stats.Exact != len(b.Rows) {
								t.Errorf("%d exact distances of %d rows", stats.Exact, len(b.Rows))
							}
						}
					}
				}
			})
		}
	}
}

// TestRecallTargets builds tuned indexes and asks them for recalls. Queries
// are new draws, so what the tuner promises is an estimate: 0.03 for its error
// and ours.
func TestRecallTargets(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, dim, k = 3000, 24, 10
	for _, metric := range dbtest.Metrics {
		t.Run(metric.String(), func(t *testing.T) {
			t.Parallel()
			b := newBed(t, metric, dim)
			b.Put("a", dbtest.Mixture(1, n, dim))
			info := b.Build("x", &index.Forest{Seed: 5})
			queries := dbtest.Mixture(2, 100, dim)
			work := math.Inf(1)
			for _, target := range []float64{0.99, 0.95, 0.9, 0.8} {
				o := &db.SearchOptions{Recall: target}
				r := b.Recall(queries, k, o)
				t.Logf("target %.2f: recall %.3f", target, r)
				if r < target-0.03 {
					t.Errorf("recall %.3f at target %.2f", r, target)
				}
				p, ok := info.Curve.Setting(target, answersK)
				if !ok {
					// Then the answer is exact; but that must be the exception.
					if target < 0.95 || r < 1 {
						t.Errorf("target %.2f is off the curve", target)
					}
					continue
				}
				// The target is nothing but the curve's parameters for that k.
				byTarget, byParams := b.answers(queries[:5], o), b.answers(queries[:5], &db.SearchOptions{Params: &p})
				if byTarget != byParams {
					t.Errorf("target %.2f does not run the curve's parameters", target)
				}
				for _, x := range info.Curve.Points {
					if x.Recall >= target {
						if x.Micros > work {
							t.Errorf("a lower target costs more")
						}
						work = x.Micros
						break
					}
				}
			}
			if b.answers(queries[:5], nil) != b.answers(queries[:5], &db.SearchOptions{Recall: 0.95}) {
				t.Error("the default is not recall 0.95")
			}
			// What no setting was measured to reach is scanned exactly.
			if last := info.Curve.Points[len(info.Curve.Points)-1].Recall; last < 1 {
				hits, stats := b.Search(queries[0], k, &db.SearchOptions{Recall: 1})
				b.Same(queries[0], hits, b.Exact(queries[0], nil)[:k], nil)
				if stats.Exact < n {
					t.Errorf("recall 1 scanned %d rows", stats.Exact)
				}
			}
		})
	}
}

// searchBed is a collection with an index over everything, and fresh rows.
func searchBed(t testing.TB, metric vector.Metric, n, dim int) *bed {
	b := newBed(t, metric, dim)
	b.Put("a", dbtest.Mixture(1, n, dim))
	b.Drop("a7", "a150")
	b.Build("x", &index.Forest{NoTune: true, Members: true, Trees: 12, LeafNeighbors: 50,
		Depth: bits.Len(uint(n / 7)), ListNeighbors: 32})
	b.Put("b", dbtest.Mixture(2, 60, dim))
	b.Drop("a1", "b0", "b50")
	return b
}

// TestFilters compares filtered searches with brute force. Filters of few rows
// must be exact through an index too.
func TestFilters(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const n, dim, k, asked = 4200, 12, 10, 5
	for _, metric := range dbtest.Metrics {
		t.Run(metric.String(), func(t *testing.T) {
			t.Parallel()
			b := searchBed(t, metric, n, dim)
			number := map[string]uint32{}
			b.Must(b.D.View(func(s *db.Snapshot) error {
				for r, err := range s.Collection("c").Rows(t.Context(), nil) {
					if err != nil {
						return err
					}
					number[string(r.Key)] = r.Row
				}
				return nil
			}))
			some := func(keep func(row uint32) bool) *roaring.Bitmap {
				m := roaring.New()
				for row := range uint32(n + 100) { // beyond the rows there are, and deleted ones
					if keep(row) {
						m.Add(row)
					}
				}
				return m
			}
			half := some(func(r uint32) bool { return r%2 == 1 })
			rowsOf := func(m *roaring.Bitmap) *filter.Filter {
				f, err := b.D.Collection("c").RowFilter(m)
				b.Must(err)
				return f
			}
			inHalf := func(key string) bool { return half.Contains(number[key]) }
			label := func(want ...string) func(string) bool {
				return func(key string) bool {
					return slices.ContainsFunc(b.Labels[key], func(l string) bool { return slices.Contains(want, l) })
				}
			}
			even := func(key []byte) bool { return key[len(key)-1]%2 == 0 }
			third := func(r uint32) bool { return r%3 == 0 }
			least := 0.9
			if metric == vector.InnerProduct {
				least = 0.8
			}
			for _, c := range []struct {
				name  string
				o     db.SearchOptions
				pass  func(string) bool
				exact bool // few rows: scanned
			}{
				{"half", db.SearchOptions{Where: rowsOf(half)}, inHalf, false},
				{"labels", db.SearchOptions{Where: filter.HasLabel("mod1", "mod2")}, label("mod1", "mod2"), false},
				{"rare", db.SearchOptions{Where: filter.HasLabel("rare", "no such label")}, label("rare"), true},
				{
					"fresh", db.SearchOptions{Where: filter.KeyPrefix([]byte("b"))},
					func(key string) bool { return key[0] == 'b' }, false,
				},
				{"none", db.SearchOptions{Where: filter.KeyPrefix([]byte("zz"))}, func(string) bool { return false }, true},
				{
					"all", db.SearchOptions{Where: filter.And(rowsOf(half), filter.HasLabel("mod0", "mod2"), filter.Func(even))},
					func(key string) bool { return inHalf(key) && label("mod0", "mod2")(key) && even([]byte(key)) }, true,
				},
				{
					"params and key", db.SearchOptions{Params: &query.Params{Accept: third}, Where: filter.Func(even)},
					func(key string) bool { return third(number[key]) && even([]byte(key)) }, false,
				},
				{
					"params", db.SearchOptions{Params: &query.Params{Accept: third}, Where: rowsOf(half)},
					func(key string) bool { return inHalf(key) && third(number[key]) }, false,
				},
			} {
				before := half.Clone()
				found, possible := 0, 0
				for _, q := range dbtest.Mixture(3, asked, dim) {
					want := b.Exact(q, c.pass)
					want = want[:min(k, len(want))]
					for _, p := range []*query.Params{
						{Method: query.Flat}, {Extra: 20}, {Sketch: true, R: 100},
						{Method: query.Lookup, Extra: 20},
					} {
						o := c.o
						if o.Params != nil {
							p.Accept = o.Params.Accept
						}
						o.Params = p
						hits, stats := b.Search(q, k, &o)
						b.Honest(q, hits, c.pass)
						if len(hits) != len(want) {
							t.Fatalf("%s, %v: %d hits, want %d", c.name, p.Method, len(hits), len(want))
						}
						if c.exact || p.Method == query.Flat {
							b.Same(q, hits, want, c.pass)
						}
						if stats.Exact > n+100 {
							t.Errorf("%s, %v: %d exact distances", c.name, p.Method, stats.Exact)
						}
						for _, h := range hits {
							if slices.ContainsFunc(want, func(w dbtest.Near) bool { return w.Key == string(h.Key) }) {
								found++
							}
						}
						possible += len(want)
					}
				}
				if r := float64(found) / float64(max(1, possible)); possible > 0 && r < least {
					t.Errorf("%s: recall %.3f", c.name, r)
				}
				if !half.Equals(before) {
					t.Fatalf("%s: the search changed the caller's bitmap", c.name)
				}
			}
		})
	}
}

// TestRangeBorder asks for the radius of a hit: it must be in its own range,
// and out of any smaller one, whatever squaring does to the last bit.
func TestRangeBorder(t *testing.T) {
	b := newBed(t, vector.L2, 7)
	b.Put("a", dbtest.Mixture(1, 300, 7))
	for _, q := range dbtest.Mixture(2, 30, 7) {
		hits, _ := b.Search(q, 40, nil)
		for i, h := range hits {
			in, _ := b.Search(q, 0, &db.SearchOptions{Radius: new(float64(h.Distance))})
			if len(in) < i+1 {
				t.Fatalf("the row at distance %v is not in the range of that radius", h.Distance)
			}
			prev := float64(math.Nextafter32(h.Distance, 0))
			// Just below the middle of the two, squaring in single precision
			// would round up.
			for _, below := range []float64{prev, (prev + float64(h.Distance)) / 2 * (1 - 1e-12)} {
				out, _ := b.Search(q, 0, &db.SearchOptions{Radius: &below})
				for _, x := range out {
					if x.Distance >= h.Distance {
						t.Fatalf("a row at distance %v is in the range of radius %v", x.Distance, below)
					}
				}
			}
		}
	}
	b.Put("far", [][]float32{{1e18, 0, 0, 0, 0, 0, 0}}) // farther than the square root of the radius
	for _, radius := range []float64{2e19, math.Inf(1)} {
		if all, _ := b.Search(dbtest.Mixture(2, 1, 7)[0], 0, &db.SearchOptions{Radius: &radius}); len(all) != 301 {
			t.Errorf("%d rows within %g", len(all), radius)
		}
	}
	b.Put("overflow", [][]float32{{1e19, 0, 0, 0, 0, 0, 0}})
	opposite := []float32{-1.5e19, 0, 0, 0, 0, 0, 0} // the squared distance overflows
	for radius, want := range map[float64]int{1e25: 301, math.MaxFloat64: 301, math.Inf(1): 302} {
		if all, _ := b.Search(opposite, 0, &db.SearchOptions{Radius: &radius}); len(all) != want {
			t.Errorf("%d rows within %g, want %d", len(all), radius, want)
		}
	}
}

// A radius of 0 finds the rows that equal the query, in collections of either kind, also those whose
// distance has rounding errors.
func TestRangeOfEqualRows(t *testing.T) {
	const dim, equal = 12, 70 // more than a search within a radius looks for at first
	for _, metric := range dbtest.Metrics[:2] {
		b := newBed(t, metric, dim)
		rows := dbtest.Mixture(1, 500, dim)
		for i := range equal {
			rows[i] = rows[0]
		}
		b.Put("a", rows)
		b.Build("x", &index.Forest{Holdout: 20, Trees: 4})
		for _, index := range []string{"x", db.Flat} {
			hits, _ := b.Search(rows[0], 0, &db.SearchOptions{Radius: new(0.0), Index: index})
			if len(hits) != equal {
				t.Errorf("%v, %s: %d equal rows of %d", metric, index, len(hits), equal)
			}
			if hits, _ = b.Search(dbtest.Mixture(3, 1, dim)[0], 0, &db.SearchOptions{Radius: new(0.0), Index: index}); len(hits) > 0 {
				t.Errorf("%v, %s: %d rows equal another vector", metric, index, len(hits))
			}
		}
	}
	d := newBed(t, vector.L2, dim).D
	s, err := d.Create(t.Context(), "s", db.Schema{Named: true})
	dbtest.Must(t, err)
	q := []vector.Feature{{Name: "a", Value: 3}, {Name: "b", Value: 0.1}, {Name: "c", Value: 7}}
	dbtest.Must(t, d.Update(t.Context(), func(tx *db.Tx) error {
		c := tx.Collection("s")
		return errors.Join(c.Put(db.Row{Key: []byte("same"), Features: q}), c.Put(db.Row{Key: []byte("other"), Features: q[:2]}))
	}))
	res, err := s.Search(t.Context(), db.Query{Features: q}, &db.SearchOptions{Radius: new(0.0)})
	dbtest.Must(t, err)
	if len(res.Hits) != 1 || string(res.Hits[0].Key) != "same" {
		t.Errorf("sparse: %+v", res.Hits)
	}
}

// TestRangeTuned: what the tuner found good for ten neighbours must not cut
// off a range of many more.
func TestRangeTuned(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const dim = 12
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 1500, dim))
	b.Build("x", &index.Forest{Holdout: 60, Trees: 8})
	for _, rows := range []int{1, 5, 40, 80, 300, 1200} {
		for _, k := range []int{0, rows / 2, 2 * rows} {
			found, queries := 0, dbtest.Mixture(2, 40, dim)
			want := rows
			if k > 0 {
				want = min(rows, k)
			}
			for _, q := range queries {
				all := b.Exact(q, nil)
				radius := (all[rows-1].Distance + all[rows].Distance) / 2
				hits, _ := b.Search(q, k, &db.SearchOptions{Radius: &radius})
				b.Honest(q, hits, nil)
				if len(hits) > want+1 || len(hits) > 0 && hits[len(hits)-1].Distance > float32(radius) {
					t.Fatalf("%d hits within %g, k %d, want %d", len(hits), radius, k, want)
				}
				found += len(hits)
			}
			if r := float64(found) / float64(len(queries)*want); r < 0.94 {
				t.Errorf("%.3f of the %d rows in range were found, k %d", r, rows, k)
			}
		}
	}
}

// TestExplain checks what explanations say against what is known about the rows.
func TestExplain(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const dim, k = 12, 12
	for _, metric := range dbtest.Metrics {
		b := searchBed(t, metric, 2000, dim)
		sources := map[string]int{}
		for _, q := range dbtest.Mixture(3, 20, dim) {
			for _, p := range []query.Params{
				{Method: query.Natural, Tau: 0.01, Trees: 1, Sketch: true, R: 30, Beam: 40},
				{Method: query.Lookup}, {Method: query.Voting, Votes: 2}, {Method: query.Flat},
			} {
				o := &db.SearchOptions{Params: &p, Explain: true}
				hits, stats := b.Search(q, k, o)
				b.Honest(q, hits, nil)
				for _, h := range hits {
					if h.Why == nil {
						t.Fatalf("%v %v: hit %q is not explained", metric, p.Method, h.Key)
					}
					sources[sourceOf(h)]++
					b.explained(h, &p, stats)
				}
				plain, _ := b.Search(q, k, &db.SearchOptions{Params: &p})
				for i := range plain {
					if plain[i].Why != nil || plain[i].Row != hits[i].Row {
						t.Fatal("explaining changes the answer")
					}
				}
			}
		}
		for _, s := range []string{"forest", "hop", "fresh", "scan"} {
			if sources[s] == 0 {
				t.Errorf("%v: no hit came from stage %q: %v", metric, s, sources)
			}
		}
		if sources[""] > 0 {
			t.Errorf("%v: %d hits came from nowhere", metric, sources[""])
		}
	}
}

// sourceOf is the stage that found a hit: the first word of its reason.
func sourceOf(h db.Hit) string {
	return h.Why.Text[:strings.IndexFunc(h.Why.Text+" ", func(r rune) bool { return r < 'a' })]
}

// explained checks one explanation.
func (b *bed) explained(h db.Hit, p *query.Params, stats trace.SearchStats) {
	t, why, source := b.T, h.Why, sourceOf(h)
	t.Helper()
	sum := 0.0
	for _, v := range why.Parts {
		sum += v.Score
		if v.Score <= 0 || p.Method == query.Lookup && v.Score != 1 {
			t.Errorf("%+v in %v", v, why)
		}
	}
	elected := strings.Contains(why.Text, fmt.Sprintf("estimate %.3g above ", why.Score))
	fresh := h.Key[0] == 'b'
	switch {
	case (source == "fresh") != (fresh && p.Method != query.Flat), (source == "scan") != (p.Method == query.Flat) && stats.Widened == 0:
		t.Errorf("%q has source %q", h.Key, source)
	case sum < why.Score-1e-9, (sum > 0) != (why.Score > 0):
		t.Errorf("votes %g, estimate %g", sum, why.Score)
	case source == "forest" && (!elected || len(why.Parts) == 0):
		t.Errorf("elected: %v", why)
	case (source == "hop") != strings.Contains(why.Text, " from row "):
		t.Errorf("hop: %v", why)
	case strings.HasSuffix(strings.Split(why.Text, ":")[0], fmt.Sprint(" from row ", h.Row)):
		t.Errorf("row %d is its own list's", h.Row)
	case p.Method == query.Flat && (strings.Contains(why.Text, "leaves") || why.Parts != nil):
		t.Errorf("a scan visited leaves: %v", why)
	case p.Sketch && !fresh && !strings.Contains(why.Text, "by sketch"):
		t.Errorf("no sketch estimate: %v", why)
	}
}

// TestSearchBatch equals Search at any number of workers.
func TestSearchBatch(t *testing.T) {
	t.Parallel()
	const dim = 12
	b := searchBed(t, vector.L2, 1500, dim)
	queries := dbtest.Mixture(3, 50, dim)
	for _, o := range []*db.SearchOptions{
		{Index: db.Flat}, {Params: &query.Params{Sketch: true}, Where: filter.HasLabel("mod1")},
		{Params: &query.Params{Extra: 4}, Explain: true, Radius: new(1.5)},
	} {
		var want []string
		for _, q := range queries {
			hits, _ := b.Search(q, 9, o)
			want = append(want, spell(hits))
		}
		for _, workers := range []int{0, 1, 2, 7, 100} {
			b.Must(b.D.View(func(s *db.Snapshot) error {
				got, err := dbtest.NearestBatch(t.Context(), s.Collection("c"), queries, 9, o, workers)
				b.Must(err)
				for i := range queries {
					if spell(got[i]) != want[i] {
						t.Fatalf("query %d differs at %d workers", i, workers)
					}
				}
				return nil
			}))
		}
	}
	b.Must(b.D.View(func(s *db.Snapshot) error {
		if got, err := dbtest.NearestBatch(t.Context(), s.Collection("c"), nil, 3, nil, 2); err != nil || len(got) != 0 {
			t.Errorf("no queries: %v, %v", got, err)
		}
		bad := append(slices.Clone(queries), []float32{1})
		_, err := dbtest.NearestBatch(t.Context(), s.Collection("c"), bad, 3, &db.SearchOptions{Index: db.Flat}, 3)
		if !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "query 50") {
			t.Errorf("bad query: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := dbtest.NearestBatch(ctx, s.Collection("c"), queries, 3, nil, 2); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		return nil
	}))
}

// spell is hits with all that belongs to them.
func spell(hits []db.Hit) string {
	var out strings.Builder
	for _, h := range hits {
		fmt.Fprintf(&out, "%s %d %x", h.Key, h.Row, math.Float32bits(h.Distance))
		if h.Why != nil {
			fmt.Fprintf(&out, " %+v", *h.Why)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

// TestZeroVectors: under cosine a zero vector is at distance 1 from all.
func TestZeroVectors(t *testing.T) {
	const dim = 8
	for _, metric := range dbtest.Metrics {
		b := newBed(t, metric, dim)
		rows := dbtest.Mixture(1, 300, dim)
		for i := range 20 {
			rows[i*3] = make([]float32, dim)
		}
		b.Put("a", rows)
		b.Build("x", &index.Forest{NoTune: true, Members: true})
		b.Put("b", [][]float32{make([]float32, dim)})
		for _, q := range [][]float32{make([]float32, dim), rows[1], rows[50]} {
			for _, p := range []query.Params{
				{Method: query.Flat}, {}, {Sketch: true}, {Method: query.Lookup},
			} {
				hits, _ := b.Search(q, len(b.Rows), &db.SearchOptions{Params: &p})
				b.Same(q, hits, b.Exact(q, nil), nil)
				near, _ := b.Search(q, 5, &db.SearchOptions{Params: &p})
				b.Honest(q, near, nil)
			}
		}
	}
}

// TestHitsAreCopies scribbles over answers, of searches and of reads.
func TestHitsAreCopies(t *testing.T) {
	dbtest.Whole(t)
	t.Parallel()
	const dim = 300 // some rows sealed, some not
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 600, dim))
	b.Build("x", &index.Forest{NoTune: true})
	q := dbtest.Mixture(2, 1, dim)[0]
	s, err := b.D.Snapshot()
	b.Must(err)
	o := &db.SearchOptions{Params: &query.Params{}, Explain: true}
	hits, _, err := dbtest.Nearest(t.Context(), s.Collection("c"), db.Query{Vector: q}, 600, o)
	b.Must(err)
	first := spell(hits)
	for i := range hits {
		row, err := s.Collection("c").Get(hits[i].Key)
		b.Must(err)
		for j := range row.Key {
			row.Key[j], hits[i].Key[j] = '!', '?'
		}
		clear(row.Vector)
		clear(hits[i].Why.Parts)
	}
	again, _, err := dbtest.Nearest(t.Context(), s.Collection("c"), db.Query{Vector: q}, 600, o)
	b.Must(err)
	if spell(again) != first {
		t.Error("writing to hits changed a later answer")
	}
	if !bytes.Equal(again[0].Key, []byte(b.Exact(q, nil)[0].Key)) {
		t.Error("wrong first hit")
	}
	// Hits outlive their snapshot and their database.
	s.Release()
	b.Must(b.D.Close())
	if spell(again) != first {
		t.Error("hits changed when the database was closed")
	}
	b.Open()
	b.Check()
}

// TestReuse: hits are written to the memory of an earlier result, whose length does not matter.
func TestReuse(t *testing.T) {
	b := newBed(t, vector.L2, 5)
	b.Put("a", dbtest.Mixture(1, 50, 5))
	q := dbtest.Mixture(2, 2, 5)
	ask := func(q []float32, k int, reuse []db.Hit) []db.Hit {
		found, err := b.D.Collection("c").Search(t.Context(), db.Query{Vector: q},
			&db.SearchOptions{K: k, Reuse: reuse})
		b.Must(err)
		return found.Hits
	}
	want := spell(ask(q[1], 6, nil))
	one := ask(q[0], 8, nil)
	two := ask(q[1], 6, one)
	if spell(two) != want || &two[0] != &one[0] || &two[0].Key[0] != &one[0].Key[0] {
		t.Errorf("hits in memory used before: %s, want %s", spell(two), want)
	}
	if more := ask(q[0], 20, two); len(more) != 20 {
		t.Errorf("%d hits, want 20", len(more))
	}
}

// TestNoAllocations: in steady state a search allocates nothing, however often
// the collector runs, and a batch little.
func TestNoAllocations(t *testing.T) {
	if racing {
		t.Skip("allocations are counted without the race detector")
	}
	const dim = 20
	for _, metric := range dbtest.Metrics {
		b := searchBed(t, metric, 2000, dim)
		queries := dbtest.Mixture(3, 16, dim)
		some := roaring.New()
		some.AddRange(0, 2050)
		s, err := b.D.Snapshot()
		b.Must(err)
		defer s.Release()
		filter, err := s.Collection("c").RowFilter(some)
		b.Must(err)
		for name, o := range map[string]*db.SearchOptions{
			"flat":    {Index: db.Flat},
			"natural": {Params: &query.Params{}},
			"stages":  {Params: &query.Params{Sketch: true, Extra: 5, Tau: 0.01}},
			"beam":    {Params: &query.Params{Sketch: true, R: 20, Beam: 40}},
			"lookup":  {Params: &query.Params{Method: query.Lookup}},
			"filter":  {Params: &query.Params{Sketch: true}, Where: filter},
			"range":   {Params: &query.Params{}, Radius: new(2.0)},
		} {
			var dst []db.Hit
			i := 0
			run := func() {
				with := *o
				with.K, with.Reuse = 10, dst[:0]
				q := db.Query{Vector: queries[i%len(queries)]}
				res, err := s.Collection("c").Search(t.Context(), q, &with)
				i++
				dst = res.Hits
				dbtest.Must(t, err)
			}
			for range 2 * len(queries) {
				run()
			}
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%v, %s: %v allocations a search", metric, name, n)
			}
			if name != "beam" {
				continue
			}
			// A new searcher would be dozens of allocations.
			collected := func() {
				runtime.GC()
				runtime.GC()
				run()
			}
			if n := testing.AllocsPerRun(3, collected); n > 10 {
				t.Errorf("%v: %v allocations a search and two collections", metric, n)
			}
			n := testing.AllocsPerRun(3, func() {
				if _, err := dbtest.NearestBatch(t.Context(), s.Collection("c"), queries, 10, o, 1); err != nil {
					t.Fatal(err)
				}
			})
			if n /= float64(len(queries)); n > 4 {
				t.Errorf("%v: %v allocations a query of a batch", metric, n)
			}
		}
	}
}

// TestHugeValues: a few rows of lengths that single precision can just square.
// Builds either work or say what overflows; searches are right all the same.
func TestHugeValues(t *testing.T) {
	t.Parallel()
	const dim, n = 4, 200
	for _, metric := range dbtest.Metrics {
		for _, huge := range []float32{1e17, 1.8e19} {
			b := newBed(t, metric, dim)
			rows := dbtest.Mixture(1, n, dim)
			rows[3], rows[4] = []float32{huge, 0, 0, 0}, []float32{-huge / 2, huge / 2, huge / 2, 0}
			rows[5] = []float32{8 / huge, 8 / huge, 0, 0}
			b.Put("a", rows)
			q := dbtest.Mixture(2, 1, dim)[0]
			ask := func(p query.Params) {
				hits, _ := b.Search(q, n, &db.SearchOptions{Params: &p})
				seen := map[string]bool{}
				for i, h := range hits {
					seen[string(h.Key)] = true
					if h.Distance != h.Distance || i > 0 && h.Distance < hits[i-1].Distance {
						t.Errorf("%v: distance of %q is %g", metric, h.Key, h.Distance)
					}
				}
				if len(seen) != n {
					t.Errorf("%v: %d rows found", metric, len(seen))
				}
			}
			ask(query.Params{Method: query.Flat})
			for _, l := range dbtest.Learners {
				_, err := b.D.Collection("c").Build(t.Context(), "x",
					l.In(index.Forest{NoTune: true, Trees: 4}, dim), nil)
				if err == nil {
					ask(query.Params{Sketch: true})
				} else if !errors.Is(err, db.ErrInvalid) || huge < 1e18 {
					t.Errorf("%v, %s: build: %v", metric, l.Kind, err)
				}
			}
			b.Check()
		}
	}
}

// TestChoiceOfIndex: none, one, several.
func TestChoiceOfIndex(t *testing.T) {
	const dim = 6
	b := newBed(t, vector.L2, dim)
	b.Put("a", dbtest.Mixture(1, 400, dim))
	q := dbtest.Mixture(2, 1, dim)[0]
	ask := func(o *db.SearchOptions) (stats trace.SearchStats, err error) {
		_, stats, err = dbtest.Nearest(t.Context(), b.D.Collection("c"), db.Query{Vector: q}, 3, o)
		return stats, err
	}
	expect := func(what string, o *db.SearchOptions, leaves bool, target error) {
		t.Helper()
		stats, err := ask(o)
		if !errors.Is(err, target) || err == nil && leaves != (stats.Leaves > 0) {
			t.Errorf("%s: %+v, %v; want %v", what, stats, err, target)
		}
	}
	p := &query.Params{}
	expect("no index", nil, false, nil)
	expect("no index, named", &db.SearchOptions{Index: "x"}, false, db.ErrNotFound)
	expect("no index, parameters that need one", &db.SearchOptions{Params: p}, false, db.ErrInvalid)
	b.Build("x", &index.Forest{NoTune: true})
	expect("one untuned", nil, false, db.ErrInvalid)
	expect("one untuned, recall", &db.SearchOptions{Recall: 0.5}, false, db.ErrInvalid)
	expect("one", &db.SearchOptions{Params: p}, true, nil)
	expect("one, flat", &db.SearchOptions{Index: "flat"}, false, nil)
	expect("one, without members", &db.SearchOptions{Params: &query.Params{Method: query.Voting}}, false, db.ErrInvalid)
	b.Build("y", &index.Forest{NoTune: true, Members: true, NoTables: true})
	expect("two, the first one", &db.SearchOptions{Params: p}, true, nil)
	expect("two, x", &db.SearchOptions{Index: "x", Params: p}, true, nil)
	expect("two, y without tables", &db.SearchOptions{Index: "y", Params: p}, false, db.ErrInvalid)
	expect("two, y", &db.SearchOptions{Index: "y", Params: &query.Params{Method: query.Voting}}, true, nil)
	expect("two, flat", &db.SearchOptions{Index: db.Flat}, false, nil)
	b.Must(b.D.Collection("c").DropIndex(t.Context(), "x"))
	expect("one again", &db.SearchOptions{Params: &query.Params{Method: query.Lookup}}, true, nil)
}
