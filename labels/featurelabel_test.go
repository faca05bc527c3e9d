package labels

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/vector"
)

// drawFeatures draws rows of unit length; n × m.
func drawFeatures(t *rapid.T, n, m int) *vector.CSR {
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "features"), 0))
	return randomFeatures(rng, n, m, 0.4)
}

func scoreOf(scores vector.Sparse, label uint32) float32 {
	if i, ok := slices.BinarySearch(scores.Index, label); ok {
		return scores.Value[i]
	}
	return 0
}

func randomFeatures(rng *rand.Rand, n, m int, density float64) *vector.CSR {
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: m}
	for range n {
		var row vector.Sparse
		for f := range m {
			if rng.Float64() < density {
				row.Index = append(row.Index, uint32(f))
				row.Value = append(row.Value, float32(math.Exp(rng.NormFloat64())))
			}
		}
		for i, length := 0, row.Norm(); i < len(row.Value); i++ {
			row.Value[i] = float32(float64(row.Value[i]) / length)
		}
		x.Append(row)
	}
	x.Cols = m
	return x
}

func mustCount(t rapid.TB, x *vector.CSR, y *Matrix, workers int) *FeatureLabels {
	t.Helper()
	s, err := CountFeatureLabels(context.Background(), x, y, workers)
	must(t, err)
	return s
}

// S equals definition 7, column by column, and does not depend on the number
// of workers; powers equal the power of the cosine.
func TestFeatureLabelsEqualDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, l := rapid.IntRange(0, 10).Draw(t, "n"), rapid.IntRange(0, 7).Draw(t, "m"), rapid.IntRange(0, 5).Draw(t, "l")
		x, sets := drawFeatures(t, n, m), drawSets(t, "label", n, l)
		y := mustSets(t, sets, l)
		s := mustCount(t, x, y, 1)
		if again := mustCount(t, x, y, 3); !reflect.DeepEqual(s, again) {
			t.Fatal("three workers give something else")
		}
		if s.Features() != m || s.Labels() != l {
			t.Fatalf("%d×%d", s.Features(), s.Labels())
		}
		beta := rapid.SampledFrom([]float64{0.5, 1, 1.5, 2}).Draw(t, "beta")
		powers, err := s.Powers(beta)
		must(t, err)
		must(t, powers.Parts[0].Validate(l))
		for f := range m {
			for j := range l {
				var dot, square, rows float64
				for i := range n {
					v := float64(scoreOf(x.Row(i), uint32(f)))
					square += v * v
					if has(sets, i, j) {
						dot += v
						rows++
					}
				}
				want := 0.0
				if dot > 0 {
					want = dot / math.Sqrt(square*rows)
				}
				if got := powers.At(f, j); math.Abs(got-math.Pow(want, beta)) > 1e-6 {
					t.Fatalf("feature %d, label %d to the %v: %v, want %v", f, j, beta, got, math.Pow(want, beta))
				}
			}
		}
	})
}

// Rows taken away leave the bits of a fresh count.
func TestFeatureLabelsUpdateExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, l := rapid.IntRange(1, 12).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "m"), rapid.IntRange(1, 4).Draw(t, "l")
		x, y := drawFeatures(t, n, m), mustSets(t, drawSets(t, "label", n, l), l)
		var in, out []int
		for i := range n {
			if rapid.Bool().Draw(t, "in") {
				in = append(in, i)
			} else {
				out = append(out, i)
			}
		}
		of := func(rows []int) *FeatureLabels { return mustCount(t, SelectRows(x, rows), y.Select(rows), 1) }
		all := mustCount(t, x, y, 2)
		left, err := all.Sub(of(out))
		must(t, err)
		if !reflect.DeepEqual(left, of(in)) {
			t.Fatalf("left: %+v, want %+v", left, of(in))
		}
		// What is not there cannot be taken away.
		if rest := of(out); len(rest.Label) > 0 {
			if _, err := left.Sub(all); !errors.Is(err, ErrInput) {
				t.Fatalf("taken away twice: %v", err)
			}
		}
	})
}

