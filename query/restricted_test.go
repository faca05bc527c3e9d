package query

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// restricted is what restrictedFixture returns, made once.
var restricted struct {
	v             *View
	rows, queries *matrix
	curve         *Curve
}

// restrictedFixture is a tuned view of 6,000 rows in 12 clusters, row i in cluster i mod 12, and
// queries that it does not hold. A test may change the view, which is a copy.
func restrictedFixture(t *testing.T) (v *View, rows, queries *matrix, c *Curve) {
	f := &restricted
	if f.curve == nil {
		const n, d = 6000, 16
		every := clustered(n+300, d, 9)
		f.rows = &matrix{every.data[:n*d], n, d}
		f.queries = &matrix{every.data[(n+200)*d:], 100, d}
		f.v = build(t, f.rows, spec{
			metric: vector.L2, labelsK: 8, rotate: 12, sketch: 64, hops: 16, bytes: true, shift: 8,
			forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 10, Natural: true, Seed: 3},
		})
		var held [][]float32
		var truth [][]uint32
		for i := range 200 {
			q := every.row(n + i)
			held, truth = append(held, q), append(truth, exactly(f.rows, vector.L2, q, 1000, nil))
		}
		curve, err := Tune(t.Context(), f.v, QuerySet{Queries: held, Truth: truth}, TuneOptions{K: 10})
		must(t, err)
		f.curve = curve
	}
	view := *f.v
	return &view, f.rows, f.queries, f.curve
}

// A search delivers the recall that it was tuned for, for any number of neighbors, whatever rows a
// filter or deletions exclude.
func TestRestrictedRecall(t *testing.T) {
	v, rows, queries, curve := restrictedFixture(t)
	half := *v
	half.Deleted = roaring.New()
	for row := uint32(0); int(row) < rows.n; row += 2 {
		half.Deleted.Add(row)
	}
	bitmap := func(pass func(row uint32) bool) *roaring.Bitmap {
		b := roaring.New()
		for row := range uint32(rows.n) {
			if pass(row) {
				b.Add(row)
			}
		}
		return b
	}
	all := func(uint32) bool { return true }
	for name, c := range map[string]struct {
		v *View
		// pass returns the rows that are answers to query i, of cluster i mod 12.
		pass   func(i int) func(row uint32) bool
		accept bool
	}{
		"all":             {v, func(int) func(uint32) bool { return all }, false},
		"half":            {v, func(int) func(uint32) bool { return func(row uint32) bool { return row*2654435761>>31 == 0 } }, false},
		"a tenth":         {v, func(int) func(uint32) bool { return func(row uint32) bool { return row*2654435761>>16%10 == 0 } }, false},
		"a tenth, tested": {v, func(int) func(uint32) bool { return func(row uint32) bool { return row*2654435761>>16%10 == 0 } }, true},
		"own cluster":     {v, func(i int) func(uint32) bool { return func(row uint32) bool { return int(row)%12 == (i+200)%12 } }, false},
		"another cluster": {v, func(i int) func(uint32) bool { return func(row uint32) bool { return int(row)%12 == (i+205)%12 } }, false},
		"few":             {v, func(int) func(uint32) bool { return func(row uint32) bool { return row%500 == 7 } }, false},
		"half deleted":    {&half, func(int) func(uint32) bool { return func(row uint32) bool { return row%2 == 1 } }, false},
	} {
		truth := make([][]uint32, queries.n)
		for i := range truth {
			truth[i] = exactly(rows, vector.L2, queries.row(i), 300, c.pass(i))
		}
		for _, k := range []int{1, 10, 40, 300} {
			for _, asked := range []float64{0.8, 0.95} {
				p, ok := curve.Setting(asked, k)
				if !ok {
					p = Params{Method: Flat}
				}
				p.K = k
				hits, total := 0, 0
				for i := range queries.n {
					pass, want := c.pass(i), truth[i][:min(k, len(truth[i]))]
					p.Filter, p.Accept = nil, nil
					switch {
					case c.accept:
						p.Accept = pass
					case name != "all" && c.v == v:
						p.Filter = bitmap(pass)
					}
					got := search(t, c.v, queries.row(i), p)
					if len(got) != len(want) {
						t.Fatalf("%s: %d answers of %d", name, len(got), len(want))
					}
					for _, h := range got {
						if !pass(h.ID) {
							t.Fatalf("%s: row %d does not pass", name, h.ID)
						}
					}
					hits += common(got, want)
					total += len(want)
				}
				if r := float64(hits) / float64(total); r < asked-0.03 {
					t.Errorf("%s: recall %.3f at k = %d, asked for %.2f", name, r, k, asked)
				}
			}
		}
	}
}

