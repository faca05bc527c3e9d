package vector

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// drawSparse draws a vector over cols features.
func drawSparse(t *rapid.T, cols int) Sparse {
	var s Sparse
	for f := range cols {
		if rapid.IntRange(0, 2).Draw(t, "listed") == 0 {
			s.Index = append(s.Index, uint32(f))
			s.Value = append(s.Value, rapid.Float32Range(-4, 4).Draw(t, "value"))
		}
	}
	return s
}

func dense(s Sparse, cols int) []float64 {
	x := make([]float64, cols)
	for i, f := range s.Index {
		x[f] = float64(s.Value[i])
	}
	return x
}

func TestSparseAgreesWithDense(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const cols = 20
		a, b := drawSparse(t, cols), drawSparse(t, cols)
		if err := a.Validate(); err != nil {
			t.Fatal(err)
		}
		var dot, norm float64
		x, y := dense(a, cols), dense(b, cols)
		for i := range x {
			dot += x[i] * y[i]
			norm += x[i] * x[i]
		}
		if got := DotSparse(a, b); got != dot {
			t.Fatalf("dot %g, want %g", got, dot)
		}
		if got := a.Norm(); got != math.Sqrt(norm) {
			t.Fatalf("norm %g, want %g", got, math.Sqrt(norm))
		}
	})
}

func TestSparseRefusesNonsense(t *testing.T) {
	for name, s := range map[string]Sparse{
		"lengths":   {Index: []uint32{1, 2}, Value: []float32{1}},
		"order":     {Index: []uint32{2, 1}, Value: []float32{1, 1}},
		"duplicate": {Index: []uint32{2, 2}, Value: []float32{1, 1}},
		"NaN":       {Index: []uint32{2}, Value: []float32{float32(math.NaN())}},
		"infinity":  {Index: []uint32{2}, Value: []float32{float32(math.Inf(-1))}},
	} {
		if err := s.Validate(); !errors.Is(err, ErrSparse) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCSRTransposeTwiceIsTheMatrix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m CSR
		rows := rapid.IntRange(1, 12).Draw(t, "rows")
		for range rows {
			m.Append(drawSparse(t, 9))
		}
		if m.Value == nil {
			m.Value = []float32{}
		}
		tr := m.Transpose()
		if err := tr.Validate(); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			for j := range m.Cols {
				if a, b := at(m.Row(i), j), at(tr.Row(j), i); a != b {
					t.Fatalf("entry %d %d is %g, transposed %g", i, j, a, b)
				}
			}
		}
		back := tr.Transpose()
		if back.Rows() != m.Rows() || len(back.Index) != len(m.Index) {
			t.Fatalf("%d rows and %d entries, want %d and %d", back.Rows(), len(back.Index), m.Rows(), len(m.Index))
		}
		for i := range m.Index {
			if back.Index[i] != m.Index[i] || back.Value[i] != m.Value[i] {
				t.Fatalf("entry %d changed", i)
			}
		}
	})
}

func TestCSRKept(t *testing.T) {
	m := &CSR{Ptr: []uint64{0, 2, 2, 4}, Index: []uint32{0, 3, 1, 3}, Value: []float32{1, 2, 3, 4}, Cols: 5}
	want := &CSR{Ptr: []uint64{0, 1, 1, 2}, Index: []uint32{3, 1}, Value: []float32{2, 3}, Cols: 5}
	got := m.Kept(func(row int, value float32) bool { return row == 0 && value > 1 || row == 2 && value < 4 })
	if !reflect.DeepEqual(got, want) || got.Validate() != nil {
		t.Fatalf("%+v, want %+v", got, want)
	}
	if none := m.Kept(func(int, float32) bool { return false }); none.Rows() != 3 || none.Validate() != nil {
		t.Fatalf("nothing kept: %+v", none)
	}
}

func at(s Sparse, col int) float32 {
	for i, f := range s.Index {
		if int(f) == col {
			return s.Value[i]
		}
	}
	return 0
}

func TestCSRRefusesNonsense(t *testing.T) {
	for name, m := range map[string]*CSR{
		"empty":   {},
		"span":    {Ptr: []uint64{0, 1}, Cols: 3},
		"offsets": {Ptr: []uint64{0, 3, 2}, Index: []uint32{0, 1}, Cols: 3},
		"column":  {Ptr: []uint64{0, 1}, Index: []uint32{3}, Cols: 3},
		"values":  {Ptr: []uint64{0, 1}, Index: []uint32{1}, Value: []float32{1, 2}, Cols: 3},
		"order":   {Ptr: []uint64{0, 2}, Index: []uint32{1, 0}, Cols: 3},
	} {
		if err := m.Validate(); !errors.Is(err, ErrSparse) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The check of all rows at once accepts a matrix exactly if no single row has an error.
func TestValidRowsHaveNoError(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	verdicts := map[bool]int{}
	for range 20_000 {
		m := &CSR{Ptr: []uint64{0}, Cols: 5}
		if r.IntN(2) == 0 {
			m.Value = []float32{}
		}
		for range r.IntN(6) {
			for f := range uint32(5) {
				if r.IntN(3) == 0 {
					m.Index = append(m.Index, f)
					if m.Value != nil {
						m.Value = append(m.Value, r.Float32())
					}
				}
			}
			m.Ptr = append(m.Ptr, uint64(len(m.Index)))
		}
		if n := len(m.Index); n > 0 {
			switch at := r.IntN(n); r.IntN(6) {
			case 0:
				m.Index[at] = uint32(r.IntN(7))
			case 1:
				if at := r.IntN(len(m.Ptr)-1) + 1; at < len(m.Ptr)-1 {
					m.Ptr[at] = uint64(r.IntN(n + 3))
				}
			case 2:
				if m.Value != nil {
					m.Value[at] = float32(math.Inf(1))
				}
			}
		}
		valid, err := m.valid(), m.firstError()
		if valid != (err == nil) {
			t.Fatalf("%+v: valid is %v, %v", m, valid, err)
		}
		verdicts[valid]++
	}
	if verdicts[true] == 0 || verdicts[false] == 0 {
		t.Errorf("verdicts %v", verdicts)
	}
}