// Counts that are extended by those of further rows, with more features and labels, are those of all rows,
// and so are their powers.
func TestFeatureLabelsExtended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m, l := rapid.IntRange(1, 24).Draw(t, "n"), rapid.IntRange(1, 6).Draw(t, "m"), rapid.IntRange(1, 4).Draw(t, "l")
		x, y := drawFeatures(t, n, m), mustSets(t, drawSets(t, "label", n, l), l)
		parts := make([][]int, rapid.IntRange(1, 3).Draw(t, "parts"))
		for i := range n {
			at := rapid.IntRange(0, len(parts)-1).Draw(t, "part")
			parts[at] = append(parts[at], i)
		}
		var counts []*FeatureLabels
		for _, rows := range parts {
			counts = append(counts, mustCount(t, SelectRows(x, rows), y.Select(rows), 1))
		}
		// The first part does not have all features and labels.
		first := counts[0]
		for f := first.Features() - 1; f >= 0 && first.Square[f] == (Uint128{}); f-- {
			first.Ptr, first.Square = first.Ptr[:f+1], first.Square[:f]
		}
		for j := first.Labels() - 1; j >= 0 && first.Rows[j] == 0; j-- {
			first.Rows = first.Rows[:j]
		}
		got, err := first.Extended(counts[1:])
		must(t, err)
		if len(parts) == 1 {
			if len(got.Label) > 0 || !slices.Equal(got.Square, first.Square) || !slices.Equal(got.Rows, first.Rows) {
				t.Fatalf("alone: %+v, want %+v", got, first)
			}
			return
		}
		want := mustCount(t, x, y, 2)
		if !slices.Equal(got.Square, want.Square) || !slices.Equal(got.Rows, want.Rows) {
			t.Fatalf("lengths: %+v, want %+v", got, want)
		}
		beta := rapid.SampledFrom([]float64{0.5, 1, 1.7, 2, 6}).Draw(t, "beta")
		a, err1 := got.Powers(beta)
		b, err2 := want.Powers(beta)
		must(t, errors.Join(err1, err2))
		a.Parts = []Pairs{first.Pairs(a.Beta), a.Parts[0]}
		for _, p := range append(a.Parts, b.Parts...) {
			must(t, p.Validate(l))
		}
		for f := range m {
			for j := range l {
				if x, y := a.At(f, j), b.At(f, j); x != y {
					t.Fatalf("feature %d, label %d to the %g: %g, want %g", f, j, beta, x, y)
				}
			}
		}
	})
}

