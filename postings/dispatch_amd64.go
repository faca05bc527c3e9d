//go:build amd64 && !purego

package postings

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/cpu"
)

// avx2 reports whether the processor can run the assembly. Kernels are called through branches
// on it, not through function values, so that arguments do not escape.
var avx2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

func scatterRows(sums []float32, low []uint16, value []float32, weight float32) {
	if avx2 {
		scatterRowsAVX2(unsafe.SliceData(sums), unsafe.SliceData(low), unsafe.SliceData(value),
			len(low), weight)
		return
	}
	scatterRowsGo(sums, low, value, weight)
}

// scatterBits adds values, times weight, to the cells of the bits set in words.
func scatterBits(sums []float32, words []uint16, value []float32, weight float32) {
	if avx2 {
		// The assembly reads eight values at once and changes the cells of complete words, so
		// it must not process the last words with eight values.
		whole, left := len(words), 0
		for whole > 0 && left < 8 {
			whole--
			left += bits.OnesCount16(words[whole])
		}
		scatterBitsAVX2(unsafe.SliceData(sums), unsafe.SliceData(words), whole,
			unsafe.SliceData(value), weight)
		sums, words, value = sums[16*whole:], words[whole:], value[len(value)-left:]
	}
	scatterBitsGo(sums, words, value, weight)
}

func scatterCodes(cells []uint16, low []uint16, code []uint8, weight uint16) {
	if avx2 {
		scatterCodesAVX2(unsafe.SliceData(cells), unsafe.SliceData(low), unsafe.SliceData(code),
			len(low), uint32(weight))
		return
	}
	scatterCodesGo(cells, low, code, weight)
}

// matchEntries writes the places of features that may be in the query to found, which has room
// for all; see matchEntriesGo.
func matchEntries(index []uint32, filter *[filterSize]uint8, found []uint32) int {
	if avx2 {
		return matchEntriesAVX2(unsafe.SliceData(index), len(index), &filter[0], unsafe.SliceData(found))
	}
	return matchEntriesGo(index, filter, found)
}

// atLeastFloat writes the places of the cells that are at least least to found, which has room
// for all, and returns their number.
func atLeastFloat(cells []float32, least float32, found []uint32) int {
	if !avx2 {
		return atLeastFloatGo(cells, least, found)
	}
	whole := len(cells) &^ 31
	n := atLeastFloatAVX2(unsafe.SliceData(cells), whole, least, unsafe.SliceData(found))
	rest := atLeastFloatGo(cells[whole:], least, found[n:])
	for i := range found[n : n+rest] {
		found[n+i] += uint32(whole)
	}
	return n + rest
}

// atLeast16 is atLeastFloat for 16-bit cells. The number of cells is a multiple of columnRows,
// and found has foundRoom more places than there are cells.
func atLeast16(cells []uint16, least uint16, found []uint16) int {
	if avx2 {
		found = found[:len(cells)+foundRoom]
		return atLeast16AVX2(unsafe.SliceData(cells), len(cells), least, unsafe.SliceData(found))
	}
	return atLeast16Go(cells, least, found)
}

// countAtLeast16 counts the cells that are at least least. The number of cells is a multiple of
// columnRows and at most sampleRows.
func countAtLeast16(cells []uint16, least uint16) int {
	if avx2 {
		return countAtLeast16AVX2(unsafe.SliceData(cells), len(cells), least)
	}
	return countAtLeast16Go(cells, least)
}

// ranksFast reports whether rank16 is faster than sorting by buckets.
var ranksFast = avx2

// rank16 counts, for each of the first n keys, the keys that are greater. Keys are below 1<<15;
// see rank16Go.
func rank16(keys *[maxRanked]uint16, n int, ranks *[maxRanked]uint16) {
	if avx2 && n > 0 && n <= maxRanked {
		rank16AVX2(&keys[0], n, &ranks[0])
		return
	}
	rank16Go(keys, n, ranks)
}

// addColumns adds columns at byte offsets to cells, whose number is a multiple of columnRows;
// see addColumnsGo.
func addColumns(cells []uint16, bytes []uint8, offsets []int, weights []uint16) {
	if avx2 {
		addColumnsAVX2(unsafe.SliceData(cells), len(cells), unsafe.SliceData(bytes),
			unsafe.SliceData(offsets), unsafe.SliceData(weights), len(offsets))
		return
	}
	addColumnsGo(cells, bytes, offsets, weights)
}

