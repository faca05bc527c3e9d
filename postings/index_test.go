package postings

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"
	diff "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// powerLawRows are rows like those of texts: few features are frequent, most
// are rare; values are counts times a weight that grows with rarity.
func powerLawRows(r *rand.Rand, n, cols, length int) *vector.CSR {
	zipf := rand.NewZipf(r, 1.15, 6, uint64(cols-1))
	m := &vector.CSR{Ptr: []uint64{0}, Cols: cols}
	for i := range n {
		counts := map[uint32]int{}
		for range 1 + r.IntN(2*length) {
			counts[uint32(zipf.Uint64())]++
		}
		var s vector.Sparse
		for f := range counts {
			s.Index = append(s.Index, f)
		}
		slices.Sort(s.Index)
		for _, f := range s.Index {
			s.Value = append(s.Value, float32((1+math.Log(float64(counts[f])))*math.Log(3+float64(f))))
		}
		if i%50 == 49 {
			s = vector.Sparse{} // a row without features
		}
		m.Append(unit(s))
	}
	m.Cols = cols
	return m
}

// binary is the same with equal values in every row.
func binary(m *vector.CSR) *vector.CSR {
	b := &vector.CSR{Ptr: m.Ptr, Index: m.Index, Value: make([]float32, len(m.Value)), Cols: m.Cols}
	for i := range b.Rows() {
		v := b.Row(i).Value
		for e := range v {
			v[e] = float32(1 / math.Sqrt(float64(len(v))))
		}
	}
	return b
}

func slice(m *vector.CSR, from, to int) *vector.CSR {
	p := m.Ptr[from : to+1]
	s := &vector.CSR{Index: m.Index[p[0]:p[len(p)-1]], Value: m.Value[p[0]:p[len(p)-1]], Cols: m.Cols}
	for _, x := range p {
		s.Ptr = append(s.Ptr, x-p[0])
	}
	return s
}

// TestTextLike has enough rows for every strategy to leave most of them out.
func TestTextLike(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	all := powerLawRows(r, 5100, 4000, 40)
	for name, m := range map[string]*vector.CSR{"weighted": all, "binary": binary(all)} {
		t.Run(name, func(t *testing.T) {
			rows, queries := slice(m, 0, 5000), slice(m, 5000, 5100)
			ix := build(t, rows)
			s := NewSearcher()
			scored := 0
			for q := range queries.Rows() {
				want := bruteForce(rows, queries.Row(q), 10, nil)
				got, stats, err := s.Search(context.Background(), ix, queries.Row(q), 10, SearchParams{}, nil)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("query %d: %v %s", q, err, diff.Diff(want, got))
				}
				scored += stats.Scored
			}
			if mean := scored / queries.Rows(); mean > 30 {
				t.Errorf("%d rows of 5,000 scored for 10 hits", mean)
			}
			for q := range 8 {
				checkSearch(t, s, ix, queries.Row(q), 10, SearchParams{})
			}
		})
	}
}

// TestWindows has more rows than a window: lists have containers, of which some are bitmaps, in the
// full window and in the short one.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	all := powerLawRows(r, windowRows+2040, 3000, 4)
	for name, m := range map[string]*vector.CSR{"weighted": all, "binary": binary(all)} {
		t.Run(name, func(t *testing.T) {
			rows, queries := slice(m, 0, windowRows+2000), slice(m, windowRows+2000, windowRows+2040)
			ix := build(t, rows)
			s := NewSearcher()
			for q := range 3 {
				checkSearch(t, s, ix, queries.Row(q), 20, SearchParams{})
			}
			some := roaring.New()
			some.AddRange(windowRows-100, windowRows+100)
			checkSearch(t, s, ix, queries.Row(3), 20, SearchParams{Accept: some})
			checkSearch(t, s, ix, vector.Sparse{Index: []uint32{2500}, Value: []float32{1}}, 20, SearchParams{})
		})
	}
}

// TestFrequentFeature: once rows with a rare feature are known, a window without it is skipped.
func TestFrequentFeature(t *testing.T) {
	m := &vector.CSR{Ptr: []uint64{0}, Cols: 2}
	for i := range 3 * windowRows {
		q := vector.Sparse{Index: []uint32{0}, Value: []float32{0.1 + float32(i%7)/100}}
		if i%5000 == 10 && i < windowRows || i == 3*windowRows-5 {
			q = vector.Sparse{Index: []uint32{0, 1}, Value: []float32{0.2, 0.9}}
		}
		m.Append(q)
	}
	ix, q := build(t, m), vector.Sparse{Index: []uint32{0, 1}, Value: []float32{0.5, 0.5}}
	checkSearch(t, NewSearcher(), ix, q, 10, SearchParams{})
	_, stats, err := NewSearcher().Search(t.Context(), ix, q, 10, SearchParams{}, nil)
	if must(t, err); stats.Postings > windowRows+100 {
		t.Errorf("%d entries read", stats.Postings)
	}
}