// Sums that no count has, as a damaged file may have, are refused.
func TestFeatureLabelsExtendedByDamage(t *testing.T) {
	one := func(sum int64) *FeatureLabels {
		return &FeatureLabels{Ptr: []uint64{0, 1}, Label: []uint32{0}, Sum: []int64{sum}, Square: make([]Uint128, 1), Rows: []uint32{1}}
	}
	for _, c := range []struct {
		first int64
		more  []int64
		ok    bool
	}{
		{1, []int64{1, 1}, true}, {1, []int64{0}, false}, {1, []int64{-1}, false}, {0, []int64{1}, false},
		{1, []int64{math.MaxInt64}, false}, {1, []int64{math.MaxInt64 - 1}, true},
		{1, []int64{math.MaxInt64, 1}, false}, {math.MinInt64, []int64{math.MaxInt64}, false},
	} {
		var more []*FeatureLabels
		for _, x := range c.more {
			more = append(more, one(x))
		}
		if _, err := one(c.first).Extended(more); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrInput) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Counts of fewer features and labels can be subtracted, those of more cannot.
func TestFeatureLabelsSubOfOtherShape(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	first, second := randomFeatures(rng, 3, 2, 0.9), randomFeatures(rng, 3, 5, 0.9)
	small := mustCount(t, first, mustSets(t, [][]uint32{{0}, {}, {0}}, 1), 1)
	large := mustCount(t, second, mustSets(t, [][]uint32{{0, 2}, {1}, {2}}, 3), 1)
	for i := range second.Rows() {
		first.Append(second.Row(i))
	}
	first.Cols = 5
	all := mustCount(t, first, mustSets(t, [][]uint32{{0}, {}, {0}, {0, 2}, {1}, {2}}, 3), 1)
	if c, err := all.Sub(small); err != nil || !reflect.DeepEqual(c, large) {
		t.Errorf("%+v, %v; want %+v", c, err, large)
	}
	if _, err := small.Sub(large); !errors.Is(err, ErrInput) {
		t.Errorf("taken from the smaller: %v", err)
	}
}

func TestFeatureLabelsReject(t *testing.T) {
	y := mustSets(t, [][]uint32{{0}}, 1)
	one := func(v float32) *vector.CSR {
		return &vector.CSR{Ptr: []uint64{0, 1}, Index: []uint32{0}, Value: []float32{v}, Cols: 1}
	}
	for _, v := range []float32{-0.5, 3, float32(math.NaN()), float32(math.Inf(1))} {
		if _, err := CountFeatureLabels(context.Background(), one(v), y, 1); !errors.Is(err, ErrInput) {
			t.Errorf("value %v: %v", v, err)
		}
	}
	if _, err := CountFeatureLabels(context.Background(), one(1), mustSets(t, nil, 1), 1); !errors.Is(err, ErrShape) {
		t.Errorf("other rows: %v", err)
	}
	beyond := one(1)
	beyond.Cols = 0
	if _, err := CountFeatureLabels(context.Background(), beyond, y, 1); !errors.Is(err, ErrInput) {
		t.Errorf("feature beyond: %v", err)
	}
	binary := one(1)
	binary.Value = nil
	if _, err := CountFeatureLabels(context.Background(), binary, y, 1); !errors.Is(err, ErrInput) {
		t.Errorf("no values: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := CountFeatureLabels(ctx, one(1), y, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s := mustCount(t, one(1), y, 1)
	for _, beta := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := s.Powers(beta); !errors.Is(err, ErrInput) {
			t.Errorf("power %v: %v", beta, err)
		}
	}
}

// The sums stay right where one word of the squares overflows.
func TestUint128(t *testing.T) {
	a := Uint128{Lo: math.MaxUint64}
	b := a.Add(a)
	if b != (Uint128{Hi: 1, Lo: math.MaxUint64 - 1}) {
		t.Errorf("sum %+v", b)
	}
	if c, ok := b.sub(a); !ok || c != a {
		t.Errorf("difference %+v, %v", c, ok)
	}
	if _, ok := a.sub(b); ok {
		t.Error("the larger was taken from the smaller")
	}
	if r := (Uint128{Hi: 1 << 8}).root(); r != 1 { // 2⁷² units of 2⁻⁷²
		t.Errorf("root %v", r)
	}
}

func TestEntropySelection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(0, 10).Draw(t, "n"), rapid.IntRange(0, 8).Draw(t, "m")
		x := drawFeatures(t, n, m)
		h := Entropy(x)
		for f := range m {
			rows := 0
			for i := range n {
				if scoreOf(x.Row(i), uint32(f)) > 0 {
					rows++
				}
			}
			want := 0.0
			for _, c := range []int{rows, n - rows} {
				if c > 0 && n > 0 {
					p := float64(c) / float64(n)
					want -= p * math.Log2(p)
				}
			}
			if math.Abs(h[f]-want) > 1e-12 {
				t.Fatalf("feature %d: %v, want %v", f, h[f], want)
			}
		}
		s := rapid.IntRange(-1, m+1).Draw(t, "s")
		keep := SelectFeatures(x, s)
		if len(keep) != max(0, min(s, m)) || !slices.IsSorted(keep) {
			t.Fatalf("%d features kept of %d: %v", s, m, keep)
		}
		for _, f := range keep {
			for g := range m {
				if !slices.Contains(keep, uint32(g)) && (h[g] > h[f] || h[g] == h[f] && g < int(f)) {
					t.Fatalf("feature %d (%v) kept, %d (%v) not", f, h[f], g, h[g])
				}
			}
		}
	})
}
