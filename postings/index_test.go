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
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// partitionByPaper is Algorithm 7 word for word: lists in maps, ranks by
// sorting, set difference, then two indexes.
func partitionByPaper(rows *vector.CSR, m int) (taat, daat map[uint32][]Posting) {
	lists := func(of func(row uint32) bool) map[uint32][]Posting {
		l := map[uint32][]Posting{}
		for i := range rows.Rows() {
			r := rows.Row(i)
			for e, f := range r.Index {
				if of(uint32(i)) && r.Value[e] > 0 {
					l[f] = append(l[f], Posting{uint32(i), r.Value[e]})
				}
			}
		}
		return l
	}
	first := map[uint32]bool{}
	for _, list := range lists(func(uint32) bool { return true }) {
		slices.SortStableFunc(list, func(a, b Posting) int {
			return map[bool]int{true: -1, false: 1}[a.Value > b.Value || a.Value == b.Value && a.Row < b.Row]
		})
		for _, e := range list[:min(m, len(list))] {
			first[e.Row] = true
		}
	}
	taat = lists(func(row uint32) bool { return first[row] })
	for _, list := range taat {
		slices.SortStableFunc(list, func(a, b Posting) int {
			return map[bool]int{true: -1, false: 1}[a.Value > b.Value || a.Value == b.Value && a.Row < b.Row]
		})
	}
	return taat, lists(func(row uint32) bool { return !first[row] })
}

// listsOf are the lists of a feature, by ascending row, and the header of
// the DAAT list.
func listsOf(p *Partition, feature uint32) (taat, daat []Posting, highest float32) {
	i, ok := p.find(feature, 0)
	if !ok {
		return nil, nil, 0
	}
	p.TAAT.list(i).each(func(row uint32, value float32) { taat = append(taat, Posting{row, value}) })
	p.DAAT.list(i).each(func(row uint32, value float32) { daat = append(daat, Posting{row, value}) })
	return taat, daat, p.Max[i]
}

func TestPartitionIsThePapers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cols := rapid.IntRange(1, 30).Draw(t, "cols")
		rows := drawRows(r, rapid.IntRange(0, 60).Draw(t, "rows"), cols, 0.2, func() float32 { return float32(r.IntN(4)) })
		m := rapid.SampledFrom([]int{0, 1, 2, 7, Everything}).Draw(t, "m")
		taat, daat := partitionByPaper(rows, m)
		ix, err := Build(context.Background(), rows, Params{Partition: true, M: m}, nil)
		must(t, err)
		if ix.Weighted != nil || ix.Uniform != nil {
			t.Fatal("a compact structure that nobody asked for")
		}
		p := ix.Partition
		in := map[uint32]bool{}
		for j := range uint32(cols) {
			first, second, highest := listsOf(p, j)
			slices.SortFunc(first, byValue) // the paper's order of TAAT lists
			if !slices.Equal(first, taat[j]) || !slices.Equal(second, daat[j]) {
				t.Fatalf("feature %d: TAAT %v, want %v; DAAT %v, want %v", j, first, taat[j], second, daat[j])
			}
			var most float32
			for _, e := range daat[j] {
				most = max(most, e.Value)
			}
			for _, e := range taat[j] {
				in[e.Row] = true
			}
			if highest != most {
				t.Fatalf("feature %d: highest DAAT value %g, want %g", j, highest, most)
			}
		}
		if p.TAATRows != len(in) {
			t.Fatalf("%d rows in the TAAT part, want %d", p.TAATRows, len(in))
		}
	})
}

func TestPartitionExtremes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	rows := drawRows(r, 100, 20, 0.2, r.Float32)
	for _, ix := range build(t, rows, 0) {
		if n := ix.Partition.TAATRows; n != 0 {
			t.Errorf("m = 0 has %d rows for TAAT", n)
		}
	}
	for _, ix := range build(t, rows, Everything) {
		if n := len(ix.Partition.DAAT.Value); n != 0 {
			t.Errorf("m without limit has %d entries for DAAT", n)
		}
	}
}

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
			indexes := build(t, rows, 0, 10, Everything)
			s := NewSearcher()
			scored := 0
			for q := range 8 {
				checkSearch(t, s, indexes, queries.Row(q), 10, SearchParams{})
			}
			for q := range queries.Rows() {
				want := bruteForce(rows, queries.Row(q), 10, nil)
				got, stats, err := s.Search(context.Background(), indexes[0], queries.Row(q), 10, SearchParams{Strategy: Compact}, nil)
				if err != nil || !slices.Equal(got, want) {
					t.Fatalf("query %d: %v %s", q, err, cmp.Diff(want, got))
				}
				scored += stats.Scored
			}
			if mean := scored / queries.Rows(); mean > 250 {
				t.Errorf("%d rows of 5,000 scored for 10 hits", mean)
			}
			checkBatch(t, s, indexes[0], queries, 10)
		})
	}
}

