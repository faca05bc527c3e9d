package postings

import (
	"math"
	"math/bits"
)

// foundRoom is the number of places that atLeast16 may write after those it has found.
const foundRoom = 4

// The reference kernels: the loops that the assembly must equal bit for bit.

// scatterRowsGo adds values, times weight, to the cells of their rows. The product
// is rounded before the addition, so that no processor fuses them.
func scatterRowsGo(sums []float32, low []uint16, value []float32, weight float32) {
	value = value[:len(low)]
	for i, row := range low {
		sums[row] += float32(weight * value[i])
	}
}

// scatterBitsGo is scatterRowsGo for rows that are the bits set in words.
func scatterBitsGo(sums []float32, words []uint16, value []float32, weight float32) {
	rank := 0
	for at, word := range words {
		for ; word != 0; word &= word - 1 {
			sums[16*at+bits.TrailingZeros16(word)] += float32(weight * value[rank])
			rank++
		}
	}
}

// matchEntriesGo writes the places of the features whose cell in the filter, feature modulo
// filterSize, is one, and returns their number.
func matchEntriesGo(index []uint32, filter *[filterSize]uint8, found []uint32) int {
	n := 0
	for e, f := range index {
		found[n] = uint32(e)
		n += int(filter[f%filterSize])
	}
	return n
}

// atLeastFloatGo writes the places of the cells that are at least least.
func atLeastFloatGo(cells []float32, least float32, found []uint32) int {
	n := 0
	for i, v := range cells {
		if v >= least {
			found[n] = uint32(i)
			n++
		}
	}
	return n
}

// scatterCodesGo adds code²·weight/2¹⁶, rounded up, to the cells of a list.
// Cells that would overflow stay at the highest value.
func scatterCodesGo(cells []uint16, low []uint16, code []uint8, weight uint16) {
	code = code[:len(low)]
	for i, r := range low {
		square := uint32(code[i]) * uint32(code[i])
		cells[r] = uint16(min(uint32(cells[r])+(square*uint32(weight)+maxEstimate)>>16, maxEstimate))
	}
}

// addColumnsGo adds code²·weight/2¹⁶, rounded down, of every column to the
// cells, up to the highest value.
func addColumnsGo(cells []uint16, bytes []uint8, offsets []int, weights []uint16) {
	for i, at := range offsets {
		column, weight := bytes[at:at+len(cells)], uint32(weights[i])
		for row, c := range column {
			cells[row] = uint16(min(uint32(cells[row])+uint32(c)*uint32(c)*weight>>16, maxEstimate))
		}
	}
}

// atLeast16Go writes the places of the cells that are at least least.
func atLeast16Go(cells []uint16, least uint16, found []uint16) int {
	n := 0
	for i, v := range cells {
		if v >= least {
			found[n] = uint16(i)
			n++
		}
	}
	return n
}

// rank16Go counts, for each of the first n keys, the keys that are greater. The other elements
// of ranks are undefined.
func rank16Go(keys *[maxRanked]uint16, n int, ranks *[maxRanked]uint16) {
	for i, own := range keys[:n] {
		ranks[i] = 0
		for _, key := range keys[:n] {
			if key > own {
				ranks[i]++
			}
		}
	}
}

// countAtLeast16Go counts the cells that are at least least.
func countAtLeast16Go(cells []uint16, least uint16) int {
	n := 0
	for _, v := range cells {
		if v >= least {
			n++
		}
	}
	return n
}

// countListGo adds one to the counts of a list's positions. Bit b of the counts
// is at planes[b*stride:].
func countListGo(planes []uint64, low []uint16, stride int) {
	for _, at := range low {
		carry := uint64(1) << (at % 64)
		for w := int(at / 64); carry != 0 && w < len(planes); w += stride {
			planes[w] ^= carry
			carry &^= planes[w]
		}
	}
}

