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

// packedSketches returns random sketches in chunks of 1<<shift at the end of mapped
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

// The scores match the layout of PackedWidth and the formula of SetPacked, coordinate
// by coordinate, for every number of rows.
func TestKernelPackedScores(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(41, 42))
		const rows = 50
		data, chunks := packedSketches(t, r, rows, PackedWidth, 4)
		for n := range 45 {
			var q PackedQuery
			w := make([]float32, []int{PackedHead + PackedTail, 100, 12, 5, 0}[n%5])
			for i := range w {
				w[i] = float32(r.NormFloat64()) * 100
				if n%7 == 0 && i >= PackedHead {
					w[i] *= 1e-3
				}
			}
			q.SetPacked(w)
			ids := make([]uint32, n)
			for i := range ids {
				ids[i] = uint32(r.IntN(rows))
			}
			out := make([]float32, n+3)
			PackedScores(&q, chunks, 4, ids, out)
			for i, id := range ids {
				row := data[id>>4][int(id&15)*PackedWidth:][:PackedWidth]
				norm := math.Float32frombits(binary.LittleEndian.Uint32(row[60:]))
				sum, exact, slack := int64(0), 0.0, 0.0
				for j := range w {
					var c, f int64
					switch {
					case j < PackedHead:
						c, f = int64(int8(row[j])), int64(q.Head[j])
					case j < PackedHead+PackedTail/2:
						c, f = int64(row[j]&15)-8, int64(q.Low[j])<<q.Shift
					default:
						c, f = int64(row[j-PackedTail/2]>>4)-8, int64(q.High[j-PackedTail/2])<<q.Shift
					}
					sum += c * f
					exact += float64(w[j]) * float64(c)
					slack += math.Abs(float64(c))
				}
				want := norm - float32(float64(q.Scale)*float64(float32(sum)))
				if math.Float32bits(out[i]) != math.Float32bits(want) {
					t.Fatalf("%d rows: score %d is %v, want %v", n, i, out[i], want)
				}
				// Rounding moves a coordinate by half a step of the tail.
				slack *= float64(q.Scale) / 2 * float64(int64(1)<<q.Shift) / 2
				if math.Abs(float64(norm)-2*exact-float64(want)) > 2*slack+1 {
					t.Fatalf("%d rows: score %v, unrounded %v", n, want, float64(norm)-2*exact)
				}
			}
			if out[n] != 0 {
				t.Fatalf("%d rows: wrote behind the scores", n)
			}
		}
	})
}

// The largest products of all fields at once stay within 32 bits.
func TestKernelPackedExtremes(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		row := make([]byte, PackedWidth)
		for i := range row[:PackedWidth-4] {
			row[i] = 0xff
			if i < PackedHead {
				row[i] = 0x80
			}
		}
		for _, tail := range []float32{1000, 7.9, 0.001, -1000} {
			w := make([]float32, PackedHead+PackedTail)
			for i := range w {
				w[i] = tail
				if i < PackedHead {
					w[i] = -1000
				}
			}
			var q PackedQuery
			q.SetPacked(w)
			if q.Shift > 7 {
				t.Fatalf("shift %d", q.Shift)
			}
			out := make([]float32, 1)
			PackedScores(&q, []unsafe.Pointer{unsafe.Pointer(&row[0])}, 5, []uint32{0}, out)
			want := -2 * (12*128*1000 + 96*7*float64(tail))
			if math.Abs(float64(out[0])-want) > 0.005*math.Abs(want)+1000 {
				t.Errorf("tail %v: %v, want %v", tail, out[0], want)
			}
		}
		for _, w := range [][]float32{{float32(math.Inf(1))}, {0}, {float32(math.NaN())}, nil} {
			var q PackedQuery
			if q.SetPacked(w); q != (PackedQuery{}) {
				t.Errorf("%v gives %+v", w, q)
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
