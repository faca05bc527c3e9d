package postings

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bruteForce is the definition: the score of every row, then a sort.
func bruteForce(rows *vector.CSR, q vector.Sparse, k int, accept func(row uint32) bool) []Hit {
	var hits []Hit
	for i := range rows.Rows() {
		r := rows.Row(i)
		if r.Value == nil {
			r.Value = slices.Repeat([]float32{1}, len(r.Index))
		}
		if score := vector.DotSparse(q, r); score > 0 && (accept == nil || accept(uint32(i))) {
			hits = append(hits, Hit{uint32(i), score})
		}
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row)) })
	return hits[:min(k, len(hits))]
}

// build indexes rows.
func build(t rapid.TB, rows *vector.CSR) *Index {
	t.Helper()
	ix, err := Build(context.Background(), rows, nil)
	must(t, err)
	must(t, ix.Validate())
	return ix
}

var strategies = []Strategy{Auto, TAAT, DAAT}

// checkSearch compares every strategy with brute force.
func checkSearch(t rapid.TB, s *Searcher, ix *Index, q vector.Sparse, k int, p SearchParams) {
	t.Helper()
	accept := func(row uint32) bool {
		return (p.Deleted == nil || !p.Deleted.Contains(row)) && (p.Accept == nil || p.Accept.Contains(row))
	}
	want := bruteForce(ix.Rows, q, k, accept)
	for _, p.Strategy = range strategies {
		got, stats, err := s.Search(context.Background(), ix, q, k, p, nil)
		must(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("strategy %d, k = %d, query %v: %s", p.Strategy, k, q, diff.Diff(want, got))
		}
		if stats.Candidates < 0 || stats.Pruned < 0 || stats.Scored < len(got) {
			t.Fatalf("strategy %d: %+v for %d hits", p.Strategy, stats, len(got))
		}
	}
}

// drawRow is a row of some density over cols features.
func drawRow(r *rand.Rand, cols int, share float64, value func() float32) vector.Sparse {
	var s vector.Sparse
	for f := range cols {
		// Low features are frequent, as in text.
		if r.Float64() < share*4/(1+8*float64(f)/float64(cols)) {
			s.Index = append(s.Index, uint32(f))
			s.Value = append(s.Value, value())
		}
	}
	return s
}

func unit(s vector.Sparse) vector.Sparse {
	if n := s.Norm(); n > 0 {
		for i := range s.Value {
			s.Value[i] = float32(float64(s.Value[i]) / n)
		}
	}
	return s
}

func drawRows(r *rand.Rand, n, cols int, share float64, value func() float32) *vector.CSR {
	m := &vector.CSR{Ptr: []uint64{0}, Cols: cols}
	for range n {
		m.Append(unit(drawRow(r, cols, share, value)))
	}
	m.Cols = cols
	return m
}

func TestStrategiesAgreeOnRandomData(t *testing.T) {
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cols := rapid.IntRange(1, 60).Draw(t, "cols")
		n := rapid.IntRange(0, 400).Draw(t, "rows")
		share := rapid.SampledFrom([]float64{0.005, 0.03, 0.1, 0.4}).Draw(t, "share")
		value := rapid.SampledFrom([]func() float32{
			func() float32 { return 1 },
			func() float32 { return float32(1 + r.IntN(3)) },
			func() float32 { return float32(r.ExpFloat64()) },
			func() float32 { return float32(r.IntN(3)) },
			func() float32 { return float32(r.ExpFloat64() * 1e-22) },
			func() float32 { return float32(r.ExpFloat64()) * 1e-44 },
		}).Draw(t, "value")
		rows := drawRows(r, n, cols, share, value)
		if rapid.IntRange(0, 3).Draw(t, "raw") == 0 { // not unit-length
			for i := range rows.Value {
				rows.Value[i] = value()
			}
		}
		ix := build(t, rows)
		for range 4 {
			q := drawRow(r, cols+5, max(share, 0.05), value)
			k := rapid.SampledFrom([]int{0, 1, 2, 10, 100, 1000}).Draw(t, "k")
			p := SearchParams{}
			for _, set := range []**roaring.Bitmap{&p.Deleted, &p.Accept} {
				if rapid.IntRange(0, 3).Draw(t, "filter") == 0 {
					*set = roaring.New()
					for range n / 2 {
						(*set).Add(uint32(r.IntN(n)))
					}
				}
			}
			checkSearch(t, s, ix, q, k, p)
		}
	})
}

func TestStrategiesAgreeOnLargerData(t *testing.T) {
	s := NewSearcher()
	r := rand.New(rand.NewPCG(2, 3))
	for name, value := range map[string]func() float32{
		"binary": func() float32 { return 1 },
		"counts": func() float32 { return float32(1 + r.IntN(4)) },
		"skewed": func() float32 { return float32(r.ExpFloat64() * r.ExpFloat64()) },
	} {
		t.Run(name, func(t *testing.T) {
			rows := drawRows(r, 4000, 300, 0.06, value)
			for i := 0; i < rows.Rows(); i += 7 { // duplicates, so that ranks tie
				copyRow(rows, i, i/2)
			}
			ix := build(t, rows)
			for range 4 {
				q := unit(drawRow(r, 300, 0.06, value))
				for _, k := range []int{1, 100} {
					checkSearch(t, s, ix, q, k, SearchParams{})
				}
			}
			one := vector.Sparse{Index: []uint32{2}, Value: []float32{1}}
			checkSearch(t, s, ix, one, 50, SearchParams{})
		})
	}
}

// copyRow overwrites the values of row to with those of row from as far as
// they go; the features stay, so that the matrix keeps its shape.
func copyRow(m *vector.CSR, to, from int) {
	copy(m.Row(to).Value, m.Row(from).Value)
}

// TestUnevenLengths: an estimate stands for one count where rows are short, for several where they are long, and
// a query has more features than cells have units for.
func TestUnevenLengths(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	const features = 17_000
	m := &vector.CSR{Ptr: []uint64{0}, Cols: features}
	for i := range 25 {
		m.Append(drawRow(r, features, math.Pow(10, -float64(i%5)), func() float32 { return 1 }))
	}
	m = binary(m)
	for _, share := range []float64{1, 0.8, 0.1, 0.01, 0.001} {
		q := unit(drawRow(r, features, share, func() float32 { return 1 }))
		checkSearch(t, NewSearcher(), build(t, m), q, 10, SearchParams{})
	}
}
