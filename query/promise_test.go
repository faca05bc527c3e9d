package query

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// chosen is conformal risk control from the paper (equation 4), for losses of at most 1: the least λ so that
// n/(n+1)·R(λ) + 1/(n+1) ≤ α, where R is the mean loss of the n queries. losses has those of each λ. It is
// len(losses) if there is none.
func chosen(losses [][]float64, alpha float64) int {
	for lambda, of := range losses {
		n, sum := float64(len(of)), 0.0
		for _, loss := range of {
			sum += loss
		}
		if n/(n+1)*(sum/n)+1/(n+1) <= alpha {
			return lambda
		}
	}
	return len(losses)
}

// hard returns the least λ of so many at which a query of random hardness finds each of its k rows.
func hard(rng *rand.Rand, lambdas, k int) []int {
	hardness := rng.Float64() * rng.Float64()
	out := make([]int, k)
	for i := range out {
		for out[i] < lambdas && rng.Float64() < hardness {
			out[i]++
		}
	}
	return out
}

// lossOf returns the share of rows that are not found at λ.
func lossOf(places []int, lambda int) float64 {
	missed := 0
	for _, p := range places {
		if p > lambda {
			missed++
		}
	}
	return float64(missed) / float64(len(places))
}

// A curve chooses what the paper's rule chooses, and the exact scan where it has no λ. Over draws of
// exchangeable queries, the next query then misses no more rows on average than the rule allows.
func TestConformal(t *testing.T) {
	const lambdas, k, draws = 12, 5, 4000
	rng := rand.New(rand.NewPCG(17, 2208))
	for _, x := range []struct {
		n      int
		recall float64
	}{{9, 0.8}, {30, 0.9}, {50, 0.95}, {200, 0.99}, {98, 0.99}} {
		var sum, squares float64
		for range draws {
			queries := make([][]int, x.n)
			for i := range queries {
				queries[i] = hard(rng, lambdas, k)
			}
			c := Curve{K: k, Queries: x.n}
			losses := make([][]float64, lambdas)
			for lambda := range losses {
				mean := 0.0
				for _, q := range queries {
					losses[lambda] = append(losses[lambda], lossOf(q, lambda))
					mean += lossOf(q, lambda) / float64(x.n)
				}
				c.Points = append(c.Points, Point{Params: Params{Trees: lambda + 1}, Recall: 1 - mean, Micros: float64(lambda)})
			}
			c.Points = append(c.Points, Point{Params: Params{Method: Flat}, Recall: 1, Micros: lambdas})
			p, ok := c.Setting(x.recall, k)
			want := chosen(losses, 1-x.recall)
			if got := p.Trees - 1; !ok || want < lambdas && got != want || (want == lambdas) != (p.Method == Flat) {
				t.Fatalf("%d queries, recall %g: setting %d, want %d", x.n, x.recall, got, want)
			}
			if x.n < 99 && x.recall == 0.99 && p.Method != Flat {
				t.Fatalf("%d queries show a recall of 0.99", x.n)
			}
			loss := 0.0
			if p.Method != Flat {
				loss = lossOf(hard(rng, lambdas, k), want)
			}
			sum += loss
			squares += loss * loss
		}
		mean := sum / draws
		if se := math.Sqrt((squares/draws - mean*mean) / draws); mean > 1-x.recall+3*se {
			t.Errorf("%d queries, recall %g: the next query misses %.4f ± %.4f", x.n, x.recall, mean, se)
		}
	}
}

// Queries of users count by their mean, and a scan by sketches counts as exact as long as it has
// missed nothing.
func TestPromise(t *testing.T) {
	scan := Params{Method: Flat, Sketch: true}
	for _, x := range []struct {
		p             Point
		held, sampled int
		want          float64
	}{
		{Point{Recall: 1}, 99, 0, 0.99},
		{Point{Recall: 0.98}, 99, 0, 0.9702},
		{Point{Recall: 1, Users: 0.95}, 99, 19, 0.95},
		{Point{Recall: 0.9, Users: 1}, 99, 19, 0.891},
		{Point{Recall: 0}, 99, 0, 0},
		{Point{Params: Params{Method: Flat}}, 9, 9, 1},
		{Point{Params: scan, Recall: 1}, 9, 0, 1},
		{Point{Params: scan, Recall: 1, Users: 0.9}, 9, 9, 0.9},
		{Point{Params: scan, Recall: 0.99}, 9, 0, 0.891},
	} {
		c := Curve{Queries: x.held, Sampled: x.sampled}
		if got := c.Promise(&x.p); math.Abs(got-x.want) > 1e-12 {
			t.Errorf("%+v of %d and %d queries: %g, want %g", x.p, x.held, x.sampled, got, x.want)
		}
	}
}

// The recall of a measured setting is that of searching again, unless a later one misses more.
func TestCalibrate(t *testing.T) {
	f := small()
	queries, truth := f.heldOut(10)
	tn := tuner{held: meter{v: f.v, k: 10, set: QuerySet{queries, truth}, lanes: newLanes(2)}}
	schedule := []Params{
		{Trees: 2, Sketch: true, R: 10, Beam: 10}, {Trees: 2, Sketch: true, R: 40, Beam: 40},
		{Trees: 1, Sketch: true, R: 12, Beam: 12},
	}
	points, err := tn.calibrate(context.Background(), schedule)
	must(t, err)
	s := NewSearcher()
	lowest := slices.Repeat([]int{10}, len(queries))
	for i := len(points) - 1; i >= 0; i-- {
		sum, p := 0, schedule[i]
		p.K = 10
		for q, x := range queries {
			found, _, err := s.Search(t.Context(), f.v, x, &p, nil)
			must(t, err)
			lowest[q] = min(lowest[q], common(found, truth[q]))
			sum += lowest[q]
		}
		if got, want := points[i].Recall, float64(sum)/float64(10*len(queries)); math.Abs(got-want) > 1e-9 {
			t.Errorf("setting %d: recall %g, want %g", i, got, want)
		}
	}
	if !(points[0].Micros > 0) || !(points[2].Candidates > 0) {
		t.Errorf("%+v", points)
	}
}

