package vector

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// fencedEnd returns n bytes at the end of mapped memory.
func fencedEnd(t *testing.T, n int) []byte {
	b := fenced(t, n)
	return b[len(b)-n:]
}

// packedSketches returns random rows in chunks of 1<<shift at the end of mapped
// memory.
func packedSketches(
	t *testing.T, r *rand.Rand, rows, width int, shift uint,
) (data [][]byte, chunks []unsafe.Pointer) {
	for at := 0; at < rows; at += 1 << shift {
		m := fencedEnd(t, min(rows-at, 1<<shift)*width)
		for i := range m {
			m[i] = byte(r.Uint32())
			if r.IntN(8) == 0 {
				m[i] = 0xff
			}
		}
		for i := width - 4; i < len(m); i += width {
			binary.LittleEndian.PutUint32(m[i:], math.Float32bits(r.Float32()*1e6))
		}
		data = append(data, m)
		chunks = append(chunks, unsafe.Pointer(unsafe.SliceData(m)))
	}
	return data, chunks
}

// packedWidths are the widths of packed sketches.
var packedWidths = []int{64, 128, 192, 256}

// The scores match the layout of packed sketches and the formula of SetPacked, coordinate
// by coordinate, for every width and number of rows.
func TestKernelPackedScores(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		for _, width := range packedWidths {
			const rows = 50
			data, chunks := packedSketches(t, r, rows, width, 4)
			for n := range 45 {
				var q PackedQuery
				w := make([]float32, []int{PackedCoordinates(width), 100, 12, 5, 0}[n%5])
				for i := range w {
					w[i] = float32(r.NormFloat64()) * 100
					if n%7 == 0 && i >= PackedHead {
						w[i] *= 1e-3
					}
				}
				q.SetPacked(w, width)
				ids := make([]uint32, n)
				for i := range ids {
					ids[i] = uint32(r.IntN(rows))
				}
				out := make([]float32, n+3)
				PackedScores(&q, chunks, 4, width, ids, out)
				for i, id := range ids {
					checkPacked(t, &q, w, data[id>>4][int(id&15)*width:][:width], out[i])
				}
				if out[n] != 0 {
					t.Fatalf("%d rows: wrote behind the scores", n)
				}
			}
		}
	})
}

// checkPacked compares the score of a sketch with the formulas of PackedScores and SetPacked.
func checkPacked(t *testing.T, q *PackedQuery, w []float32, row []byte, got float32) {
	t.Helper()
	norm := math.Float32frombits(binary.LittleEndian.Uint32(row[len(row)-4:]))
	sum, exact, slack := int64(0), 0.0, 0.0
	both := len(row) - 16 // bytes with two coordinates
	for j := range w {
		var c, f int64
		switch {
		case j < PackedHead:
			c, f = int64(int8(row[j])), int64(q.Head[j])
		case j < PackedHead+both:
			c, f = int64(row[j]&15)-8, int64(q.Low[j])<<q.Shift
		default:
			c, f = int64(row[j-both]>>4)-8, int64(q.High[j-both])<<q.Shift
		}
		sum += c * f
		exact += float64(w[j]) * float64(c)
		slack += math.Abs(float64(c))
	}
	want := norm - float32(float64(q.Scale)*float64(float32(sum)))
	if math.Float32bits(got) != math.Float32bits(want) {
		t.Fatalf("%d bytes: the score is %v, want %v", len(row), got, want)
	}
	// Rounding moves a coordinate by half a step of the tail.
	slack *= float64(q.Scale) / 2 * float64(int64(1)<<q.Shift) / 2
	if math.Abs(float64(norm)-2*exact-float64(want)) > 2*slack+1 {
		t.Fatalf("%d bytes: score %v, unrounded %v", len(row), want, float64(norm)-2*exact)
	}
}

// The largest products of all fields at once stay within 32 bits.
func TestKernelPackedExtremes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for _, width := range packedWidths {
			row := make([]byte, width)
			for i := range row[:width-4] {
				row[i] = 0xff
				if i < PackedHead {
					row[i] = 0x80
				}
			}
			for _, tail := range []float32{1000, 7.9, 0.001, -1000} {
				w := make([]float32, PackedCoordinates(width))
				for i := range w {
					w[i] = tail
					if i < PackedHead {
						w[i] = -1000
					}
				}
				var q PackedQuery
				q.SetPacked(w, width)
				if q.Shift > 7 {
					t.Fatalf("shift %d", q.Shift)
				}
				out := make([]float32, 1)
				PackedScores(&q, []unsafe.Pointer{unsafe.Pointer(&row[0])}, 5, width, []uint32{0}, out)
				want := -2 * (12*128*1000 + float64(len(w)-PackedHead)*7*float64(tail))
				if math.Abs(float64(out[0])-want) > 0.005*math.Abs(want)+1000 {
					t.Errorf("%d bytes, tail %v: %v, want %v", width, tail, out[0], want)
				}
			}
			for _, w := range [][]float32{{float32(math.Inf(1))}, {0}, {float32(math.NaN())}, nil} {
				var q PackedQuery
				if q.SetPacked(w, width); q != (PackedQuery{}) {
					t.Errorf("%v gives %+v", w, q)
				}
			}
		}
	})
}

func TestKernelMatVecBytes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(43, 44))
		for _, rows := range []int{4, 8, 12, 108} {
			for _, stride := range []int{64, 128, 832} {
				m, x := view[int8](fencedEnd(t, rows*stride)), fencedEnd(t, stride)
				for i := range m {
					m[i] = int8(r.IntN(129) - 64)
				}
				for i := range x {
					x[i] = byte(r.IntN(256))
				}
				for _, extreme := range []bool{false, true} {
					if extreme {
						for i := range m {
							m[i] = int8(64 - 128*(i/stride%2))
						}
						for i := range x {
							x[i] = 255
						}
					}
					out := view[int32](fencedEnd(t, 4*rows))
					MatVecBytes(m, rows, stride, x, out)
					for i, got := range out {
						want := int32(0)
						for j, v := range x {
							want += int32(m[i*stride+j]) * int32(v)
						}
						if got != want {
							t.Fatalf("%d × %d: row %d is %d, want %d", rows, stride, i, got, want)
						}
					}
				}
			}
		}
	})
}

func TestKernelWholeBytes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		for n := range 70 {
			x, out := view[float32](fencedEnd(t, 4*n)), fencedEnd(t, n)
			for i := range x {
				x[i] = float32((i * 37) % 256)
			}
			if n > 3 {
				x[3] = float32(math.Copysign(0, -1))
			}
			if !WholeBytes(x, out) {
				t.Fatalf("%d whole numbers are not", n)
			}
			for i, v := range x {
				if out[i] != uint8(v) {
					t.Fatalf("element %d of %d: %d, want %v", i, n, out[i], v)
				}
			}
			for i, v := range x {
				for _, bad := range []float32{
					-1, 256, 0.5, 1e10, -1e10, float32(math.NaN()), float32(math.Inf(1)), 255.00002, 1 << 31,
				} {
					x[i] = bad
					if WholeBytes(x, out) {
						t.Fatalf("element %d of %d is %v", i, n, bad)
					}
				}
				x[i] = v
			}
		}
	})
}