// countList adds one to the counts of a list's positions; see countListGo.
func countList(planes []uint64, low []uint16, stride int) {
	if avx2 && len(planes) > 0 {
		countListAVX2(unsafe.SliceData(planes), len(planes), unsafe.SliceData(low), len(low), stride)
		return
	}
	countListGo(planes, low, stride)
}

// countStrip counts the strip of positions at the start of planes and words; see countStripGo.
func countStrip(counted *[countBits * stripWords]uint64, hits *[stripWords]uint64, depth int,
	planes []uint64, filled int, words []uint64, bitmaps []int, stride, least int) bool {
	if !avx2 {
		return countStripGo(counted, hits, depth, planes, filled, words, bitmaps, stride, least)
	}
	c, h, p := &counted[0], &hits[0], unsafe.SliceData(planes)
	w, b := unsafe.SliceData(words), unsafe.SliceData(bitmaps)
	switch {
	case depth <= 4:
		return countStrip4AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	case depth == 5:
		return countStrip5AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	case depth == 6:
		return countStrip6AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	case depth == 7:
		return countStrip7AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	case depth == 8:
		return countStrip8AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	case depth == 9:
		return countStrip9AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
	}
	return countStrip10AVX2(c, h, p, filled, w, b, len(bitmaps), 8*stride, least)
}

// scoreRows estimates the scores of rows for batchWidth queries; see
// scoreRowsGo.
func scoreRows(ptr []uint64, rows int, index []uint32, value []float32, unit float32,
	slots, weights []uint16, estimates []uint16) {
	if !avx2 {
		scoreRowsGo(ptr, rows, index, value, unit, slots, weights, estimates)
		return
	}
	scoreRowsAVX2(&ptr[0], rows, unsafe.SliceData(index), unsafe.SliceData(value), unit,
		unsafe.SliceData(slots), unsafe.SliceData(weights), &estimates[0])
}

// rowsAtLeast finds the estimates that reach their threshold; see rowsAtLeastGo.
func rowsAtLeast(estimates []uint16, rows int, least *[batchWidth]uint16, hits []uint64) {
	if !avx2 {
		rowsAtLeastGo(estimates, rows, least, hits)
		return
	}
	rowsAtLeastAVX2(&estimates[0], rows, &least[0], &hits[0])
}

// countRows counts the estimates that reach their threshold; see countRowsGo.
func countRows(estimates []uint16, rows int, least, counts *[batchWidth]uint16) {
	if !avx2 {
		countRowsGo(estimates, rows, least, counts)
		return
	}
	countRowsAVX2(&estimates[0], rows, &least[0], &counts[0])
}

// estimateStrips counts and estimates all positions, at a depth of at most
// smallBits; see estimateStripsGo.
func estimateStrips(counted *stripCounts, depth int, planes []uint64, filled int, words []uint64,
	bitmaps []int, stride int, factor uint16, ratios []uint16, counts []uint8, estimates []uint16) {
	if !avx2 || stride == 0 {
		estimateStripsGo(counted, depth, planes, filled, words, bitmaps, stride, factor, ratios,
			counts, estimates)
		return
	}
	_, _, _ = ratios[64*stride-1], counts[64*stride-1], estimates[64*stride-1]
	b, p, w, o, n := &counted[0], unsafe.SliceData(planes), unsafe.SliceData(words),
		unsafe.SliceData(bitmaps), len(bitmaps)
	switch {
	case depth <= 4:
		estimateStrips4AVX2(b, p, filled, w, o, n, 8*stride, factor, &ratios[0], &counts[0], &estimates[0])
	case depth == 5:
		estimateStrips5AVX2(b, p, filled, w, o, n, 8*stride, factor, &ratios[0], &counts[0], &estimates[0])
	case depth == 6:
		estimateStrips6AVX2(b, p, filled, w, o, n, 8*stride, factor, &ratios[0], &counts[0], &estimates[0])
	case depth == 7:
		estimateStrips7AVX2(b, p, filled, w, o, n, 8*stride, factor, &ratios[0], &counts[0], &estimates[0])
	default:
		estimateStrips8AVX2(b, p, filled, w, o, n, 8*stride, factor, &ratios[0], &counts[0], &estimates[0])
	}
}
