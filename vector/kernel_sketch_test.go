package vector

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// sketches is a store of sketches in chunks of 2^shift rows, for tests.
type sketches struct {
	rows   int
	width  int
	shift  uint
	data   [][]byte // the last chunk may be short
	chunks []unsafe.Pointer
}

// newSketches lays out rows in memory from alloc, whose argument is a size in bytes.
func newSketches(r *rand.Rand, rows, width int, shift uint, s style, alloc func(int) []byte) *sketches {
	sk := &sketches{rows: rows, width: width, shift: shift}
	for at := 0; at < rows; at += 1 << shift {
		size := min(rows-at, 1<<shift) * width
		m := alloc(size)
		m = m[len(m)-size:]
		s.fill(r, m)
		for i := width - 4; i < size; i += width {
			binary.LittleEndian.PutUint32(m[i:], math.Float32bits(r.Float32()*1e6))
		}
		sk.data = append(sk.data, m)
		sk.chunks = append(sk.chunks, unsafe.Pointer(unsafe.SliceData(m)))
	}
	return sk
}

// estimate computes the documented result of SketchScores for one row.
func (sk *sketches) estimate(q []int16, scale float32, id uint32) float32 {
	row := sk.data[id>>sk.shift][int(id&(1<<sk.shift-1))*sk.width:][:sk.width]
	dot := int64(0)
	for i, v := range row[:sk.width-4] {
		dot += int64(q[i]) * int64(int8(v))
	}
	scaled := float32(float64(scale) * float64(float32(dot))) // one rounding: a double holds the product
	return math.Float32frombits(binary.LittleEndian.Uint32(row[sk.width-4:])) - scaled
}

func (sk *sketches) check(t *testing.T, q []int16, scale float32, ids []uint32) {
	t.Helper()
	out := make([]float32, len(ids)+5)
	for i := range out {
		out[i] = -1
	}
	SketchScores(q, scale, sk.chunks, sk.shift, sk.width, ids, out)
	for i, id := range ids {
		if want := sk.estimate(q, scale, id); math.Float32bits(out[i]) != math.Float32bits(want) {
			t.Fatalf("width %d, shift %d: score %d of %d, row %d: %v, want %v",
				sk.width, sk.shift, i, len(ids), id, out[i], want)
		}
	}
	for i, v := range out[len(ids):] {
		if v != -1 {
			t.Fatalf("width %d: %d ids, wrote score %d", sk.width, len(ids), len(ids)+i)
		}
	}
}

func query(r *rand.Rand, width int, draw func(*rand.Rand) int16) []int16 {
	q := make([]int16, width)
	for i := range q[:width-4] {
		q[i] = draw(r)
	}
	return q
}

var queries = []func(r *rand.Rand) int16{
	func(r *rand.Rand) int16 { return int16(r.Uint32()) },
	func(r *rand.Rand) int16 { return math.MinInt16 },
	func(r *rand.Rand) int16 { return math.MaxInt16 },
	func(r *rand.Rand) int16 { return int16(r.IntN(256) - 128) },
}

func TestKernelSketch(t *testing.T) {
	counts := []int{0, 1, 3, 4, 5, 19, 20, 21, 24, 37} // around the steps of four and the prefetch distance
	if !testing.Short() {
		for n := range 70 {
			counts = append(counts, n)
		}
	}
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		for _, width := range []int{64, 128, 32, 96} {
			for _, shift := range []uint{0, 3, 7, 32} {
				for _, s := range styles {
					// A chunk need not start on a cache line.
					alloc := func(size int) []byte { return make([]byte, size+r.IntN(64)) }
					sk := newSketches(r, 100, width, shift, s, alloc)
					for _, draw := range queries {
						q := query(r, width, draw)
						for _, n := range counts {
							ids := make([]uint32, n)
							for i := range ids {
								ids[i] = uint32(r.IntN(sk.rows))
							}
							sk.check(t, q, r.Float32()*3-1, ids)
						}
					}
				}
			}
		}
	})
}

// TestKernelSketchEachElementOnce tests queries with one coordinate that is not zero.
func TestKernelSketchEachElementOnce(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		ids := []uint32{0, 1, 2, 3, 4, 5, 6}
		for _, width := range []int{64, 128} {
			sk := newSketches(r, len(ids), width, 10, styles[0], func(size int) []byte { return make([]byte, size) })
			for i := range width - 4 {
				q := make([]int16, width)
				q[i] = -301
				sk.check(t, q, 0.25, ids)
			}
		}
	})
}

// TestKernelSketchFences tests chunks at the end of mapped memory, with more ids than
// are prefetched.
func TestKernelSketchFences(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		page := func(size int) []byte { return fenced(t, size) }
		for _, width := range []int{64, 128} {
			sk := newSketches(r, 70, width, 4, styles[0], page)
			ids := view[uint32](fenced(t, 64*4))
			ids = ids[len(ids)-64:]
			for i := range ids {
				ids[i] = uint32(sk.rows - 1 - i)
			}
			q, out := view[int16](fenced(t, width*2)), view[float32](fenced(t, 64*4))
			q = q[len(q)-width:]
			copy(q, query(r, width, queries[0]))
			for n := range len(ids) + 1 {
				SketchScores(q, 0.5, sk.chunks, sk.shift, width, ids[len(ids)-n:], out[len(out)-n:])
				for i, got := range out[len(out)-n:] {
					if want := sk.estimate(q, 0.5, ids[len(ids)-n+i]); got != want {
						t.Fatalf("width %d: score %d of %d: %v, want %v", width, i, n, got, want)
					}
				}
			}
		}
	})
}