// Where no list leads to the passing rows, their sketches are compared, and few get exact distances.
func TestRestrictedElsewhere(t *testing.T) {
	v, rows, queries, curve := restrictedFixture(t)
	p, ok := curve.Setting(0.95, 10)
	if !ok {
		t.Fatal("no setting")
	}
	p.K = 10
	for i := range 12 {
		p.Filter = roaring.New()
		for row := (i + 205) % 12; row < rows.n; row += 12 {
			p.Filter.Add(uint32(row))
		}
		_, stats, err := NewSearcher().Search(t.Context(), v, queries.row(i), &p, nil)
		if err != nil || stats.Exact > 300 || stats.Widened > 0 {
			t.Errorf("query %d: %d exact distances of %d rows, widened %d times, %v", i, stats.Exact,
				p.Filter.GetCardinality(), stats.Widened, err)
		}
	}
}

// Where the cheapest setting of a recall has no beam, a restricted search takes a beam, which it can widen.
func TestRestrictedLeaves(t *testing.T) {
	v, rows, queries, tuned := restrictedFixture(t)
	curve := *tuned
	leaves := Point{Params: Params{Trees: 1, Sketch: true, R: 15}, Recall: 0.85, Micros: 0.1}
	curve.Points = append([]Point{leaves}, curve.Points...)
	p, ok := curve.Setting(0.8, 10)
	if !ok || p.Beam > 0 {
		t.Fatalf("setting %+v", p)
	}
	p.K = 10
	hits := 0
	for i := range 60 {
		pass := func(row uint32) bool { return int(row)%12 == (i+205)%12 }
		p.Filter = roaring.New()
		for row := range uint32(rows.n) {
			if pass(row) {
				p.Filter.Add(row)
			}
		}
		got, stats, err := NewSearcher().Search(t.Context(), v, queries.row(i), &p, nil)
		if err != nil || stats.Way == ByLeaves {
			t.Fatalf("%v, %v", stats.Way, err)
		}
		hits += common(got, exactly(rows, vector.L2, queries.row(i), 10, pass))
	}
	if r := float64(hits) / 600; r < 0.77 {
		t.Errorf("recall %.3f, asked for 0.80", r)
	}
}

// A prepared filter costs no allocations, however it is answered.
func TestRestrictedAllocations(t *testing.T) {
	v, rows, queries, curve := restrictedFixture(t)
	for _, step := range []int{2, 12, 500} {
		p, _ := curve.Setting(0.95, 10)
		p.K, p.Filter = 10, roaring.New()
		for row := 0; row < rows.n; row += step {
			p.Filter.Add(uint32(row))
		}
		s, dst := NewSearcher(), make([]vector.Neighbor, 0, 100)
		run := func() {
			for i := range 10 {
				if _, _, err := s.Search(t.Context(), v, queries.row(i), &p, dst[:0]); err != nil {
					t.Fatal(err)
				}
			}
		}
		run()
		if n := testing.AllocsPerRun(5, run); n > 0 {
			t.Errorf("one row in %d: %v allocations in 10 searches", step, n)
		}
	}
}

// A scan by sketches is exact if sketches say nothing: then no answer settles before all rows have
// been compared.
func TestScanSettles(t *testing.T) {
	f := small()
	v := f.with(func(v *View) {
		s := *v.Sketch
		s.Keep = nil
		for _, c := range v.Sketch.Keep {
			s.Keep = append(s.Keep, make([]byte, len(c)))
		}
		v.Sketch = SketchEncoder{Width: s.Width, Steps: s.Steps}.View(s.Keep, s.Shift)
	})
	pass := roaring.New()
	for row := uint32(0); row < 2000; row += 2 {
		pass.Add(row)
	}
	for i := range 20 {
		q := f.queries.row(i)
		got := idsOf(search(t, v, q, Params{K: 10, Trees: 1, Sketch: true, R: 10, Beam: 2000, Filter: pass}))
		if want := exactly(f.all, vector.L2, q, 10, pass.Contains); !slices.Equal(got, want) {
			t.Fatalf("query %d: %v, want %v", i, got, want)
		}
	}
}