func TestSegmentsEqualOneIndex(t *testing.T) {
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cols := rapid.IntRange(1, 40).Draw(t, "cols")
		values := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "values")
		n := rapid.IntRange(1, 300).Draw(t, "rows")
		m := drawRows(r, n, cols, 0.2, func() float32 { return float32(1 + r.IntN(values)) })
		whole := build(t, m)
		deleted := roaring.New()
		for range rapid.IntRange(0, n).Draw(t, "deleted") {
			deleted.Add(uint32(r.IntN(n)))
		}
		var segments []Segment
		for from := 0; from < n; {
			to := min(n, from+rapid.IntRange(1, 150).Draw(t, "segment"))
			g := Segment{Index: build(t, slice(m, from, to)), First: uint32(from), Deleted: roaring.New()}
			for row := from; row < to; row++ {
				if deleted.Contains(uint32(row)) {
					g.Deleted.Add(uint32(row - from))
				}
			}
			segments = append(segments, g)
			from = to
		}
		slices.Reverse(segments) // later rows first: ties must still go to earlier ones
		for range 3 {
			q := unit(drawRow(r, cols, 0.3, func() float32 { return float32(1 + r.IntN(values)) }))
			k := rapid.SampledFrom([]int{1, 5, 100}).Draw(t, "k")
			for _, strategy := range strategies {
				want, _, err := s.Search(context.Background(), whole, q, k, SearchParams{Strategy: strategy, Deleted: deleted}, nil)
				must(t, err)
				got, _, err := s.SearchSegments(context.Background(), segments, q, k, SearchParams{Strategy: strategy}, nil)
				must(t, err)
				if !slices.Equal(got, want) {
					t.Fatalf("strategy %d: %s", strategy, diff.Diff(want, got))
				}
			}
		}
	})
}

func TestMatrixOfOnes(t *testing.T) {
	// Value may be nil: every entry is one.
	rows := &vector.CSR{Ptr: []uint64{0, 2, 3, 5}, Index: []uint32{0, 2, 1, 0, 1}, Cols: 3}
	ix := build(t, rows)
	checkSearch(t, NewSearcher(), ix, vector.Sparse{Index: []uint32{0, 1}, Value: []float32{1, 2}}, 5, SearchParams{})
	checkSearch(t, NewSearcher(), ix, vector.Sparse{Index: []uint32{0, 1}, Value: []float32{2, 2}}, 2, SearchParams{})
}

func TestNoMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, rows := range []*vector.CSR{
		drawRows(r, 50, 10, 0.3, r.Float32),
		{Ptr: []uint64{0}},                                 // no rows
		{Ptr: []uint64{0, 0, 0}, Cols: 12},                 // empty rows
		binary(drawRows(r, 50, 10, 0.3, r.Float32)),        //
		drawRows(r, 3, 10, 1, func() float32 { return 0 }), // zeros only
	} {
		ix := build(t, rows)
		for _, q := range []vector.Sparse{
			{},
			{Index: []uint32{11}, Value: []float32{1}},
			{Index: []uint32{3, 400000000}, Value: []float32{0, 1}},
		} {
			checkSearch(t, NewSearcher(), ix, q, 5, SearchParams{})
		}
	}
}

func TestRefusals(t *testing.T) {
	ctx := context.Background()
	bad := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", what, err)
		}
	}
	one := func(f ...float32) *vector.CSR {
		return &vector.CSR{Ptr: []uint64{0, 2}, Index: []uint32{0, 1}, Value: f, Cols: 2}
	}
	_, err := Build(ctx, nil, nil)
	bad("no rows", err)
	_, err = Build(ctx, one(1, -1), nil)
	bad("negative value", err)
	_, err = Build(ctx, one(1, float32(math.NaN())), nil)
	bad("NaN", err)
	_, err = Build(ctx, one(1), nil)
	bad("missing value", err)

	ix := build(t, one(1, 2))
	q := vector.Sparse{Index: []uint32{0, 1}, Value: []float32{1, 1}}
	s := NewSearcher()
	search := func(q vector.Sparse, k int) error {
		_, _, err := s.Search(ctx, ix, q, k, SearchParams{}, nil)
		return err
	}
	bad("negative k", search(q, -1))
	bad("negative query", search(vector.Sparse{Index: []uint32{0}, Value: []float32{-1}}, 1))
	bad("unsorted query", search(vector.Sparse{Index: []uint32{1, 0}, Value: []float32{1, 1}}, 1))
	_, _, err = s.SearchSegments(ctx, nil, q, 1, SearchParams{Deleted: roaring.New()}, nil)
	bad("deleted rows of all segments", err)
}