// TestWindows has more rows than a window, so that lists have containers.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	all := powerLawRows(r, 66040, 3000, 4)
	for name, m := range map[string]*vector.CSR{"weighted": all, "binary": binary(all)} {
		t.Run(name, func(t *testing.T) {
			rows, queries := slice(m, 0, 66000), slice(m, 66000, 66040)
			ix := build(t, rows, Everything)
			s := NewSearcher()
			for q := range 3 {
				checkSearch(t, s, ix, queries.Row(q), 20, SearchParams{})
			}
			checkBatch(t, s, ix[0], queries, 20)
		})
	}
}

// checkBatch compares SearchBatch with Search.
func checkBatch(t rapid.TB, s *Searcher, ix *Index, queries *vector.CSR, k int) {
	t.Helper()
	var want [][]Hit
	for q := range queries.Rows() {
		hits, _, err := s.Search(context.Background(), ix, queries.Row(q), k, SearchParams{}, nil)
		must(t, err)
		want = append(want, hits)
	}
	for _, p := range []SearchParams{{}, {ByRows: true}} {
		next := 0
		err := s.SearchBatch(context.Background(), ix, queries, k, p, func(q int, hits []Hit, stats Stats) error {
			if q != next {
				t.Fatalf("answer %d after %d", q, next)
			}
			next++
			if !slices.Equal(hits, want[q]) {
				t.Fatalf("%v, query %d: %s", stats.Strategy, q, cmp.Diff(want[q], hits))
			}
			return nil
		})
		if err != nil || next != queries.Rows() {
			t.Fatalf("%d answers of %d: %v", next, queries.Rows(), err)
		}
	}
}

func TestBatchesAgreeOnRandomData(t *testing.T) {
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cols := rapid.IntRange(1, 60).Draw(t, "cols")
		scale := rapid.SampledFrom([]float32{1, 1e-30, 1e18}).Draw(t, "scale")
		value := func() float32 { return float32(r.ExpFloat64()) * scale }
		rows := drawRows(r, rapid.IntRange(0, 300).Draw(t, "rows"), cols, 0.1, value)
		queries := drawRows(r, rapid.IntRange(0, 80).Draw(t, "queries"), cols+3, 0.1, value)
		for _, ix := range build(t, rows, 3) {
			checkBatch(t, s, ix, queries, rapid.SampledFrom([]int{0, 1, 10, 500}).Draw(t, "k"))
		}
	})
}

func TestSegmentsEqualOneIndex(t *testing.T) {
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		cols := rapid.IntRange(1, 40).Draw(t, "cols")
		values := rapid.SampledFrom([]int{1, 3, 1000}).Draw(t, "values")
		n := rapid.IntRange(1, 300).Draw(t, "rows")
		m := drawRows(r, n, cols, 0.2, func() float32 { return float32(1 + r.IntN(values)) })
		whole := build(t, m, 2)[0]
		deleted := roaring.New()
		for range rapid.IntRange(0, n).Draw(t, "deleted") {
			deleted.Add(uint32(r.IntN(n)))
		}
		var segments []Segment
		for from := 0; from < n; {
			to := min(n, from+rapid.IntRange(1, 150).Draw(t, "segment"))
			g := Segment{Index: build(t, slice(m, from, to), 2)[0], First: uint32(from), Deleted: roaring.New()}
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
				got, stats, err := s.SearchSegments(context.Background(), segments, q, k, SearchParams{Strategy: strategy}, nil)
				must(t, err)
				if !slices.Equal(got, want) {
					t.Fatalf("%v: %s", stats.Strategy, cmp.Diff(want, got))
				}
			}
		}
	})
}

