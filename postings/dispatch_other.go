//go:build !amd64 || purego

package postings

// Without assembly every kernel calls its reference.

func scatterRows(sums []float32, low []uint16, value []float32, weight float32) {
	scatterRowsGo(sums, low, value, weight)
}

func scatterBits(sums []float32, words []uint16, value []float32, weight float32) {
	scatterBitsGo(sums, words, value, weight)
}

func scatterCodes(cells []uint16, low []uint16, code []uint8, weight uint16) {
	scatterCodesGo(cells, low, code, weight)
}

func matchEntries(index []uint32, filter *[filterSize]uint8, found []uint32) int {
	return matchEntriesGo(index, filter, found)
}

func atLeastFloat(cells []float32, least float32, found []uint32) int {
	return atLeastFloatGo(cells, least, found)
}

func atLeast16(cells []uint16, least uint16, found []uint16) int {
	return atLeast16Go(cells, least, found)
}

func countAtLeast16(cells []uint16, least uint16) int { return countAtLeast16Go(cells, least) }

const ranksFast = false

func rank16(keys *[maxRanked]uint16, n int, ranks *[maxRanked]uint16) { rank16Go(keys, n, ranks) }

func addColumns(cells []uint16, bytes []uint8, offsets []int, weights []uint16) {
	addColumnsGo(cells, bytes, offsets, weights)
}

func countList(planes []uint64, low []uint16, stride int) { countListGo(planes, low, stride) }

func countStrip(counted *[countBits * stripWords]uint64, hits *[stripWords]uint64, depth int,
	planes []uint64, filled int, words []uint64, bitmaps []int, stride, least int) bool {
	return countStripGo(counted, hits, depth, planes, filled, words, bitmaps, stride, least)
}

func scoreRows(ptr []uint64, rows int, index []uint32, value []float32, unit float32,
	slots, weights []uint16, estimates []uint16) {
	scoreRowsGo(ptr, rows, index, value, unit, slots, weights, estimates)
}

func rowsAtLeast(estimates []uint16, rows int, least *[batchWidth]uint16, hits []uint64) {
	rowsAtLeastGo(estimates, rows, least, hits)
}

func countRows(estimates []uint16, rows int, least, counts *[batchWidth]uint16) {
	countRowsGo(estimates, rows, least, counts)
}

func estimateStrips(counted *stripCounts, depth int, planes []uint64, filled int, words []uint64,
	bitmaps []int, stride int, factor uint16, ratios []uint16, counts []uint8, estimates []uint16) {
	estimateStripsGo(counted, depth, planes, filled, words, bitmaps, stride, factor, ratios, counts,
		estimates)
}
