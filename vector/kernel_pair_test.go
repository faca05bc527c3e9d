package vector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// number is the constraint for elements of the kernels' vectors.
type number interface{ float32 | uint8 }

// pairKernel is a kernel of two vectors. f returns its result as a float64,
// which holds every float32 and uint32.
type pairKernel[A, B number] struct {
	name     string
	distance bool
	f        func(a []A, b []B) float64
}

var (
	floatKernels = []pairKernel[float32, float32]{
		{"L2Squared", true, func(a, b []float32) float64 { return float64(L2Squared(a, b)) }},
		{"Dot", false, func(a, b []float32) float64 { return float64(Dot(a, b)) }},
	}
	uint8Kernels = []pairKernel[uint8, uint8]{
		{"L2SquaredUint8", true, func(a, b []uint8) float64 { return float64(L2SquaredUint8(a, b)) }},
	}
	mixedKernels = []pairKernel[float32, uint8]{
		{"L2SquaredFloat32Uint8", true, func(a []float32, b []uint8) float64 {
			return float64(L2SquaredFloat32Uint8(a, b))
		}},
		{"DotFloat32Uint8", false, func(a []float32, b []uint8) float64 { return float64(DotFloat32Uint8(a, b)) }},
	}
)

// exact returns the sum that a kernel approximates and the sum of its terms'
// magnitudes. In float64 sums of integers are exact.
func exact[A, B number](distance bool, a []A, b []B) (sum, size float64) {
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		term := x * y
		if distance {
			term = (x - y) * (x - y)
		}
		sum += term
		size += math.Abs(term)
	}
	return sum, size
}

// bound is the largest error of a sum of n floats: the relative
// part that doc.go states and half a unit of the last place of a denormal for
// each product that underflows.
func bound(n int, size float64) float64 {
	return float64(4*n)*0x1p-24*size + float64(n)*0x1p-149
}

// integers reports whether a kernel of these elements must be exact.
func integers[A, B number]() bool {
	return unsafe.Sizeof(*new(A)) == 1 && unsafe.Sizeof(*new(B)) == 1
}

func (k pairKernel[A, B]) check(t *testing.T, what string, a []A, b []B) {
	t.Helper()
	got := k.f(a, b)
	want, size := exact(k.distance, a, b)
	limit := 0.0
	if !integers[A, B]() {
		limit = bound(len(a), size)
	}
	if !(math.Abs(got-want) <= limit) {
		t.Fatalf("%s of %d elements, %s: got %v, want %v ± %v", k.name, len(a), what, got, want, limit)
	}
}

// style draws the elements of test vectors.
type style struct {
	name string
	draw func(r *rand.Rand) float32
	byte func(r *rand.Rand) uint8
}

var styles = []style{
	{"uniform",
		func(r *rand.Rand) float32 { return 2*r.Float32() - 1 },
		func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }},
	{"of mixed magnitude",
		func(r *rand.Rand) float32 {
			return float32(math.Ldexp(2*r.Float64()-1, r.IntN(60)-30))
		},
		func(r *rand.Rand) uint8 { return uint8(1) << r.IntN(8) }},
	{"huge",
		func(r *rand.Rand) float32 { return (2*r.Float32() - 1) * 1e17 },
		func(r *rand.Rand) uint8 { return 0x80 }},
	{"tiny",
		func(r *rand.Rand) float32 { return (2*r.Float32() - 1) * 1e-22 },
		func(r *rand.Rand) uint8 { return 0x7f }},
	{"denormal",
		func(r *rand.Rand) float32 { return math.Float32frombits(r.Uint32() & 0x807fffff) },
		func(r *rand.Rand) uint8 { return 0xff }},
	{"extreme",
		func(r *rand.Rand) float32 { return []float32{0, 1, -1, 1e17, -1e17}[r.IntN(5)] },
		func(r *rand.Rand) uint8 { return []uint8{0, 0x80, 0x7f, 0xff}[r.IntN(4)] }},
}

func (s style) fill(r *rand.Rand, to any) {
	switch v := to.(type) {
	case []float32:
		for i := range v {
			v[i] = s.draw(r)
		}
	case []uint8:
		for i := range v {
			v[i] = s.byte(r)
		}
	}
}

// poison fills v with values that a result must not contain.
func poison(v any) {
	switch v := v.(type) {
	case []float32:
		for i := range v {
			v[i] = float32(math.NaN())
		}
	case []uint8:
		for i := range v {
			v[i] = 0xa5
		}
	}
}

