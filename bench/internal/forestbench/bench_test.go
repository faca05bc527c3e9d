package forestbench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// clusters draws rows around a few centres.
func clusters(n, d int, seed uint64) *Matrix {
	rng := rand.New(rand.NewPCG(seed, 1))
	centres := make([]float64, 12*d)
	for i := range centres {
		centres[i] = 4 * rng.NormFloat64()
	}
	m := &Matrix{Data: make([]float32, n*d), N: n, D: d}
	for i := range n {
		c := rng.IntN(12)
		for j := range d {
			m.Data[i*d+j] = float32(centres[c*d+j] + rng.NormFloat64())
		}
	}
	return m
}

// split cuts the last rows off as queries.
func split(m *Matrix, queries int) (*Matrix, [][]float32) {
	n := m.N - queries
	var q [][]float32
	for i := n; i < m.N; i++ {
		q = append(q, m.Row(i, nil))
	}
	return &Matrix{Data: m.Data[:n*m.D], N: n, D: m.D}, q
}

func TestRun(t *testing.T) {
	rows, queries := split(clusters(900, 12, 1), 60)
	kinds := Kinds()
	if testing.Short() {
		kinds = []string{"kd", "kd-chrono", "rf-rot"}
	}
	seen := 0
	o := Options{K: 5, Kinds: kinds, Depths: []int{3, 5, 19}, Trees: 6, VoteTrees: 20, LabelsK: 15, Rounds: 2, Rotate: 8}
	o.Measured = func(_ string, p []Point) { seen += len(p) }
	res, err := Run(context.Background(), rows, vector.L2, queries, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := Forests(res); !slices.Equal(got, kinds) {
		t.Errorf("forests %v, want %v", got, kinds)
	}
	if seen != len(res) {
		t.Errorf("%d points reported, %d returned", seen, len(res))
	}
	// A depth of 19 has more leaves than there are rows, and leaves of 105 rows
	// at depth 3 are too large for the natural classifier.
	for _, p := range res {
		natural := p.Method == query.Natural.String() || p.Method == query.NaturalZero.String()
		if p.Depth == 19 || natural && p.Depth == 3 {
			t.Errorf("%s %s at depth %d", p.Forest, p.Method, p.Depth)
		}
	}
	for _, p := range res {
		if !(p.Recall >= leastRecall-0.2 && p.Recall <= 1) || !(p.Micros > 0) || p.Trees < 1 || p.Trees > 24 || !(p.Candidates > 0) {
			t.Fatalf("impossible point %+v", p)
		}
	}
	for _, f := range kinds {
		for _, m := range Methods() {
			if strings.HasPrefix(f, "kd-chrono") && (m == query.Voting || m == query.Lookup) {
				continue // its trees are all alike, so votes say nothing
			}
			if _, ok := Best(res, f, m.String(), 0.8); !ok {
				t.Errorf("%s %v does not reach recall 0.8 on easy data", f, m)
			}
		}
	}
}

// The answers of a point can be had again with its parameters: the sweep's
// recall is that of the whole pipeline, and the same at every run.
func TestRunIsReproducible(t *testing.T) {
	rows, queries := split(clusters(500, 6, 2), 30)
	o := Options{K: 3, Kinds: []string{"kd"}, Depths: []int{4}, Trees: 4, LabelsK: 10, Rounds: 1, Seed: 7}
	recalls := func() map[Point]float64 {
		res, err := Run(context.Background(), rows, vector.L2, queries, o)
		if err != nil {
			t.Fatal(err)
		}
		out := map[Point]float64{}
		for _, p := range res {
			recall := p.Recall
			p.Recall, p.Micros = 0, 0
			out[p] = recall
		}
		return out
	}
	a, b := recalls(), recalls()
	// Which settings are timed depends on the clock; their recall does not.
	for p, recall := range a {
		if other, ok := b[p]; ok && other != recall {
			t.Errorf("%+v: recall %g, then %g", p, recall, other)
		}
	}
}

func TestRunErrors(t *testing.T) {
	rows, queries := split(clusters(100, 4, 3), 10)
	good := Options{K: 3, Kinds: []string{"kd"}, Depths: []int{3}, Trees: 2, LabelsK: 5}
	for name, change := range map[string]func(*Options){
		"k zero":       func(o *Options) { o.K = 0 },
		"k large":      func(o *Options) { o.K = 91 },
		"kind":         func(o *Options) { o.Kinds = []string{"oak"} },
		"no kind":      func(o *Options) { o.Kinds = nil },
		"depth":        func(o *Options) { o.Depths = []int{0} },
		"depths large": func(o *Options) { o.Depths = []int{12} },
		"trees":        func(o *Options) { o.Trees = -1 },
		"labels":       func(o *Options) { o.LabelsK = -1 },
	} {
		o := good
		change(&o)
		if _, err := Run(context.Background(), rows, vector.L2, queries, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v, want ErrOptions", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, rows, vector.L2, queries, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Exact search through the view agrees with the definition of each metric, in
// bytes and in floats.
func TestCorpus(t *testing.T) {
	bytesOf := func(m *Matrix) *Matrix {
		for i, x := range m.Data {
			m.Data[i] = float32(math.Round(float64(min(255, max(0, 20*x+100)))))
		}
		return m
	}
	for _, c := range []struct {
		name  string
		m     *Matrix
		bytes bool
	}{
		{"float32", clusters(220, 7, 4), false},
		{"bytes", bytesOf(clusters(220, 7, 4)), true},
	} {
		for _, metric := range []vector.Metric{vector.L2, vector.Cosine, vector.InnerProduct} {
			t.Run(c.name+" "+metric.String(), func(t *testing.T) {
				rows, queries := split(c.m, 20)
				corpus := newCorpus(rows, metric)
				if corpus.bytes != c.bytes {
					t.Fatalf("bytes %v, want %v", corpus.bytes, c.bytes)
				}
				if err := corpus.base.Validate(); err != nil {
					t.Fatal(err)
				}
				s := query.NewSearcher()
				for _, q := range queries {
					found, _, err := s.Search(context.Background(), &corpus.base, q, &query.Params{K: 1, Method: query.Flat}, nil)
					if err != nil {
						t.Fatal(err)
					}
					best := math.Inf(1)
					for i := range rows.N {
						best = min(best, distance(metric, q, rows.Row(i, nil)))
					}
					if got := distance(metric, q, rows.Row(int(found[0].ID), nil)); got > best+1e-4*math.Abs(best) {
						t.Fatalf("nearest at %g, want %g", got, best)
					}
				}
			})
		}
	}
}

// distance is the metric by its definition, in float64.
func distance(m vector.Metric, a, b []float32) float64 {
	var dot, na, nb, l2 float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot += x * y
		na += x * x
		nb += y * y
		l2 += (x - y) * (x - y)
	}
	switch m {
	case vector.Cosine:
		return 1 - dot/math.Sqrt(na*nb)
	case vector.InnerProduct:
		return -dot
	}
	return l2
}

// With the other metrics the partition space differs from the rows; a forest
// that sees everything must still find everything.
func TestRunMetrics(t *testing.T) {
	for _, metric := range []vector.Metric{vector.Cosine, vector.InnerProduct} {
		rows, queries := split(clusters(400, 8, 5), 20)
		res, err := Run(context.Background(), rows, metric, queries, Options{K: 3, Kinds: []string{"rp", "kd-rot"}, Depths: []int{3}, Trees: 8, LabelsK: 20, Rounds: 1, Rotate: 6})
		if err != nil {
			t.Fatalf("%v: %v", metric, err)
		}
		for _, f := range []string{"rp", "kd-rot"} {
			if _, ok := Best(res, f, "natural-zero", 0.9); !ok {
				t.Errorf("%v: %s natural-zero never reaches recall 0.9", metric, f)
			}
		}
	}
}

func TestServesAt(t *testing.T) {
	for _, c := range []struct {
		depths          []int
		labels, members []int
	}{
		{[]int{8, 10, 12, 13}, []int{10, 12, 13}, []int{8, 10, 12}},
		{[]int{4, 5}, []int{5}, []int{4, 5}},
		{[]int{14, 13}, []int{14, 13}, []int{13}},
	} {
		if got := servesAt(c.depths, 60_000, false); !slices.Equal(got, c.labels) {
			t.Errorf("%v for natural: %v, want %v", c.depths, got, c.labels)
		}
		if got := servesAt(c.depths, 60_000, true); !slices.Equal(got, c.members) {
			t.Errorf("%v for voting: %v, want %v", c.depths, got, c.members)
		}
	}
}

var sample = []Point{
	{Forest: "kd", Method: "natural", Depth: 12, Trees: 8, Tau: 0.01, Recall: 0.91, Micros: 20, Candidates: 100},
	{Forest: "kd", Method: "natural", Depth: 13, Trees: 9, Tau: 0.02, Recall: 0.92, Micros: 18, Candidates: 90},
	{Forest: "kd", Method: "natural-zero", Depth: 13, Trees: 4, Recall: 0.90, Micros: 44, Candidates: 400},
	{Forest: "kd", Method: "voting", Depth: 10, Trees: 12, Votes: 2, Recall: 0.93, Micros: 30, Candidates: 200},
	{Forest: "kd", Method: "lookup", Depth: 8, Trees: 12, Recall: 0.89, Micros: 25, Candidates: 900},
	{Forest: "rp", Method: "natural", Depth: 8, Trees: 12, Tau: 0.1, Recall: 0.89, Micros: 25.5, Candidates: 901},
	{Forest: "rp", Method: "voting", Depth: 8, Trees: 12, Votes: 3, Recall: 0.89, Micros: 15.25, Candidates: 902},
	{Forest: "index main", Method: "full pipeline", Recall: 0.99, Micros: 9},
}

func TestBest(t *testing.T) {
	points := sample
	p, ok := Best(points, "kd", "natural", 0.9)
	if !ok || p.Trees != 9 {
		t.Errorf("best %+v %v", p, ok)
	}
	if _, ok := Best(points, "kd", "natural", 0.95); ok {
		t.Error("a recall that nothing reaches has a best setting")
	}
	if got := Forests(points); !slices.Equal(got, []string{"kd", "rp"}) {
		t.Errorf("forests %v", got)
	}
}

func TestVerdicts(t *testing.T) {
	want := []Verdict{
		// Lookup does not reach 0.90 and counts as slowest.
		{Forest: "kd", Recall: 0.90, Fastest: "natural", Slowest: "lookup", NaturalFastest: true, LookupSlowest: true},
		{Forest: "rp", Recall: 0.80, Fastest: "voting", Slowest: "lookup", NaturalFastest: false, LookupSlowest: true},
	}
	got := Verdicts(sample, []float64{0.80, 0.90, 0.99})
	got = slices.DeleteFunc(got, func(v Verdict) bool { return v.Forest == "kd" && v.Recall == 0.80 })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// At 0.80 lookup is faster than both natural-zero and voting.
	if v := Verdicts(sample, []float64{0.80})[0]; !v.NaturalFastest || v.LookupSlowest || v.Slowest != "natural-zero" {
		t.Errorf("%+v", v)
	}
}
