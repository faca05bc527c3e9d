package postings

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The kernels in use are compared with their references bit for bit. Where
// there is no assembly both are the same.

func randomBytes(r *rand.Rand, n int, high bool) []uint8 {
	b := make([]uint8, n)
	for i := range b {
		b[i] = uint8(r.IntN(256))
		if !high && r.IntN(3) > 0 {
			b[i] = uint8(r.IntN(8))
		}
	}
	return b
}

func TestScatterEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for n := range 40 {
		for range 20 {
			rows := 1 + r.IntN(100)
			weight := uint16(r.IntN(1 << (1 + r.IntN(16))))
			low, code := make([]uint16, n), randomBytes(r, n, r.IntN(2) == 0)
			for i := range low {
				low[i] = uint16(r.IntN(rows))
			}
			a := make([]uint16, rows)
			for i := range a {
				a[i] = uint16(r.IntN(1 << 16))
			}
			b := slices.Clone(a)
			scatterCodes(a, low, code, weight)
			scatterCodesGo(b, low, code, weight)
			if !slices.Equal(a, b) {
				t.Fatalf("%d codes: %v, want %v", n, a, b)
			}
		}
	}
}

// TestAddBitsEqualsReference has few bits and many, and none: no kernel touches what is behind the cells.
func TestAddBitsEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 70 {
		for _, share := range []int{0, 1, 8, 15, 16} {
			words := make([]uint16, 4*n)
			for i := range words {
				for bit := range 16 {
					if r.IntN(16) < share {
						words[i] |= 1 << bit
					}
				}
			}
			code := randomBytes(r, 64*n+codePadding, r.IntN(2) == 0)
			weight := uint16(r.IntN(1 << (1 + r.IntN(16))))
			cells := make([]uint16, 64*n+1)
			for i := range cells {
				cells[i] = uint16(r.IntN(1 << (1 + r.IntN(16))))
			}
			want := slices.Clone(cells)
			ones := addBitsGo(want[:64*n], words, code, weight)
			for name, add := range addBitsKernels(t) {
				got := slices.Clone(cells)
				if n := add(got[:64*n], words, code, weight); n != ones || !slices.Equal(got, want) {
					t.Fatalf("%s, %d words: %d bits, want %d, or other cells", name, len(words), n, ones)
				}
			}
		}
	}
}

func TestUnitsEqualReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for n := range 150 {
		unit := uint16(r.IntN(1 << 15))
		words, cells := make([]uint16, 4*n), make([]uint16, 64*n+1)
		for i := range words {
			words[i] = uint16(r.IntN(1 << 16))
		}
		want := slices.Clone(cells)
		addUnit(cells[:64*n], words, unit)
		addUnitGo(want[:64*n], words, unit)
		if !slices.Equal(cells, want) {
			t.Fatalf("%d words: %v, want %v", len(words), cells, want)
		}

		ratio := make([]uint16, n)
		for i := range ratio {
			ratio[i] = uint16(r.IntN(1 << 16))
			cells[r.IntN(len(cells))] = uint16(r.IntN(1 << 16))
		}
		want = slices.Clone(cells)
		scaleCells(cells, ratio)
		scaleCellsGo(want, ratio)
		if !slices.Equal(cells, want) {
			t.Fatalf("%d ratios: %v, want %v", n, cells, want)
		}
	}
}

func TestScansEqualReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for n := range 200 {
		words := make([]uint16, n/64*64)
		for _, share := range []int{1, 4, 60} {
			for i := range words {
				words[i] = uint16(r.IntN(share * 1000))
			}
			for _, least := range []uint16{0, 1, 500, 999, 40000, 65535} {
				a, b := make([]uint16, n+foundRoom), make([]uint16, n)
				a, b = a[:atLeast16(words, least, a)], b[:atLeast16Go(words, least, b)]
				if !slices.Equal(a, b) {
					t.Fatalf("%d words, least %d: %v, want %v", n, least, a, b)
				}
				if got := countAtLeast16(words, least); got != len(b) {
					t.Fatalf("%d words, least %d: counted %d, want %d", n, least, got, len(b))
				}
			}
		}
	}
}

func TestMatchEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	var filter [filterSize]uint8
	for range 3000 {
		filter[r.IntN(filterSize)] = 1
	}
	for n := range 70 {
		index := make([]uint32, n)
		for i := range index {
			index[i] = r.Uint32()
		}
		a, b := make([]uint32, n), make([]uint32, n)
		a, b = a[:matchEntries(index, &filter, a)], b[:matchEntriesGo(index, &filter, b)]
		if !slices.Equal(a, b) {
			t.Fatalf("%d features: %v, want %v", n, a, b)
		}
	}
}
