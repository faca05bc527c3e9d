package postings

import (
	"math"
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
			value := make([]float32, n)
			for i := range low {
				low[i] = uint16(r.IntN(rows))
				value[i] = r.Float32()
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
			x, y := make([]float32, rows), make([]float32, rows)
			for range 2 {
				scatterRows(x, low, value, 0.7)
				scatterRowsGo(y, low, value, 0.7)
			}
			if !slices.Equal(x, y) {
				t.Fatalf("%d rows: %v, want %v", n, x, y)
			}
		}
	}
}

// TestScatterBitsEqualsReference has few bits and many, at the start, at the end,
// and none: the kernel must not touch what is behind the values or the sums.
func TestScatterBitsEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for words := range 40 {
		for range 50 {
			set, n, rows := make([]uint16, words), 0, 0
			dense := r.IntN(17)
			for i := range set {
				for b := range 16 {
					if r.IntN(17) < dense && (i < words/2 || dense%3 > 0) {
						set[i] |= 1 << b
						n, rows = n+1, 16*i+b+1
					}
				}
			}
			value := make([]float32, n+20)
			for i := range value {
				value[i] = r.Float32()
			}
			for i := n; i < len(value); i++ {
				value[i] = float32(math.NaN())
			}
			x, y := make([]float32, rows+20), make([]float32, rows+20)
			for range 2 {
				scatterBits(x[:rows], set, value[:n:n], 0.7)
				scatterBitsGo(y[:rows], set, value[:n], 0.7)
			}
			if !slices.Equal(x, y) {
				t.Fatalf("%d words, %d bits: %v, want %v", words, n, x, y)
			}
		}
	}
}

func TestAddColumnsEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for strips := range 4 {
		rows := strips * columnRows
		for n := range 12 {
			bytes := randomBytes(r, (n+1)*(rows+64), n%2 == 0)
			offsets, weights := make([]int, n), make([]uint16, n)
			for i := range offsets {
				offsets[i] = i * (rows + 64)
				weights[i] = uint16(r.IntN(1 << (1 + r.IntN(16))))
			}
			a := make([]uint16, rows)
			for i := range a {
				a[i] = uint16(r.IntN(1 << 16))
			}
			b := slices.Clone(a)
			addColumns(a, bytes, offsets, weights)
			addColumnsGo(b, bytes, offsets, weights)
			if !slices.Equal(a, b) {
				t.Fatalf("%d rows, %d columns: %v, want %v", rows, n, a, b)
			}
		}
	}
}

func TestScansEqualReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for n := range 200 {
		words, floats := make([]uint16, n/columnRows*columnRows), make([]float32, n)
		for _, share := range []int{1, 4, 60} {
			for i := range words {
				words[i] = uint16(r.IntN(share * 1000))
			}
			for i := range floats {
				floats[i] = float32(r.IntN(share * 10))
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
			for _, least := range []float32{-1, 0, 3, 9, 1000} {
				a, b := make([]uint32, n), make([]uint32, n)
				a, b = a[:atLeastFloat(floats, least, a)], b[:atLeastFloatGo(floats, least, b)]
				if !slices.Equal(a, b) {
					t.Fatalf("%d floats, least %g: %v, want %v", n, least, a, b)
				}
			}
		}
	}
}

func TestRanksEqualReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for n := range maxRanked + 1 {
		var keys, a, b [maxRanked]uint16
		for i := range keys {
			keys[i] = uint16(r.IntN(1 << (1 + r.IntN(15))))
		}
		rank16(&keys, n, &a)
		rank16Go(&keys, n, &b)
		if !slices.Equal(a[:n], b[:n]) {
			t.Fatalf("%d keys %v: ranks %v, want %v", n, keys[:n], a[:n], b[:n])
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

func TestCountsEqualReferences(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	const stride = 3 * stripWords
	for depth := 4; depth <= countBits; depth++ {
		for n := range 30 {
			filled := r.IntN(depth)
			planes, words := make([]uint64, filled*stride), make([]uint64, (n+1)*stride)
			for i := range words {
				words[i] = r.Uint64() & r.Uint64()
			}
			low := make([]uint16, r.IntN(100))
			for i := range low {
				low[i] = uint16(r.IntN(stride * 64))
			}
			again := slices.Clone(planes)
			countList(planes, low, stride)
			countListGo(again, low, stride)
			if !slices.Equal(planes, again) {
				t.Fatalf("counts of %d positions in %d planes differ", len(low), filled)
			}
			bitmaps := make([]int, n)
			for i := range bitmaps {
				bitmaps[i] = 8 * stride * i
			}
			for _, least := range []int{1, 2, n/4 + 1, n, 1<<depth - 1} {
				var a, b [countBits * stripWords]uint64
				var ha, hb [stripWords]uint64
				some := countStrip(&a, &ha, depth, tail(planes, stripWords), filled, words[stripWords:], bitmaps, stride, least)
				if want := countStripGo(&b, &hb, depth, tail(planes, stripWords), filled, words[stripWords:], bitmaps, stride, least); some != want {
					t.Fatalf("depth %d, %d bitmaps, least %d: hits %v, want %v", depth, n, least, some, want)
				}
				if some && (ha != hb || a != b) {
					t.Fatalf("depth %d, %d bitmaps, least %d: counts differ", depth, n, least)
				}
			}
		}
	}
}

func TestEstimatesEqualReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	const stride = 3 * stripWords
	for depth := 4; depth <= smallBits; depth++ {
		for n := range 30 {
			filled := r.IntN(depth)
			planes, words := make([]uint64, filled*stride), make([]uint64, n*stride)
			for i := range planes {
				planes[i] = r.Uint64() & r.Uint64()
			}
			for i := range words {
				words[i] = r.Uint64() & r.Uint64()
			}
			bitmaps := make([]int, min(n, 1<<depth-1<<filled))
			for i := range bitmaps {
				bitmaps[i] = 8 * stride * i
			}
			ratios := make([]uint16, 64*stride)
			for i := range ratios {
				ratios[i] = uint16(r.IntN(1 << 16))
			}
			factor := uint16(maxEstimate / (1 + r.IntN(1<<depth-1)))
			var counted stripCounts
			counts, wantCounts := make([]uint8, 64*stride), make([]uint8, 64*stride)
			estimates, want := make([]uint16, 64*stride), make([]uint16, 64*stride)
			estimateStrips(&counted, depth, planes, filled, words, bitmaps, stride, factor, ratios, counts, estimates)
			estimateStripsGo(&counted, depth, planes, filled, words, bitmaps, stride, factor, ratios, wantCounts, want)
			if !slices.Equal(counts, wantCounts) || !slices.Equal(estimates, want) {
				t.Fatalf("depth %d: counts %v, want %v; estimates %v, want %v", depth, counts, wantCounts, estimates, want)
			}
		}
	}
}

func TestScoreRowsEqualsReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	const features = 50
	slots, weights := make([]uint16, features), make([]uint16, 20*batchWidth)
	for i := range slots {
		slots[i] = uint16(r.IntN(20))
	}
	for i := range weights[batchWidth:] {
		weights[batchWidth+i] = uint16(r.IntN(1 << (1 + r.IntN(16))))
	}
	ptr := []uint64{0}
	var index []uint32
	var value []float32
	for i := range batchRows {
		for range i % 21 {
			index = append(index, uint32(r.IntN(features)))
			value = append(value, r.Float32())
		}
		ptr = append(ptr, uint64(len(index)))
	}
	var least [batchWidth]uint16
	for i := range least {
		least[i] = uint16(r.IntN(1 << 16))
	}
	for rows := range batchRows + 1 {
		a, b := make([]uint16, batchRows*batchWidth), make([]uint16, batchRows*batchWidth)
		ha, hb := make([]uint64, batchRows), make([]uint64, batchRows)
		var ca, cb [batchWidth]uint16
		scoreRows(ptr, rows, index, value, 65000, slots, weights, a)
		scoreRowsGo(ptr, rows, index, value, 65000, slots, weights, b)
		rowsAtLeast(b, rows, &least, ha)
		rowsAtLeastGo(b, rows, &least, hb)
		countRows(b, rows, &least, &ca)
		countRowsGo(b, rows, &least, &cb)
		if !slices.Equal(a, b) || !slices.Equal(ha, hb) || ca != cb {
			t.Fatalf("%d rows differ", rows)
		}
	}
}
