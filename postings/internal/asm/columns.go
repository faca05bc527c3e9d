package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ahead is how far before its use a column is prefetched: the columns of a
// query are too many streams for the processor to notice.
const ahead = 256

// addColumns keeps the cells of 64 rows in registers while it goes through
// the columns. A square is a word, and the upper half of its product with the
// weight is what to add. Unpacking works on 128-bit halves: the cells are
// brought into that order and back.
func addColumns() {
	begin("addColumns", "(cells *uint16, rows int, columns *uint8, offsets *int, weights *uint16, n int)",
		"addColumnsGo for rows cells, a multiple of 64, and n columns.")
	cells, rows, columns := load("cells"), load("rows"), load("columns")
	offsets, weights, n := load("offsets"), load("weights"), load("n")
	zero := YMM()
	VPXOR(zero, zero, zero)
	Label("strip")
	TESTQ(rows, rows)
	JLE(LabelRef("done"))
	var sum [4]VecVirtual
	for i := 0; i < 4; i += 2 {
		a, b := YMM(), YMM()
		VMOVDQU(Mem{Base: cells, Disp: 32 * i}, a)
		VMOVDQU(Mem{Base: cells, Disp: 32 * (i + 1)}, b)
		sum[i], sum[i+1] = YMM(), YMM()
		VPERM2I128(U8(0x20), b, a, sum[i])
		VPERM2I128(U8(0x31), b, a, sum[i+1])
	}
	c := GP64()
	XORQ(c, c)
	Label("column")
	CMPQ(c, n)
	JGE(LabelRef("store"))
	p := GP64()
	MOVQ(Mem{Base: offsets, Index: c, Scale: 8}, p)
	ADDQ(columns, p)
	weight := YMM()
	VPBROADCASTW(Mem{Base: weights, Index: c, Scale: 2}, weight)
	PREFETCHT0(Mem{Base: p, Disp: ahead})
	for i := 0; i < 4; i += 2 {
		bytes, lo, hi := YMM(), YMM(), YMM()
		VMOVDQU(Mem{Base: p, Disp: 16 * i}, bytes)
		VPUNPCKLBW(zero, bytes, lo)
		VPUNPCKHBW(zero, bytes, hi)
		VPMULLW(lo, lo, lo)
		VPMULLW(hi, hi, hi)
		VPMULHUW(weight, lo, lo)
		VPMULHUW(weight, hi, hi)
		VPADDUSW(lo, sum[i], sum[i])
		VPADDUSW(hi, sum[i+1], sum[i+1])
	}
	INCQ(c)
	JMP(LabelRef("column"))
	Label("store")
	for i := 0; i < 4; i += 2 {
		a, b := YMM(), YMM()
		VPERM2I128(U8(0x20), sum[i+1], sum[i], a)
		VPERM2I128(U8(0x31), sum[i+1], sum[i], b)
		VMOVDQU(a, Mem{Base: cells, Disp: 32 * i})
		VMOVDQU(b, Mem{Base: cells, Disp: 32 * (i + 1)})
	}
	ADDQ(I32(128), cells)
	ADDQ(I32(64), columns)
	SUBQ(I32(64), rows)
	JMP(LabelRef("strip"))
	Label("done")
	VZEROUPPER()
	RET()
}
