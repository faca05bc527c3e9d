//go:build amd64 && !purego

package postings

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// avx2 reports whether the processor can run the assembly. Kernels are called through branches
// on it, not through function values, so that arguments do not escape.
var avx2 = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT

// avx512 reports whether it can run addBitsAVX512, which expands bytes.
var avx512 = avx2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VBMI2

func scatterCodes(cells []uint16, low []uint16, code []uint8, weight uint16) {
	if avx2 {
		scatterCodesAVX2(unsafe.SliceData(cells), unsafe.SliceData(low), unsafe.SliceData(code),
			len(low), uint32(weight))
		return
	}
	scatterCodesGo(cells, low, code, weight)
}

// addBits adds the codes of a bitmap to cells, whose number is a multiple of 64, and returns the number
// of bits; see addBitsGo. At least codePadding codes follow the last bit's.
func addBits(cells []uint16, words []uint16, code []uint8, weight uint16) int {
	if avx512 {
		return addBitsAVX512(unsafe.SliceData(cells), unsafe.SliceData(words), len(words)/4,
			unsafe.SliceData(code), uint32(weight))
	}
	if avx2 {
		return addBitsAVX2(unsafe.SliceData(cells), unsafe.SliceData(words), 2*len(words),
			unsafe.SliceData(code), uint32(weight))
	}
	return addBitsGo(cells, words, code, weight)
}

func addUnit(cells []uint16, words []uint16, unit uint16) {
	if avx2 {
		addUnitAVX2(unsafe.SliceData(cells), unsafe.SliceData(words), len(words), uint32(unit))
		return
	}
	addUnitGo(cells, words, unit)
}

// scaleCells applies the ratios of rows to their cells; see scaleCellsGo.
func scaleCells(cells, ratio []uint16) {
	n := 0
	if avx2 {
		n = len(ratio) &^ 31
		scaleCellsAVX2(unsafe.SliceData(cells), unsafe.SliceData(ratio), n)
	}
	scaleCellsGo(cells[n:], ratio[n:])
}

// matchEntries writes the places of features that may be in the query to found, which has room
// for all; see matchEntriesGo.
func matchEntries(index []uint32, filter *[filterSize]uint8, found []uint32) int {
	if avx2 {
		return matchEntriesAVX2(unsafe.SliceData(index), len(index), &filter[0], unsafe.SliceData(found))
	}
	return matchEntriesGo(index, filter, found)
}

// atLeast16 writes the places of the cells that are at least least to found, which has foundRoom more
// places than there are cells, and returns their number. The number of cells is a multiple of 64.
func atLeast16(cells []uint16, least uint16, found []uint16) int {
	if avx2 {
		found = found[:len(cells)+foundRoom]
		return atLeast16AVX2(unsafe.SliceData(cells), len(cells), least, unsafe.SliceData(found))
	}
	return atLeast16Go(cells, least, found)
}

// countAtLeast16 counts the cells that are at least least. The number of cells is a multiple of
// 64 and at most sampleRows.
func countAtLeast16(cells []uint16, least uint16) int {
	if avx2 {
		return countAtLeast16AVX2(unsafe.SliceData(cells), len(cells), least)
	}
	return countAtLeast16Go(cells, least)
}
