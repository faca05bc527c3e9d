package postings

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// TestBM25: searches by every strategy find the rows and scores of the formula, with the mean length that the
// codes were made with and with any other one, in several segments. The order of the terms does not matter.
func TestBM25(t *testing.T) {
	ctx := context.Background()
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		p := BM25{K1: rapid.SampledFrom([]float64{0, 0.5, 1.2, 100}).Draw(t, "k1"),
			B: rapid.SampledFrom([]float64{0, 0.75, 1}).Draw(t, "b")}
		run := vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: 60}
		for range rapid.IntRange(1, 300).Draw(t, "rows") {
			run.Append(drawRow(r, 60, 0.1, func() float32 { return float32(1 + r.IntN(1+r.IntN(20))) }))
		}
		cut := rapid.IntRange(0, run.Rows()).Draw(t, "cut")
		var segments []Segment
		for _, part := range [][2]int{{0, cut}, {cut, run.Rows()}} {
			if part[0] < part[1] {
				segments = append(segments, Segment{Index: termIndex(t, &run, part[0], part[1], p), First: uint32(part[0])})
			}
		}
		for range 4 {
			q := drawRow(r, 65, 0.1, func() float32 { return IDF(100, r.IntN(100)) })
			p.Mean = segments[0].Source.BM25.Mean * math.Exp(r.NormFloat64())
			k := 1 + r.IntN(30)
			var want []Hit
			for i := range run.Rows() {
				x := run.Row(i)
				score := 0.0
				for e, f := range slices.Backward(x.Index) { // in any order
					n, length := float64(x.Value[e]), sum(x.Value)
					share := float64(q.At(f)) * (n * (p.K1 + 1) / (n + p.K1*(1-p.B+p.B*length/p.Mean)))
					score += math.Floor(share*0x1p37) / 0x1p37
				}
				if score > 0 {
					want = append(want, Hit{uint32(i), score})
				}
			}
			slices.SortFunc(want, func(a, b Hit) int {
				return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Row, b.Row))
			})
			want = want[:min(k, len(want))]
			for _, strategy := range []Strategy{Auto, TAAT, DAAT} {
				got, _, err := s.SearchSegments(ctx, segments, q, k, SearchParams{Strategy: strategy, Mean: p.Mean}, nil)
				must(t, err)
				if !slices.Equal(got, want) {
					t.Fatalf("strategy %d, mean %g of %g:\n%v\nwant\n%v", strategy, p.Mean,
						segments[0].Source.BM25.Mean, got, want)
				}
			}
		}
	})
}

func sum(x []float32) (s float64) {
	for _, v := range x {
		s += float64(v)
	}
	return s
}

// termIndex is an index of rows lo to hi of a matrix of counts.
func termIndex(t rapid.TB, run *vector.CSR, lo, hi int, p BM25) *Index {
	lengths := make([]float64, hi-lo)
	total := 0.0
	for i := range lengths {
		lengths[i] = sum(run.Row(lo + i).Value)
		total += lengths[i]
	}
	p.Mean = max(total, 1) / float64(hi-lo)
	m := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: run.Cols}
	for i, length := range lengths {
		x := run.Row(lo + i)
		x.Value = slices.Clone(x.Value)
		for e, n := range x.Value {
			x.Value[e] = float32(p.Value(n, length))
		}
		m.Append(x)
	}
	ix, err := BuildCoded(context.Background(), m, nil)
	must(t, err)
	source, err := NewSource([]vector.CSR{*run}, 30, lo, hi-lo, run.Cols)
	must(t, err)
	source.Norm, source.BM25 = lengths, &p
	out := &Index{Source: source, Norm: ix.Norm, Lists: ix.Lists}
	must(t, out.Validate())
	return out
}
