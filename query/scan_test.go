package query

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/trees/forest"
	"github.com/anndb/anndb/vector"
)

// A scan by sketches finds almost all of the nearest rows that pass, by exact distances of few rows.
func TestSketchScan(t *testing.T) {
	v, rows, queries, _ := restrictedFixture(t)
	odd := roaring.New()
	for row := uint32(1); int(row) < rows.n; row += 2 {
		odd.Add(row)
	}
	deleted := *v
	deleted.Deleted = odd
	bare := *v
	bare.Sketch = nil
	s := NewSearcher()
	for name, c := range map[string]struct {
		v    *View
		p    Params
		pass func(row uint32) bool
		way  Way
	}{
		"all":              {v, Params{}, func(uint32) bool { return true }, BySketches},
		"filtered":         {v, Params{Filter: odd}, func(row uint32) bool { return row%2 == 1 }, BySketches},
		"deleted":          {&deleted, Params{}, func(row uint32) bool { return row%2 == 0 }, BySketches},
		"accepted":         {v, Params{Accept: func(row uint32) bool { return row%3 == 0 }}, func(row uint32) bool { return row%3 == 0 }, BySketches},
		"without sketches": {&bare, Params{}, func(uint32) bool { return true }, ByScan},
	} {
		hits := 0
		for i := range queries.n {
			q := queries.row(i)
			p := c.p
			p.K, p.Method, p.Sketch, p.R = 10, Flat, true, 30
			got, stats, err := s.Search(t.Context(), c.v, q, &p, nil)
			must(t, err)
			if stats.Way != c.way || c.way == BySketches && stats.Exact > rows.n/4 {
				t.Fatalf("%s: %v with %d exact distances", name, stats.Way, stats.Exact)
			}
			want := map[uint32]bool{}
			for _, id := range exactly(rows, vector.L2, q, 10, c.pass) {
				want[id] = true
			}
			for _, x := range got {
				if want[x.ID] {
					hits++
				}
			}
		}
		if recall := float64(hits) / float64(10*queries.n); recall < 0.99 {
			t.Errorf("%s: recall %.3f", name, recall)
		}
	}
	p := Params{Method: Flat, Sketch: true, Range: true, Radius: 1e9}
	if got, stats, err := s.Search(t.Context(), v, queries.row(0), &p, nil); err != nil ||
		len(got) != rows.n || stats.Way != ByScan {
		t.Errorf("range: %d rows by %v, %v", len(got), stats.Way, err)
	}
}

// Where no beam is cheap, because all rows are about equally far, the curve has scans by sketches, so that
// it has a setting for each recall and k; it knows what an exact scan takes.
func TestScanPoints(t *testing.T) {
	const n, d = 4000, 96
	rng := rand.New(rand.NewPCG(5, 5))
	all := &matrix{make([]float32, (n+120)*d), n + 120, d}
	for i := range all.data {
		all.data[i] = float32(rng.NormFloat64())
	}
	rows := &matrix{all.data[:n*d], n, d}
	v := build(t, rows, spec{metric: vector.L2, labelsK: 8, rotate: d, sketch: 64, hops: 12, shift: 9,
		forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 8, Natural: true, Seed: 3}})
	var set QuerySet
	for i := range 120 {
		q := all.row(n + i)
		set.Queries, set.Truth = append(set.Queries, q), append(set.Truth, exactly(rows, vector.L2, q, 1000, nil))
	}
	c, err := Tune(t.Context(), v, set, TuneOptions{K: 10})
	must(t, err)
	if !(c.Scan > 0) {
		t.Errorf("an exact scan takes %v µs", c.Scan)
	}
	s := NewSearcher()
	for _, k := range []int{1, 10, 30, 100} {
		p, ok := c.Setting(0.99, k)
		if !ok {
			t.Errorf("no setting for k %d: %+v", k, c.Points)
			continue
		}
		p.K = k
		hits := 0
		for i, q := range set.Queries {
			got, stats, err := s.Search(t.Context(), v, q, &p, nil)
			must(t, err)
			if k == c.K && !(stats.OfScan > 0) {
				t.Errorf("share of an exact scan %v", stats.OfScan)
			}
			for _, id := range set.Truth[i][:k] {
				for _, x := range got {
					if x.ID == id {
						hits++
					}
				}
			}
		}
		if recall := float64(hits) / float64(k*len(set.Queries)); recall < 0.97 {
			t.Errorf("k %d: recall %.3f by %+v", k, recall, p)
		}
	}
}

