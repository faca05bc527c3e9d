package vector

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

var signWidths = []int{64, 128, 192, 256}

// The scores are those of the layout of sign sketches and the formula of SetSigns, for every width and
// number of rows.
func TestKernelSignScores(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(51, 52))
		for _, width := range signWidths {
			const rows = 50
			data, chunks := packedSketches(t, r, rows, width, 4)
			for i := range rows {
				factor := math.Float32bits(r.Float32() * 3)
				binary.LittleEndian.PutUint32(data[i>>4][(i&15+1)*width-8:], factor)
			}
			for n := range 25 {
				w := make([]float32, []int{SignBits(width), 100, 64, 5, 0}[n%5])
				for i := range w {
					w[i] = float32(r.NormFloat64()) * 100
				}
				var q SignQuery
				q.SetSigns(w, width)
				ids := make([]uint32, n)
				for i := range ids {
					ids[i] = uint32(r.IntN(rows))
				}
				out := make([]float32, n+3)
				SignScores(&q, chunks, 4, width, ids, out)
				for i, id := range ids {
					checkSigns(t, &q, w, data[id>>4][int(id&15)*width:][:width], out[i])
				}
				if out[n] != 0 {
					t.Fatalf("%d rows: wrote behind the scores", n)
				}
			}
		}
	})
}

// checkSigns compares the score of a sketch with the formulas of SignScores and SetSigns.
func checkSigns(t *testing.T, q *SignQuery, w []float32, row []byte, got float32) {
	t.Helper()
	factor := math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-8:]))
	norm := math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-4:]))
	sum, exact := int32(0), 0.0
	for j := range w {
		sign := int32(row[j/8]>>(j%8)&1)*2 - 1
		sum += sign * int32(q.Multipliers[j])
		exact += float64(w[j]) * float64(sign)
	}
	want := norm - float32(factor*float32(q.Scale*float32(sum)))
	if math.Float32bits(got) != math.Float32bits(want) {
		t.Fatalf("%d bytes: the score is %v, want %v", len(row), got, want)
	}
	// Rounding moves a coordinate by half a step, a quarter of the scale.
	slack := float64(factor) * float64(q.Scale) / 2 * float64(len(w))
	if math.Abs(float64(norm)-2*float64(factor)*exact-float64(want)) > slack+1 {
		t.Fatalf("%d bytes: score %v, unrounded %v", len(row), want, float64(norm)-2*float64(factor)*exact)
	}
}

// The largest sums stay within the integers of the kernels.
func TestKernelSignExtremes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, width := range signWidths {
			for _, sign := range []float32{1, -1} {
				row, w := make([]byte, width), make([]float32, SignBits(width))
				for i := range row[:width-8] {
					row[i] = 0xff
				}
				binary.LittleEndian.PutUint32(row[width-8:], math.Float32bits(1))
				for i := range w {
					w[i] = sign * 31
				}
				var q SignQuery
				q.SetSigns(w, width)
				out := make([]float32, 1)
				SignScores(&q, []unsafe.Pointer{unsafe.Pointer(&row[0])}, 5, width, []uint32{0}, out)
				if want := -2 * sign * 31 * float32(len(w)); out[0] != want {
					t.Errorf("%d bytes: %v, want %v", width, out[0], want)
				}
			}
		}
		for _, w := range [][]float32{{float32(math.Inf(1))}, {0}, {float32(math.NaN())}, nil} {
			var q SignQuery
			if q.SetSigns(w, 64); q != (SignQuery{}) {
				t.Errorf("%v gives %v, %v", w, q.Total, q.Scale)
			}
		}
	})
}

// A query that was set before, for another width, gives the scores of a new one.
func TestKernelSignQueryReuse(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(59, 60))
		var used SignQuery
		for range 50 {
			width := signWidths[r.IntN(len(signWidths))]
			w := make([]float32, r.IntN(SignBits(width)+1))
			for i := range w {
				w[i] = float32(r.NormFloat64())
			}
			data, chunks := packedSketches(t, r, 1, width, 0)
			binary.LittleEndian.PutUint32(data[0][width-8:], math.Float32bits(1))
			var fresh SignQuery
			var got, want [1]float32
			used.SetSigns(w, width)
			fresh.SetSigns(w, width)
			SignScores(&used, chunks, 0, width, []uint32{0}, got[:])
			SignScores(&fresh, chunks, 0, width, []uint32{0}, want[:])
			if got != want {
				t.Fatalf("%d coordinates, %d bytes: %v, of a new query %v", len(w), width, got, want)
			}
		}
	})
}

// Every element is the sum that the matrix of signs gives, with the additions of a recursion.
func TestKernelRotateSigns(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(53, 54))
		for n := 1; n <= 4096; n *= 2 {
			x, signs := view[float32](fencedEnd(t, 4*n)), view[uint64](fencedEnd(t, 8*((n+63)/64)))
			for i := range signs {
				signs[i] = r.Uint64()
			}
			want := make([]float32, n)
			for i := range x {
				x[i] = float32(r.NormFloat64())
				if want[i] = x[i]; signs[i/64]>>(i%64)&1 != 0 {
					want[i] = -x[i]
				}
			}
			want = hadamardOf(want)
			RotateSigns(x, signs)
			for i := range x {
				if math.Float32bits(x[i]) != math.Float32bits(want[i]) {
					t.Fatalf("%d elements: element %d is %v, want %v", n, i, x[i], want[i])
				}
			}
		}
		for _, x := range [][]float32{{1, 2, 3}, make([]float32, 128)} {
			x[0] = 1
			if RotateSigns(x, []uint64{1}); x[0] != 1 {
				t.Errorf("%d elements with 64 signs were changed", len(x))
			}
		}
	})
}

// hadamardOf computes H(x) = (H(even) ± H(odd)) of neighbors, from H₂ₙ = Hₙ ⊗ H₂.
func hadamardOf(x []float32) []float32 {
	if len(x) == 1 {
		return []float32{x[0]}
	}
	sum, diff := make([]float32, len(x)/2), make([]float32, len(x)/2)
	for i := range sum {
		sum[i], diff[i] = x[2*i]+x[2*i+1], x[2*i]-x[2*i+1]
	}
	out := make([]float32, 0, len(x))
	sum, diff = hadamardOf(sum), hadamardOf(diff)
	for i := range sum {
		out = append(out, sum[i], diff[i])
	}
	return out
}