// maxLen is the longest length tested exhaustively: several rounds of the
// unrolled loops, the single steps and all tails of every kernel.
func maxLen() int {
	if testing.Short() {
		return 160
	}
	return 300
}

// arena provides vectors of n elements that start at a given byte of a cache line.
type arena[T number] struct {
	all  []T
	line int // index of an element that starts a cache line
}

func newArena[T number](n int) *arena[T] {
	size := int(unsafe.Sizeof(*new(T)))
	all := make([]T, n+128/size)
	past := int(uintptr(unsafe.Pointer(unsafe.SliceData(all))) % 64)
	return &arena[T]{all, (64 - past) % 64 / size}
}

func (a *arena[T]) at(offset, n int) []T {
	from := a.line + offset/int(unsafe.Sizeof(*new(T)))
	return a.all[from : from+n : from+n]
}

func TestKernelPairLengthsAndAlignments(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		lengthsAndAlignments(t, floatKernels)
		lengthsAndAlignments(t, uint8Kernels)
		lengthsAndAlignments(t, mixedKernels)
	})
}

func lengthsAndAlignments[A, B number](t *testing.T, kernels []pairKernel[A, B]) {
	r := rand.New(rand.NewPCG(1, 2))
	as, bs := newArena[A](maxLen()), newArena[B](maxLen())
	for _, k := range kernels {
		styles[0].fill(r, as.all)
		styles[0].fill(r, bs.all)
		for n := range maxLen() + 1 {
			for offset := range 64 {
				other := (offset*5 + n) % 64
				what := fmt.Sprintf("%d and %d bytes into a cache line", offset, other)
				k.check(t, what, as.at(offset, n), bs.at(other, n))
			}
		}
	}
}

func TestKernelPairValues(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		values(t, floatKernels)
		values(t, uint8Kernels)
		values(t, mixedKernels)
	})
}

func values[A, B number](t *testing.T, kernels []pairKernel[A, B]) {
	r := rand.New(rand.NewPCG(3, 4))
	lengths := []int{784, 960, 1000, 4096, 10_007}
	for n := range maxLen() + 1 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		a, b := make([]A, n), make([]B, n)
		for _, sa := range styles {
			sa.fill(r, a)
			for _, sb := range styles {
				sb.fill(r, b)
				for _, k := range kernels {
					k.check(t, sa.name+" and "+sb.name, a, b)
				}
			}
		}
	}
}

// TestKernelPairEachElementOnce sets one element or pair of elements to small
// integers, so that float results must be exact too, and all other elements to zero.
// A read of the surrounding memory changes the result.
func TestKernelPairEachElementOnce(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		eachElementOnce(t, floatKernels)
		eachElementOnce(t, uint8Kernels)
		eachElementOnce(t, mixedKernels)
	})
}

func eachElementOnce[A, B number](t *testing.T, kernels []pairKernel[A, B]) {
	as, bs := newArena[A](maxLen()), newArena[B](maxLen())
	poison(as.all)
	poison(bs.all)
	for n := 1; n <= maxLen(); n++ {
		a, b := as.at(32, n), bs.at(28, n)
		clear(a)
		clear(b)
		for i := range n {
			a[i], b[i] = 3, 5
			for _, k := range kernels {
				want := 15.0
				if k.distance {
					want = 4
				}
				if got := k.f(a, b); got != want {
					t.Fatalf("%s of %d elements, all zero but element %d: %v, want %v", k.name, n, i, got, want)
				}
			}
			a[i], b[i] = 0, 0
		}
	}
}

// TestKernelPairFences reads vectors at the end and at the start of mapped memory.
func TestKernelPairFences(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		fences(t, floatKernels)
		fences(t, uint8Kernels)
		fences(t, mixedKernels)
	})
}

// view returns memory as a vector.
func view[T any](m []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m))), len(m)/int(unsafe.Sizeof(*new(T))))
}

func fences[A, B number](t *testing.T, kernels []pairKernel[A, B]) {
	r := rand.New(rand.NewPCG(5, 6))
	a, b := view[A](fenced(t, 4096)), view[B](fenced(t, 4096))
	styles[0].fill(r, a)
	styles[0].fill(r, b)
	for n := range maxLen() + 1 {
		for _, k := range kernels {
			k.check(t, "both at the end", a[len(a)-n:], b[len(b)-n:])
			k.check(t, "both at the start", a[:n], b[:n])
			k.check(t, "at the end and the start", a[len(a)-n:], b[:n])
			k.check(t, "at the start and the end", a[:n], b[len(b)-n:])
		}
	}
}