// A schedule consists of the parts of series that are the fastest, and does not go back to an earlier series.
func TestJoin(t *testing.T) {
	line := func(trees int, recalls, micros []float64) series {
		s := series{stride: 2}
		for i := range 2 * len(recalls) {
			s.settings = append(s.settings, Params{Trees: trees, Beam: i})
		}
		for i, r := range recalls {
			s.points = append(s.points, Point{Recall: r, Micros: micros[i]})
		}
		return s
	}
	recalls := []float64{0.7, 0.8, 0.9, 0.95, 0.99, 0.999}
	tn := tuner{shape: meter{k: 10, set: QuerySet{Queries: make([][]float32, 1000)}}, scan: 1000}
	few := line(1, recalls, []float64{1, 2, 4, 8, 90, 900})
	many := line(2, recalls, []float64{6, 7, 8, 9, 10, 20})
	back := line(3, recalls[:3], []float64{50, 60, 70})
	schedule, cost := tn.join([]series{few, many, back})
	if want := (math.Log(2) + math.Log(4) + math.Log(8) + math.Log(10) + math.Log(20)) / 5; math.Abs(cost-want) > 1e-9 {
		t.Errorf("cost %g, want %g", cost, want)
	}
	for i, p := range schedule {
		if i > 0 && (p.Trees < schedule[i-1].Trees || p.Trees == schedule[i-1].Trees && p.Beam <= schedule[i-1].Beam) || p.Trees == 3 {
			t.Errorf("setting %d: %+v after %+v", i, p, schedule[max(0, i-1)])
		}
	}
	// Each part begins below its lowest recall and ends above its highest.
	of := func(trees int) (beams []int) {
		for _, p := range schedule {
			if p.Trees == trees {
				beams = append(beams, p.Beam)
			}
		}
		return beams
	}
	if a, b := of(1), of(2); a[0] != 0 || a[len(a)-1] < 8 || b[0] > 6 || b[len(b)-1] != 11 {
		t.Errorf("few %v, many %v", a, b)
	}
	if got := many.cost(0.95, 1e-4); got != 9 {
		t.Errorf("%g µs for 0.95", got)
	}
	if got := many.cost(1-0.05/math.Sqrt(5), 1e-4); math.Abs(got-math.Sqrt(90)) > 1e-9 {
		t.Errorf("%g µs halfway between 0.95 and 0.99", got)
	}
}

// Each width of a series visits more than the one before it.
func TestBeamSeries(t *testing.T) {
	f := small()
	for _, k := range []int{1, 10, 100} {
		tn := tuner{held: meter{v: f.v, k: k}}
		for _, gaps := range []*gapTable{nil, {depth: max(k, nearestGap), places: []float64{0, 0.1, 0.3}}} {
			last := Params{}
			for i, p := range tn.beams(manyLeaves, gaps).settings {
				if p.Beam <= last.Beam || p.R < last.R || p.R < k || p.Gap < last.Gap || (p.Gap > 0) != (gaps != nil) {
					t.Errorf("k %d, setting %d: %+v after %+v", k, i, p, last)
				}
				last = p
			}
			if last.Beam < f.v.N {
				t.Errorf("k %d: the last setting has %d places of %d rows", k, last.Beam, f.v.N)
			}
		}
	}
}

// Gaps are interpolated between the logarithms of places, and extrapolated beyond the last.
func TestGapTable(t *testing.T) {
	table := gapTable{depth: 10, places: []float64{0, 0.1, 0.3, 0.4}}
	for _, x := range []struct {
		place int
		gap   float64
	}{
		{10, math.SmallestNonzeroFloat32}, {3, math.SmallestNonzeroFloat32}, {20, 0.1}, {40, 0.3},
		{57, 0.351096}, {80, 0.4}, {160, 0.5},
	} {
		if got := table.of(x.place); !(got > 0) || math.Abs(float64(got)-x.gap) > 1e-5 {
			t.Errorf("place %d: gap %g, want %g", x.place, got, x.gap)
		}
	}
}

// The queries that shape a schedule do not measure it, and all of the others do.
func TestSplitQueries(t *testing.T) {
	var set QuerySet
	for i := range 50 {
		set.Queries, set.Truth = append(set.Queries, []float32{float32(i)}), append(set.Truth, make([]uint32, i))
	}
	deep := set.atDepth(10, 1000)
	some, others := deep.split()
	if len(deep.Queries) != 40 || len(some.Queries) != 5 || len(others.Queries) != 35 {
		t.Errorf("%d queries, %d and %d", len(deep.Queries), len(some.Queries), len(others.Queries))
	}
	for _, q := range some.Queries {
		if slices.ContainsFunc(others.Queries, func(x []float32) bool { return x[0] == q[0] }) {
			t.Errorf("query %v shapes and measures", q)
		}
	}
	few := deep.atDepth(10, 8)
	if len(few.Queries) != 8 || few.Queries[0][0] != 10 || few.Queries[7][0] != 45 || len(few.Truth[7]) != 45 {
		t.Errorf("%v", few.Queries)
	}
}