// A scan that is cheaper than the beams of its recall ends the width schedule of that recall.
func TestWidthScheduleEndsAtScan(t *testing.T) {
	scan := func(micros float64) Point {
		return Point{Params: Params{Method: Flat, Sketch: true, R: 30}, Recall: 0.999, Micros: micros}
	}
	beam := Point{Params: Params{Beam: 50, R: 20, Sketch: true}, Recall: 0.96, Micros: 30}
	c := &Curve{K: 10, Queries: 1 << 30, Scan: 100, Points: []Point{beam, scan(40)},
		Depths: []Curve{{K: 1, Queries: 1 << 30, Points: []Point{scan(40)}}, {K: 100, Queries: 1 << 30, Scan: 100, Points: []Point{scan(50)}}}}
	for _, x := range []struct {
		recall float64
		k      int
		method Method
		share  float64
	}{{0.95, 10, Natural, 0.3}, {0.99, 10, Flat, 0.4}, {0.95, 100, Flat, 0.5}, {0.95, 30, Flat, 0.5}, {0.99, 3, Flat, 0.4}} {
		p, ok := c.Setting(x.recall, x.k)
		if !ok || p.Method != x.method || p.share != x.share {
			t.Errorf("recall %g, k %d: %v, share %g of a scan, %v", x.recall, x.k, p.Method, p.share, ok)
		}
	}
}

// No setting of any depth takes longer than an exact scan, which is a setting as well.
func TestExactSetting(t *testing.T) {
	_, _, _, c := restrictedFixture(t)
	for _, d := range append(slices.Clone(c.Depths), *c) {
		if len(d.Points) == 0 && 2*d.K > c.K {
			continue // a depth of more than half of the rows
		}
		last := d.Points[len(d.Points)-1]
		if !(d.Scan > 0) || last.Recall < 1 || last.Micros > d.Scan {
			t.Errorf("depth %d: the last of %d settings takes %v µs, a scan %v", d.K, len(d.Points), last.Micros, d.Scan)
		}
	}
}

// A scan by sketches of rows of very uneven length, whose differences are below the errors of estimates,
// compares as many rows as the recall requires.
func TestScanUneven(t *testing.T) {
	const n, d, k = 4000, 32, 400
	rng := rand.New(rand.NewPCG(31, 7))
	all := &matrix{make([]float32, (n+20)*d), n + 20, d}
	for i := range all.n {
		length := math.Exp(1.5 * rng.NormFloat64())
		for j := range d {
			all.row(i)[j] = float32(rng.NormFloat64() * length)
		}
	}
	rows := &matrix{all.data[:n*d], n, d}
	for _, metric := range []vector.Metric{vector.InnerProduct, vector.L2} {
		v := build(t, rows, spec{metric: metric, labelsK: 8, rotate: d, sketch: 64, shift: 9,
			forest: forest.Params{Kind: forest.KD, Trees: 2, Depth: 8, Natural: true, Seed: 3}})
		hits := 0
		for i := n; i < all.n; i++ {
			found := search(t, v, all.row(i), Params{K: k, Method: Flat, Sketch: true, R: 3 * k})
			hits += common(found, exactly(rows, metric, all.row(i), k, nil))
		}
		if recall := float64(hits) / float64(k*(all.n-n)); recall < 0.98 {
			t.Errorf("%v: recall %.3f", metric, recall)
		}
	}
}

// Settings without a beam are measured for greater depths, and not taken for fewer rows than that.
func TestElectionDepths(t *testing.T) {
	v, rows, queries, _ := restrictedFixture(t)
	bare := *v
	bare.Sketch, bare.Neighbors = nil, nil
	var set QuerySet
	for i := range queries.n {
		set.Queries = append(set.Queries, queries.row(i))
		set.Truth = append(set.Truth, exactly(rows, vector.L2, queries.row(i), 100, nil))
	}
	c, err := Tune(t.Context(), &bare, set, TuneOptions{K: 10})
	must(t, err)
	s := NewSearcher()
	for _, k := range []int{30, 100} {
		p, ok := c.Setting(0.9, k)
		if !ok {
			t.Fatalf("k %d: no setting", k)
		}
		p.K = k
		hits := 0
		for i, q := range set.Queries {
			found, _, err := s.Search(t.Context(), &bare, q, &p, nil)
			must(t, err)
			hits += common(found, set.Truth[i][:k])
		}
		if recall := float64(hits) / float64(k*queries.n); recall < 0.89 {
			t.Errorf("k %d: recall %.3f by %+v", k, recall, p)
		}
	}
}

// A scan requests every chunk once, before it reads it.
func TestScanRequests(t *testing.T) {
	m := clustered(300, 20, 3)
	v := build(t, m, spec{metric: vector.L2, shift: 6, bytes: true})
	sum := 0
	v.Rows.Request = func(b []byte) { sum += len(b) }
	_, _, err := NewSearcher().Search(t.Context(), v, m.row(5), &Params{K: 10, Method: Flat}, nil)
	must(t, err)
	if want := len(v.Rows.Chunks) * m.d << v.Rows.Shift; sum != want {
		t.Errorf("%d bytes of rows requested, want %d", sum, want)
	}
}