// TestKernelPairLimits tests integer vectors at the lengths up to which results are
// guaranteed, and beyond them, where all kernels wrap in the same way.
func TestKernelPairLimits(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		u, v := make([]uint8, MaxIntegerLen+77), make([]uint8, MaxIntegerLen+77)
		for i := range u {
			u[i] = 255
		}
		for _, k := range uint8Kernels {
			k.check(t, "255 and 255", u[:MaxIntegerLen], u[:MaxIntegerLen])
			k.check(t, "255 and 0", u[:MaxIntegerLen], v[:MaxIntegerLen])
		}
		step := 1
		if testing.Short() {
			step = 19
		}
		for n := MaxIntegerLen; n <= len(u); n += step {
			if got, want := L2SquaredUint8(u[:n], v[:n]), l2SquaredUint8Go(u[:n], v[:n]); got != want {
				t.Fatalf("L2SquaredUint8 of %d: %d, want %d", n, got, want)
			}
		}
	})
}

// TestKernelPairNotFinite puts NaN, infinities and overflow at every element:
// the results must follow real arithmetic with the extensions of IEEE 754.
func TestKernelPairNotFinite(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	const huge = math.MaxFloat32
	cases := []struct{ a, b, dot, l2 float32 }{
		{nan, 1, nan, nan},
		{1, nan, nan, nan},
		{nan, 0, nan, nan},
		{inf, 2, inf, inf},
		{2, -inf, -inf, inf},
		{inf, 0, nan, inf},
		{inf, inf, inf, nan},
		{inf, -inf, -inf, inf},
		{huge, huge, inf, 0},
		{huge, -huge, -inf, inf},
		{huge, 1, huge, inf},
	}
	same := func(a, b float32) bool { return a == b || a != a && b != b }
	atEachLevel(t, func(t *testing.T) {
		for n := 1; n <= maxLen()/2; n++ {
			a, b, row := make([]float32, n), make([]float32, n), make([]uint8, n)
			for i := range n {
				for _, c := range cases {
					a[i], b[i] = c.a, c.b
					if got := Dot(a, b); !same(got, c.dot) {
						t.Fatalf("Dot of %d with %v and %v at %d: %v, want %v", n, c.a, c.b, i, got, c.dot)
					}
					if got := L2Squared(a, b); !same(got, c.l2) {
						t.Fatalf("L2Squared of %d with %v and %v at %d: %v, want %v", n, c.a, c.b, i, got, c.l2)
					}
					if c.b < 0 || c.b > 255 || c.b != c.b {
						continue
					}
					row[i] = uint8(c.b)
					if got := DotFloat32Uint8(a, row); !same(got, c.dot) {
						t.Fatalf("DotFloat32Uint8 of %d with %v and %v at %d: %v, want %v", n, c.a, c.b, i, got, c.dot)
					}
					if got := L2SquaredFloat32Uint8(a, row); !same(got, c.l2) {
						t.Fatalf("L2SquaredFloat32Uint8 of %d with %v and %v at %d: %v, want %v", n, c.a, c.b, i, got, c.l2)
					}
				}
				a[i], b[i], row[i] = 0, 0, 0
			}
		}
	})
}

func TestKernelPairShorterLength(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		shorterLength(t, floatKernels)
		shorterLength(t, uint8Kernels)
		shorterLength(t, mixedKernels)
	})
}

func shorterLength[A, B number](t *testing.T, kernels []pairKernel[A, B]) {
	a, b := make([]A, 100), make([]B, 100)
	styles[0].fill(rand.New(rand.NewPCG(7, 8)), a)
	styles[0].fill(rand.New(rand.NewPCG(9, 10)), b)
	for _, k := range kernels {
		want := k.f(a[:61], b[:61])
		if got := k.f(a, b[:61]); got != want {
			t.Errorf("%s of 100 and 61: %v, want %v", k.name, got, want)
		}
		if got := k.f(a[:61], b); got != want {
			t.Errorf("%s of 61 and 100: %v, want %v", k.name, got, want)
		}
		if got := k.f(nil, b); got != 0 {
			t.Errorf("%s of nil: %v", k.name, got)
		}
	}
}
