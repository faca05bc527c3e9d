//go:build !amd64 || purego

package postings

// Without assembly every kernel calls its reference.

func scatterCodes(cells []uint16, low []uint16, code []uint8, weight uint16) {
	scatterCodesGo(cells, low, code, weight)
}

func addBits(cells []uint16, words []uint16, code []uint8, weight uint16) int {
	return addBitsGo(cells, words, code, weight)
}

func addUnit(cells []uint16, words []uint16, unit uint16) { addUnitGo(cells, words, unit) }

func scaleCells(cells, ratio []uint16) { scaleCellsGo(cells, ratio) }

func matchEntries(index []uint32, filter *[filterSize]uint8, found []uint32) int {
	return matchEntriesGo(index, filter, found)
}

func atLeast16(cells []uint16, least uint16, found []uint16) int {
	return atLeast16Go(cells, least, found)
}

func countAtLeast16(cells []uint16, least uint16) int { return countAtLeast16Go(cells, least) }