// The distances of a search are those of the partition space, with which estimates are compared, whatever the
// metric.
func TestSquared(t *testing.T) {
	for _, f := range fixtures() {
		space, _ := partitionSpace(f.all, f.v.Metric)
		s := NewSearcher()
		for i := range 5 {
			q := f.queries.row(i)
			got, _, err := s.Search(t.Context(), f.v, q, &Params{K: 50, Trees: 1, Sketch: true, R: 60, Beam: 60}, nil)
			must(t, err)
			x := q
			if f.v.Metric != vector.L2 {
				x = s.unit
			}
			for _, h := range got {
				want := float64(vector.L2Squared(x, space.row(int(h.ID))))
				if is := float64(s.squared(h.Distance)); math.Abs(is-want) > 1e-4*want+1e-3 {
					t.Fatalf("%v, query %d, row %d: %g, want %g", f.v.Metric, i, h.ID, is, want)
				}
			}
		}
	}
}

// A scan by sketches does not end while rows that are nearer than its answer by estimate are not compared,
// even if many in between changed nothing: here rows whose estimates are far too low.
func TestScanNearer(t *testing.T) {
	f := small()
	for i := range 5 {
		q := f.queries.row(i)
		near := exactly(f.all, vector.L2, q, f.all.n, nil)
		low := make(map[uint32]float32) // nearest first
		for j, row := range near[100:200] {
			low[row] = 1e5 - 500*float32(j)
		}
		v := f.with(func(v *View) {
			var chunks [][]byte
			row := uint32(0)
			for _, c := range v.Sketch.Keep {
				c = slices.Clone(c)
				for end := v.Sketch.Width; end <= len(c); end += v.Sketch.Width {
					norm := c[end-4 : end]
					x := math.Float32frombits(binary.LittleEndian.Uint32(norm)) - low[row]
					binary.LittleEndian.PutUint32(norm, math.Float32bits(x))
					row++
				}
				chunks = append(chunks, c)
			}
			v.Sketch = SketchEncoder{Width: v.Sketch.Width, Steps: v.Sketch.Steps}.View(chunks, v.Sketch.Shift)
		})
		found := search(t, v, q, Params{K: 10, Method: Flat, Sketch: true, R: 16})
		if n := common(found, near[:10]); n < 9 {
			t.Errorf("query %d: %d of 10 rows", i, n)
		}
	}
}

// A scan by sketches that are inaccurate compares more rows exactly, and not always all.
func TestScanGrows(t *testing.T) {
	v, rows, queries, _ := restrictedFixture(t)
	rng := rand.New(rand.NewPCG(8, 8))
	var chunks [][]byte
	for _, c := range v.Sketch.Keep {
		c = slices.Clone(c)
		for i := range c {
			if i%v.Sketch.Width < vector.PackedHead && rng.IntN(2) == 0 {
				c[i] = byte(int8(c[i]) / 2)
			}
		}
		chunks = append(chunks, c)
	}
	v.Sketch = SketchEncoder{Width: v.Sketch.Width, Steps: v.Sketch.Steps}.View(chunks, v.Sketch.Shift)
	grown, found := 0, 0
	for i := range queries.n {
		q := queries.row(i)
		got, stats, err := NewSearcher().Search(t.Context(), v, q, &Params{K: 1, Method: Flat, Sketch: true, R: 1}, nil)
		must(t, err)
		if stats.Way == BySketches && stats.Exact > settleLeast+1 {
			grown++
		}
		if got[0].ID == exactly(rows, vector.L2, q, 1, nil)[0] {
			found++
		}
	}
	if grown == 0 || found < queries.n*9/10 {
		t.Errorf("%d of %d searches compared more rows, %d found the nearest one", grown, queries.n, found)
	}
}