// countStripGo counts, for each position of a strip, the lists counted in planes so far and the
// bitmaps that contain it. Bit b of the counts is written to counted[b*stripWords:]. A hit is a
// position whose count is at least least. The function reports whether there are any, and may
// write nothing if there are none. Bitmaps are at byte offsets from words, plane p is at
// planes[p*stride:].
func countStripGo(counted *[countBits * stripWords]uint64, hits *[stripWords]uint64, depth int,
	planes []uint64, filled int, words []uint64, bitmaps []int, stride, least int) bool {
	var some uint64
	for i := range stripWords {
		var b [countBits]uint64
		for p := range filled {
			b[p] = planes[p*stride+i]
		}
		for _, at := range bitmaps {
			carry := words[at/8+i]
			for p := range depth {
				b[p], carry = b[p]^carry, b[p]&carry
			}
		}
		hit := ^uint64(0)
		for p := range depth {
			counted[p*stripWords+i] = b[p]
			if least>>p&1 != 0 {
				hit &= b[p]
			} else {
				hit |= b[p]
			}
		}
		hits[i] = hit
		some |= hit
	}
	return some != 0
}

// estimateStripsGo counts all positions as countStripGo does, into bytes, and computes
// estimates from the counts: count·factor·ratio/2¹⁶, rounded down, the first product in 16
// bits.
func estimateStripsGo(counted *stripCounts, depth int, planes []uint64, filled int, words []uint64,
	bitmaps []int, stride int, factor uint16, ratios []uint16, counts []uint8, estimates []uint16) {
	var hits [stripWords]uint64
	for at := 0; at < stride; at += stripWords {
		countStripGo((*[countBits * stripWords]uint64)(counted), &hits, depth, tail(planes, at),
			filled, tail(words, at), bitmaps, stride, 1)
		for i := range stripRows {
			count, p := counted.at(depth, i/64, i%64), 64*at+i
			counts[p] = uint8(count)
			estimates[p] = uint16(uint32(uint16(count)*factor) * uint32(ratios[p]) >> 16)
		}
	}
}

// scoreRowsGo estimates the scores of consecutive rows for batchWidth queries. Row i has the
// entries ptr[i]:ptr[i+1]. The weights of a feature are at weights[slots[feature]*batchWidth:].
// An entry adds value·unit·weight/2¹⁶, saturating at the highest estimate; the first product is
// rounded to the nearest integer, the second down. The estimate for query q is
// estimates[i*batchWidth+q].
func scoreRowsGo(ptr []uint64, rows int, index []uint32, value []float32, unit float32,
	slots, weights []uint16, estimates []uint16) {
	for i := range rows {
		to := estimates[i*batchWidth : (i+1)*batchWidth]
		clear(to)
		for e := ptr[i]; e < ptr[i+1]; e++ {
			v := uint32(min(math.RoundToEven(float64(float32(value[e]*unit))), maxEstimate))
			for q, w := range weights[int(slots[index[e]])*batchWidth:][:batchWidth] {
				to[q] = uint16(min(uint32(to[q])+v*uint32(w)>>16, maxEstimate))
			}
		}
	}
}

// rowsAtLeastGo finds, for every row, the estimates that reach their threshold: bit q of
// hits[i] is set if estimates[i*batchWidth+q] is at least least[q].
func rowsAtLeastGo(estimates []uint16, rows int, least *[batchWidth]uint16, hits []uint64) {
	for i := range rows {
		hits[i] = 0
		for q, estimate := range estimates[i*batchWidth : (i+1)*batchWidth] {
			if estimate >= least[q] {
				hits[i] |= 1 << q
			}
		}
	}
}

// countRowsGo counts for every query the rows whose estimates are at least its threshold. There
// are fewer than 1<<16 rows.
func countRowsGo(estimates []uint16, rows int, least, counts *[batchWidth]uint16) {
	*counts = [batchWidth]uint16{}
	for i := range rows {
		for q, estimate := range estimates[i*batchWidth : (i+1)*batchWidth] {
			if estimate >= least[q] {
				counts[q]++
			}
		}
	}
}