func TestBuildIsDeterministicAndReports(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for _, rows := range []*vector.CSR{powerLawRows(r, 500, 300, 20), binary(powerLawRows(r, 500, 300, 20))} {
		var last, calls int
		progress := func(done, total int) {
			if done < last || done > total {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
			calls++
		}
		a, err := Build(context.Background(), rows, progress)
		must(t, err)
		if calls < 2 || last != rows.Cols {
			t.Errorf("progress ended at %d after %d calls", last, calls)
		}
		b, err := Build(context.Background(), rows, nil)
		must(t, err)
		if d := diff.Diff(a, b); d != "" {
			t.Errorf("two builds differ: %s", d)
		}
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := rand.New(rand.NewPCG(9, 9))
	rows := powerLawRows(r, 300, 200, 20)
	if _, err := Build(ctx, rows, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Build: %v", err)
	}
	s := NewSearcher()
	for _, m := range []*vector.CSR{rows, binary(rows)} {
		ix := build(t, m)
		for _, strategy := range strategies {
			if _, _, err := s.Search(ctx, ix, m.Row(0), 3, SearchParams{Strategy: strategy}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("strategy %d: %v", strategy, err)
			}
			// The searcher is as good as new.
			got, _, err := s.Search(context.Background(), ix, m.Row(1), 3, SearchParams{Strategy: strategy}, nil)
			if want := bruteForce(m, m.Row(1), 3, nil); err != nil || !slices.Equal(got, want) {
				t.Errorf("strategy %d after a cancelled search: %v, %v", strategy, got, err)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	ctx := context.Background()
	r := rand.New(rand.NewPCG(10, 10))
	rows := powerLawRows(r, 2000, 1000, 30)
	deleted := roaring.BitmapOf(1, 5, 100)
	for name, m := range map[string]*vector.CSR{"weighted": rows, "binary": binary(rows)} {
		ix := build(t, m)
		for _, strategy := range strategies {
			s := NewSearcher()
			var dst []Hit
			q := 0
			search := func() {
				var err error
				if dst, _, err = s.Search(ctx, ix, m.Row(q%200), 20, SearchParams{Strategy: strategy, Deleted: deleted}, dst[:0]); err != nil {
					t.Fatal(err)
				}
				q++
			}
			for range 200 {
				search()
			}
			if n := testing.AllocsPerRun(200, search); n != 0 {
				t.Errorf("%s, strategy %d: %v allocations a query", name, strategy, n)
			}
		}
	}
}

func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	rows := powerLawRows(r, 3000, 2000, 40)
	pairs := 8 * len(rows.Index)
	for name, m := range map[string]*vector.CSR{"weighted": rows, "binary": binary(rows)} {
		ix := build(t, m)
		if size := ix.Bytes(); size == 0 || size > pairs*6/10 {
			t.Errorf("%s: %d bytes for pairs of %d", name, size, pairs)
		}
	}
}

// FuzzValidate damages an index at one place: if Validate lets it pass, a
// search must not panic.
func FuzzValidate(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(0), []byte{1})
	f.Add(uint64(2), uint8(3), uint16(7), []byte{255, 255})
	f.Add(uint64(3), uint8(9), uint16(2), bytes.Repeat([]byte{128}, 40))
	s := NewSearcher()
	f.Fuzz(func(t *testing.T, seed uint64, field uint8, at uint16, with []byte) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := powerLawRows(r, 70+int(seed%60), 30, 6)
		if seed%2 == 0 {
			m = binary(m)
		}
		ix := build(t, m)
		damage(ix, int(field), int(at), with)
		if ix.Validate() != nil {
			return
		}
		for _, strategy := range strategies {
			for q := range 3 {
				if _, _, err := s.Search(context.Background(), ix, m.Row(q), 5, SearchParams{Strategy: strategy}, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// damage overwrites, or cuts, one field of an index.
func damage(ix *Index, field, at int, with []byte) {
	wide := func(b byte) uint32 { return uint32(b) << (at % 25) }
	switch field % 10 {
	case 0:
		ix.Max = put(ix.Max, at, with, func(b byte) float32 { return float32(b) })
	case 1:
		ix.At = put(ix.At, at, with, wide)
	case 2:
		ix.First = put(ix.First, at, with, wide)
	case 3:
		ix.Feature = put(ix.Feature, at, with, wide)
	case 4:
		ix.Code = put(ix.Code, at, with, func(b byte) uint8 { return b })
	case 5:
		ix.Norm = float64(at) - 3
	case 6:
		ix.Value = put(ix.Value, at, with, func(b byte) float32 { return float32(int8(b)) })
	case 7:
		ix.Ratio = put(ix.Ratio, at, with, func(b byte) uint16 { return uint16(b) << (at % 9) })
	default:
		ix.Sets = put(ix.Sets, at, with, func(b byte) uint16 { return uint16(b) << (at % 9) })
	}
}

// put overwrites elements from at, or drops the end of s where there is
// nothing to write or it starts beyond.
func put[T any](s []T, at int, with []byte, of func(byte) T) []T {
	s = slices.Clone(s)
	if len(with) == 0 || at >= len(s) {
		return s[:max(0, len(s)-1-at%3)]
	}
	for i, b := range with[:min(len(with), len(s)-at)] {
		s[at+i] = of(b)
	}
	return s
}