// A restricted search checks the beam that replaces a setting without one: the caller's parameters were
// checked before.
func TestForgedBeamForLeaves(t *testing.T) {
	f := small()
	leaves := Point{Params: Params{Tau: 0.01}, Recall: 0.92, Micros: 1}
	for name, change := range map[string]func(p *Params){
		"valid":     func(*Params) {},
		"method":    func(p *Params) { p.Method = Voting },
		"no method": func(p *Params) { p.Method = 200 },
		"trees":     func(p *Params) { p.Trees = -5 },
		"extra":     func(p *Params) { p.Extra = -5 },
		"tau":       func(p *Params) { p.Tau = 1e300 },
		"nan":       func(p *Params) { p.Tau = math.NaN() },
		"gap":       func(p *Params) { p.Gap = -1 },
	} {
		beam := Point{Params: Params{Tau: 0.01, Sketch: true, Beam: 30, R: 20}, Recall: 0.98, Micros: 9}
		change(&beam.Params)
		c := Curve{K: 10, Queries: 1 << 30, Points: []Point{leaves, beam}}
		p, ok := c.Setting(0.9, 10)
		if !ok || p.Beam > 0 {
			t.Fatalf("%s: setting %+v", name, p)
		}
		p.K, p.Filter = 10, roaring.New()
		for row := uint32(1); row < 2000; row += 2 {
			p.Filter.Add(row)
		}
		s := NewSearcher()
		_, stats, err := s.Search(t.Context(), f.with(func(v *View) { v.Forest = withoutMembers(v.Forest) }), f.queries.row(0), &p, nil)
		if valid := name == "valid"; valid != (err == nil) || !valid && (!errors.Is(err, ErrCurve) || errors.Is(err, ErrParams)) {
			t.Errorf("%s: way %v, %v", name, stats.Way, err)
		}
		if invalid := c.Validate(true, false); (invalid == nil) != (err == nil) {
			t.Errorf("%s: Validate: %v", name, invalid)
		}
	}
}

// withoutMembers returns a forest that has label tables only.
func withoutMembers(f *forest.Forest) *forest.Forest {
	out := *f
	out.MemberDir, out.Members = nil, nil
	return &out
}

// Curves of a forged file may hold anything: searches then find what they find, without a panic and
// without memory beyond what the rows justify.
func TestForgedCurve(t *testing.T) {
	f := small()
	odd := roaring.New()
	for row := uint32(1); row < 2000; row += 2 {
		odd.Add(row)
	}
	v := f.with(func(v *View) { v.Deleted = roaring.BitmapOf(1, 2, 3) })
	numbers := []int{math.MinInt, -1, 0, 1, 2, 7, 1 << 31, math.MaxInt}
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom(numbers)
		gaps := rapid.SampledFrom([]float32{-1, 0, 0.1, 1e38, float32(math.Inf(1)), float32(math.NaN())})
		curve := func(name string) Curve {
			c := Curve{K: number.Draw(t, name)}
			for range rapid.IntRange(0, 3).Draw(t, "points") {
				c.Points = append(c.Points, Point{
					Params: Params{Beam: number.Draw(t, "beam"), R: number.Draw(t, "R"), Sketch: rapid.Bool().Draw(t, "sketch"),
						Trees: number.Draw(t, "trees"), Extra: rapid.IntRange(-1, 3).Draw(t, "extra"),
						Gap: gaps.Draw(t, "gap"), GapFloor: gaps.Draw(t, "floor")},
					Recall: rapid.SampledFrom([]float64{-1e300, 0, 0.9, 1, 1e300}).Draw(t, "recall"),
					Micros: rapid.SampledFrom([]float64{-1e300, 0, 1e300}).Draw(t, "micros"),
				})
			}
			return c
		}
		c := curve("K")
		for range rapid.IntRange(0, 6).Draw(t, "depths") {
			c.Depths = append(c.Depths, curve("depth"))
		}
		k := rapid.SampledFrom([]int{1, 10, 300, 5000}).Draw(t, "k")
		p, ok := c.Setting(0.9, k)
		if !ok {
			return
		}
		p.K = k
		if rapid.Bool().Draw(t, "filter") {
			p.Filter = odd
		}
		got, _, err := NewSearcher().Search(t.Context(), v, f.queries.row(0), &p, nil)
		if err != nil && !errors.Is(err, ErrParams) && !errors.Is(err, ErrCurve) {
			t.Fatal(err)
		}
		if want := 998; p.Filter != nil && err == nil && len(got) != min(k, want) {
			t.Fatalf("%d answers, want %d", len(got), min(k, want))
		}
	})
}

