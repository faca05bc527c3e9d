package postings

import "math/bits"

// foundRoom is the number of places that atLeast16 may write after those it has found.
const foundRoom = 4

// The reference kernels: the loops that the assembly must equal bit for bit.

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

// scatterCodesGo adds code²·weight/2¹⁶, rounded up, to the cells of a list.
// Cells that would overflow stay at the highest value.
func scatterCodesGo(cells []uint16, low []uint16, code []uint8, weight uint16) {
	code = code[:len(low)]
	for i, r := range low {
		square := uint32(code[i]) * uint32(code[i])
		cells[r] = uint16(min(uint32(cells[r])+(square*uint32(weight)+maxEstimate)>>16, maxEstimate))
	}
}

// addBitsGo adds code²·weight/2¹⁶, rounded down, and one for codes above zero to the cells of the bits
// that are set in words; the codes are adjacent. Cells that would overflow stay at the highest value.
// It returns the number of bits.
func addBitsGo(cells []uint16, words []uint16, code []uint8, weight uint16) int {
	rank := 0
	for at, word := range words {
		for ; word != 0; word &= word - 1 {
			c := uint32(code[rank])
			cell := &cells[16*at+bits.TrailingZeros16(word)]
			*cell = uint16(min(uint32(*cell)+min(c, 1)+c*c*uint32(weight)>>16, maxEstimate))
			rank++
		}
	}
	return rank
}

// addUnitGo adds unit to the cells of the bits that are set in words. They do not overflow.
func addUnitGo(cells []uint16, words []uint16, unit uint16) {
	for at, word := range words {
		for ; word != 0; word &= word - 1 {
			cells[16*at+bits.TrailingZeros16(word)] += unit
		}
	}
}

// scaleCellsGo multiplies the cells above zero by ratio/2¹⁶, rounds down and adds one. There may be more
// cells than ratios.
func scaleCellsGo(cells, ratio []uint16) {
	for i, r := range ratio {
		if cells[i] > 0 {
			cells[i] = uint16(uint32(cells[i])*uint32(r)>>16) + 1
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
