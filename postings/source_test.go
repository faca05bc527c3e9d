package postings

import (
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

// stored is what a collection holds, and the rows that an index makes of it
// by the definition at Source.
type stored struct {
	runs  []vector.CSR
	shift uint
	first int
	idf   []float32
	keep  []uint64
	units *vector.CSR
	norm  []float64
}

func drawStored(t *rapid.T, r *rand.Rand, value func() float32) *stored {
	cols := rapid.IntRange(1, 80).Draw(t, "cols")
	n := rapid.IntRange(0, 200).Draw(t, "rows")
	s := &stored{shift: 4, first: rapid.IntRange(0, 40).Draw(t, "first")}
	if rapid.Bool().Draw(t, "weighed") {
		for range cols {
			s.idf = append(s.idf, float32(r.IntN(4))*0.37)
		}
	}
	if rapid.Bool().Draw(t, "thinned") {
		for range (cols + 63) / 64 {
			s.keep = append(s.keep, r.Uint64())
		}
	}
	weighed := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: cols}
	s.units = &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: cols}
	late := rapid.IntRange(0, 40).Draw(t, "late") // rows that came after the index
	share := rapid.SampledFrom([]float64{0.02, 0.1, 0.4}).Draw(t, "share")
	run := vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: cols}
	for i := range s.first + n + late {
		width := cols
		if i >= s.first+n {
			width += 9
		}
		x := drawRow(r, width, share, value)
		if run.Rows() == 1<<s.shift {
			s.runs = append(s.runs, run)
			run = vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: cols}
		}
		run.Append(x)
		if i < s.first || i >= s.first+n {
			continue
		}
		var w vector.Sparse
		for e, f := range x.Index {
			v := x.Value[e]
			if s.idf != nil {
				if v >= 1 {
					v = 1 + float32(math.Log(float64(v)))
				}
				v *= s.idf[f]
			}
			if v > 0 && (s.keep == nil || s.keep[f/64]>>(f%64)&1 == 1) {
				w.Index = append(w.Index, f)
				w.Value = append(w.Value, v)
			}
		}
		weighed.Append(w)
		s.norm = append(s.norm, w.Norm())
		s.units.Append(unit(w))
	}
	s.runs = append(s.runs, run)
	if got := Lengths(weighed, s.keep); !slices.Equal(got, s.norm) && n > 0 {
		t.Fatalf("lengths %v, want %v", got, s.norm)
	}
	return s
}

// without is an index whose rows are in the collection.
func (s *stored) without(t rapid.TB, ix *Index) *Index {
	out := *ix
	source, err := NewSource(s.runs, s.shift, s.first, ix.Rows.Rows(), ix.Rows.Cols)
	must(t, err)
	source.Norm, source.IDF, source.Keep = s.norm, s.idf, s.keep
	out.Rows, out.Source = nil, source
	must(t, out.Validate())
	return &out
}

// TestSourceGivesTheSameBits: an index that takes its rows from a collection
// answers as one that keeps them, by every strategy.
func TestSourceGivesTheSameBits(t *testing.T) {
	ctx := context.Background()
	s := NewSearcher()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		value := rapid.SampledFrom([]func() float32{
			func() float32 { return 1 },
			func() float32 { return float32(1 + r.IntN(400)) },
			func() float32 { return float32(r.ExpFloat64()) },
			func() float32 { return float32(math.Exp(12 * r.NormFloat64())) },
		}).Draw(t, "value")
		have := drawStored(t, r, value)
		kept := build(t, have.units)
		bare := have.without(t, kept)
		queries := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		for range 4 {
			q := drawRow(r, have.units.Cols+5, 0.2, value)
			var x vector.Sparse // as label models ask: without features not kept
			for e, f := range q.Index {
				if int(f) >= have.units.Cols || have.keep == nil || have.keep[f/64]>>(f%64)&1 == 1 {
					x.Index, x.Value = append(x.Index, f), append(x.Value, q.Value[e])
				}
			}
			queries.Append(unit(x))
		}
		p := SearchParams{}
		if rapid.Bool().Draw(t, "deleted") {
			p.Deleted = roaring.New()
			for i := range uint32(have.units.Rows()) {
				if r.IntN(3) == 0 {
					p.Deleted.Add(i)
				}
			}
		}
		accept := func(row uint32) bool { return p.Deleted == nil || !p.Deleted.Contains(row) }
		const k = 7
		for i := range 4 {
			want := bruteForce(have.units, queries.Row(i), k, accept)
			for _, p.Strategy = range strategies {
				got, _, err := s.Search(ctx, bare, queries.Row(i), k, p, nil)
				must(t, err)
				if !slices.Equal(got, want) {
					t.Fatalf("strategy %d, query %v: %s", p.Strategy, queries.Row(i), diff.Diff(want, got))
				}
			}
		}
	})
}