func TestMatrixOfOnes(t *testing.T) {
	// Value may be nil: every entry is one.
	rows := &vector.CSR{Ptr: []uint64{0, 2, 3, 5}, Index: []uint32{0, 2, 1, 0, 1}, Cols: 3}
	all := build(t, rows, 0, 1, Everything)
	checkSearch(t, NewSearcher(), all, vector.Sparse{Index: []uint32{0, 1}, Value: []float32{1, 2}}, 5, SearchParams{})
	checkSearch(t, NewSearcher(), all, vector.Sparse{Index: []uint32{0, 1}, Value: []float32{2, 2}}, 2, SearchParams{})
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
		all := build(t, rows, 0, 1, Everything)
		for _, q := range []vector.Sparse{
			{},
			{Index: []uint32{11}, Value: []float32{1}},
			{Index: []uint32{3, 400000000}, Value: []float32{0, 1}},
		} {
			checkSearch(t, NewSearcher(), all, q, 5, SearchParams{})
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
	_, err := Build(ctx, nil, Params{}, nil)
	bad("no rows", err)
	_, err = Build(ctx, one(1, -1), Params{}, nil)
	bad("negative value", err)
	_, err = Build(ctx, one(1, float32(math.NaN())), Params{}, nil)
	bad("NaN", err)
	_, err = Build(ctx, one(1), Params{}, nil)
	bad("missing value", err)
	_, err = Build(ctx, one(1, 2), Params{M: -1}, nil)
	bad("negative m", err)

	compact, err := Build(ctx, one(1, 2), Params{}, nil)
	must(t, err)
	partition, err := Build(ctx, one(1, 2), Params{Partition: true}, nil)
	must(t, err)
	q := vector.Sparse{Index: []uint32{0, 1}, Value: []float32{1, 1}}
	s := NewSearcher()
	search := func(ix *Index, q vector.Sparse, k int, strategy Strategy) error {
		_, _, err := s.Search(ctx, ix, q, k, SearchParams{Strategy: strategy}, nil)
		return err
	}
	bad("negative k", search(compact, q, -1, Auto))
	bad("no partition", search(compact, q, 1, Partitioned))
	bad("no compact structure", search(partition, q, 1, Compact))
	bad("rows alone", search(compact, q, 1, byRows))
	bad("unknown strategy", search(compact, q, 1, 99))
	bad("negative query", search(compact, vector.Sparse{Index: []uint32{0}, Value: []float32{-1}}, 1, Auto))
	bad("unsorted query", search(compact, vector.Sparse{Index: []uint32{1, 0}, Value: []float32{1, 1}}, 1, Auto))
	_, _, err = s.SearchSegments(ctx, nil, q, 1, SearchParams{Deleted: roaring.New()}, nil)
	bad("deleted rows of all segments", err)
	bad("batch of negative k", s.SearchBatch(ctx, compact, one(1, 1), -1, SearchParams{}, nil))
	bad("batch with negative values", s.SearchBatch(ctx, compact, one(1, -1), 1, SearchParams{}, nil))

	stop := errors.New("stop")
	if err := s.SearchBatch(ctx, compact, one(1, 1), 1, SearchParams{}, func(int, []Hit, Stats) error { return stop }); err != stop {
		t.Errorf("a batch ends with %v, not the caller's error", err)
	}
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
		p := Params{Partition: true, M: 3, Compact: true}
		a, err := Build(context.Background(), rows, p, progress)
		must(t, err)
		if calls < 2 || last != 4 {
			t.Errorf("progress ended at %d after %d calls", last, calls)
		}
		b, err := Build(context.Background(), rows, p, nil)
		must(t, err)
		if d := cmp.Diff(a, b); d != "" {
			t.Errorf("two builds differ: %s", d)
		}
	}
}

func TestCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := rand.New(rand.NewPCG(9, 9))
	rows := powerLawRows(r, 300, 200, 20)
	if _, err := Build(ctx, rows, Params{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Build: %v", err)
	}
	late, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := Build(late, rows, Params{Partition: true}, func(done, _ int) {
		if done == 1 {
			stop()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("Build, cancelled on the way: %v", err)
	}
	s := NewSearcher()
	for _, m := range []*vector.CSR{rows, binary(rows)} {
		ix := build(t, m, 3)[0]
		for _, strategy := range strategies {
			if _, _, err := s.Search(ctx, ix, m.Row(0), 3, SearchParams{Strategy: strategy}, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", strategy, err)
			}
			// The searcher is as good as new.
			got, _, err := s.Search(context.Background(), ix, m.Row(1), 3, SearchParams{Strategy: strategy}, nil)
			if want := bruteForce(m, m.Row(1), 3, nil); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v after a cancelled search: %v, %v", strategy, got, err)
			}
		}
		if err := s.SearchBatch(ctx, ix, m, 3, SearchParams{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("batch: %v", err)
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
		ix := build(t, m, 5)[0]
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
				t.Errorf("%s, %v: %v allocations a query", name, strategy, n)
			}
		}
		s := NewSearcher()
		queries := slice(m, 0, 100)
		each := func(int, []Hit, Stats) error { return nil }
		batch := func() {
			must(t, s.SearchBatch(ctx, ix, queries, 20, SearchParams{}, each))
		}
		batch()
		if n := testing.AllocsPerRun(5, batch); n != 0 {
			t.Errorf("%s: %v allocations a batch", name, n)
		}
	}
}

func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	rows := powerLawRows(r, 3000, 2000, 40)
	pairs := 8 * len(rows.Index)
	for name, m := range map[string]*vector.CSR{"weighted": rows, "binary": binary(rows)} {
		ix, err := Build(context.Background(), m, Params{}, nil)
		must(t, err)
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
		ix := build(t, m, int(seed%5))[0]
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
		err := s.SearchBatch(context.Background(), ix, slice(m, 0, 5), 5, SearchParams{}, func(int, []Hit, Stats) error { return nil })
		must(t, err)
	})
}

// damage overwrites, or cuts, one field of an index.
func damage(ix *Index, field, at int, with []byte) {
	p := ix.Partition
	switch field {
	case 0:
		p.Max = put(p.Max, at, with, func(b byte) float32 { return float32(b) })
		return
	case 1:
		p.TAAT.At = put(p.TAAT.At, at, with, func(b byte) uint64 { return uint64(b) })
		return
	case 2:
		p.DAAT.Sets = put(p.DAAT.Sets, at, with, func(b byte) uint16 { return uint16(b) })
		return
	case 12:
		p.TAAT.Sets = put(p.TAAT.Sets, at, with, func(b byte) uint16 { return uint16(b) })
		return
	case 13:
		p.DAAT.First = put(p.DAAT.First, at, with, func(b byte) uint32 { return uint32(b) })
		return
	case 14:
		p.DAAT.Value = put(p.DAAT.Value, at, with, func(b byte) float32 { return float32(b) })
		return
	case 15:
		p.Feature = put(p.Feature, at, with, func(b byte) uint32 { return uint32(b) })
		return
	}
	if w := ix.Weighted; w != nil {
		switch field {
		case 3:
			w.Ptr = put(w.Ptr, at, with, func(b byte) uint32 { return uint32(b) })
		case 4:
			w.Low = put(w.Low, at, with, func(b byte) uint16 { return uint16(b) })
		case 5:
			w.Code = put(w.Code, at, with, func(b byte) uint8 { return b })
		case 6:
			w.Has = put(w.Has, at, with, func(b byte) uint64 { return uint64(b) << (at % 56) })
		case 7:
			w.Rank = put(w.Rank, at, with, func(b byte) uint32 { return uint32(b) })
		case 8:
			w.Cells = put(w.Cells, at, with, func(b byte) uint8 { return b })
		case 9:
			w.Scale = put(w.Scale, at, with, func(b byte) uint8 { return b })
		case 10:
			w.Residual = float64(at) - 3
		case 11:
			w.Stride += at - 3
		}
		return
	}
	u := ix.Uniform
	switch field {
	case 3:
		u.Ptr = put(u.Ptr, at, with, func(b byte) uint32 { return uint32(b) })
	case 4:
		u.Low = put(u.Low, at, with, func(b byte) uint16 { return uint16(b) })
	case 5:
		u.Order = put(u.Order, at, with, func(b byte) uint32 { return uint32(b) })
	case 6:
		u.Has = put(u.Has, at, with, func(b byte) uint64 { return uint64(b) << (at % 56) })
	case 7:
		u.Rank = put(u.Rank, at, with, func(b byte) uint32 { return uint32(b) })
	case 8:
		u.Words = put(u.Words, at, with, func(b byte) uint64 { return uint64(b) << (at % 56) })
	case 9:
		u.Value = put(u.Value, at, with, func(b byte) float32 { return float32(b) / 255 })
	case 10:
		ix.Norm = float64(at) - 3
	case 11:
		u.Stride += at - 3
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