// A width schedule rises with the depth, and has the measured beams at the measured depths.
func TestWidthSchedule(t *testing.T) {
	beam := func(k, beam, r int, recall float64) Point {
		return Point{Params: Params{Beam: beam, R: r, Sketch: true}, Recall: recall + 1e-6, Micros: float64(beam)}
	}
	c := &Curve{K: 10, Queries: 1 << 30,
		Points: []Point{{Recall: 0.5, Micros: 1}, beam(10, 12, 10, 0.9), beam(10, 30, 20, 0.99)},
		Depths: []Curve{
			{K: 1, Queries: 1 << 30, Points: []Point{beam(1, 4, 1, 0.91), beam(1, 9, 3, 0.99)}},
			{K: 100, Queries: 1 << 30, Points: []Point{beam(100, 110, 100, 0.9), beam(100, 200, 150, 0.99)}},
			{K: 1000, Queries: 1 << 30, Points: []Point{beam(1000, 1100, 1000, 0.95)}},
		}}
	for _, x := range []struct {
		recall  float64
		k       int
		beam, r int
		ok      bool
	}{
		{0.9, 1, 4, 1, true}, {0.9, 10, 12, 10, true}, {0.9, 100, 110, 100, true}, {0.9, 1000, 1100, 1000, true},
		{0.9, 2000, 2200, 2000, true}, {0.99, 10, 30, 20, true}, {0.99, 100, 200, 150, true},
		{0.99, 1000, 0, 0, false}, {0.999, 10, 0, 0, false}, {1, 10, 0, 0, false},
		{0.3, 10, 0, 0, true}, // without a beam
	} {
		p, ok := c.Setting(x.recall, x.k)
		if ok != x.ok || p.Beam != x.beam || p.R != x.r {
			t.Errorf("recall %g, k %d: beam %d, R %d, %v, want %d, %d, %v", x.recall, x.k, p.Beam, p.R, ok, x.beam, x.r, x.ok)
		}
	}
	last := 0
	for k := 1; k < 3000; k += 1 + k/7 {
		p, ok := c.Setting(0.9, k)
		if !ok || p.Beam < last || p.Beam < k || p.R > p.Beam {
			t.Errorf("k %d: beam %d after %d, R %d, %v", k, p.Beam, last, p.R, ok)
		}
		last = p.Beam
	}
	if n := testing.AllocsPerRun(10, func() { c.Setting(0.9, 33) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, ok := (*Curve)(nil).Setting(0.5, 10); ok {
		t.Error("a setting without a curve")
	}
}

// Beams are tuned for other depths where enough true neighbors are known.
func TestTuneDepths(t *testing.T) {
	_, _, _, c := restrictedFixture(t)
	var ks []int
	for _, d := range c.Depths {
		ks = append(ks, d.K)
		for _, p := range d.Points {
			if p.Params.Method == Flat {
				continue
			}
			if p.Params.Beam < d.K || p.Params.R < d.K || p.Params.R > p.Params.Beam || p.Recall <= 0 || p.Recall > 1 ||
				p.Micros <= 0 || math.IsNaN(p.Micros) {
				t.Errorf("depth %d: %+v", d.K, p)
			}
		}
	}
	if got := fmt.Sprint(ks); got != "[1 100 1000]" {
		t.Errorf("depths %s", got)
	}
}

// A restricted search has a gap, too: to the k-th passing row, wherever it is.
func TestRestrictedGap(t *testing.T) {
	f := small()
	v := f.with(func(v *View) {
		v.Deleted = roaring.New()
		for row := uint32(0); row < uint32(v.N); row += 7 {
			v.Deleted.Add(row)
		}
	})
	s := NewSearcher()
	work := func(gap float32) (sketched, hits int) {
		for i := range f.queries.n {
			q := f.queries.row(i)
			p := Params{K: 10, Trees: 2, Sketch: true, R: 30, Beam: 50, Gap: gap}
			found, stats, err := s.Search(t.Context(), v, q, &p, nil)
			must(t, err)
			exact, _, err := s.Search(t.Context(), v, q, &Params{K: 10, Method: Flat}, nil)
			must(t, err)
			sketched += stats.Sketched
			for _, h := range found {
				if slices.Contains(exact, h) {
					hits++
				}
			}
		}
		return sketched, hits
	}
	all, most := work(0)
	narrow, fewer := work(0.3)
	if narrow >= all || fewer < most*9/10 || most < 9*f.queries.n {
		t.Errorf("%d sketches and %d hits with a gap, %d and %d without", narrow, fewer, all, most)
	}
}