// TestSourceDropsFeatures: features that the index does not keep are no part of
// a row even where a query has them.
func TestSourceDropsFeatures(t *testing.T) {
	run := vector.CSR{Ptr: []uint64{0, 2}, Index: []uint32{0, 1}, Value: []float32{3, 4}, Cols: 2}
	have := &stored{
		runs: []vector.CSR{run}, shift: 4, keep: []uint64{1}, norm: []float64{3},
		units: &vector.CSR{Ptr: []uint64{0, 1}, Index: []uint32{0}, Value: []float32{1}, Cols: 2},
	}
	bare := have.without(t, build(t, have.units))
	q := vector.Sparse{Index: []uint32{0, 1}, Value: []float32{0.5, 0.5}}
	for _, strategy := range strategies {
		got, _, err := NewSearcher().Search(t.Context(), bare, q, 1, SearchParams{Strategy: strategy}, nil)
		if err != nil || !slices.Equal(got, []Hit{{0, 0.5}}) {
			t.Errorf("strategy %d: %v, %v", strategy, got, err)
		}
	}
}

func TestSourceRefusesWhatContradicts(t *testing.T) {
	run := func(rows int) vector.CSR {
		m := vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
		for i := range rows {
			m.Append(vector.Sparse{Index: []uint32{uint32(i)}, Value: []float32{1}})
		}
		return m
	}
	valueless := run(4)
	valueless.Value = nil
	for name, x := range map[string]struct {
		runs        []vector.CSR
		first, rows int
	}{
		"short run":     {[]vector.CSR{run(3), run(4)}, 0, 2},
		"too many rows": {[]vector.CSR{run(4), run(2)}, 3, 4},
		"negative":      {[]vector.CSR{run(4)}, -1, 2},
		"no values":     {[]vector.CSR{valueless}, 0, 2},
		"no runs":       {nil, 0, 1},
	} {
		if _, err := NewSource(x.runs, 2, x.first, x.rows, 9); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, change := range map[string]func(*Source){
		"lengths":         func(s *Source) { s.Norm = s.Norm[1:] },
		"infinite length": func(s *Source) { s.Norm[1] = math.Inf(1) },
		"NaN length":      func(s *Source) { s.Norm[1] = math.NaN() },
		"weights":         func(s *Source) { s.IDF = make([]float32, 8) },
		"negative weight": func(s *Source) { s.IDF = append(make([]float32, 8), -1) },
		"kept":            func(s *Source) { s.Keep = make([]uint64, 2) },
	} {
		s, err := NewSource([]vector.CSR{run(4), run(2)}, 2, 1, 5, 9)
		must(t, err)
		s.Norm = []float64{1, 1, 1, 1, 1}
		ix := &Index{Source: s, Lists: Lists{At: []uint32{0}, First: []uint32{0}, Code: make([]uint8, codePadding)}}
		must(t, ix.Validate())
		change(s)
		if err := ix.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
