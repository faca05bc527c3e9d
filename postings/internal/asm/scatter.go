package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// scatterFloat multiplies and adds separately, as its reference must where
// fused instructions round otherwise.
func scatterFloat() {
	begin("scatterFloat", "(sums *float32, list *uint64, n int, weight float32)",
		"scatterFloatGo for n postings.")
	sums, list, n := load("sums"), load("list"), load("n")
	weight := XMM()
	Load(Param("weight"), weight)
	loop("floats", n, 4, func(count int) {
		for i := range count {
			row, x := GP64(), XMM()
			MOVL(Mem{Base: list, Disp: 8 * i}, row.As32())
			VMULSS(Mem{Base: list, Disp: 8*i + 4}, weight, x)
			cell := Mem{Base: sums, Index: row, Scale: 4}
			VADDSS(cell, x, x)
			VMOVSS(x, cell)
		}
		ADDQ(I32(int32(8*count)), list)
	})
	RET()
}

// squareTable is the squares of 0 to 255 as words: a load is cheaper here than
// a second multiplication.
func squareTable() Mem {
	t := GLOBL("squares", RODATA|NOPTR)
	for i := range 256 {
		DATA(2*i, U16(i*i))
	}
	return t
}

// scatterCodes adds to memory directly: what bounds it is the store, one a
// posting. Cells that overflow, the rows nearest to the query, are put right
// on the way; the branch is not taken otherwise.
func scatterCodes() {
	begin("scatterCodes", "(cells *uint16, low *uint16, code *uint8, n int, weight uint32)",
		"scatterCodesGo for n postings.")
	cells, low, code, n := load("cells"), load("low"), load("code"), load("n")
	weight := Load(Param("weight"), GP32())
	squares := GP64()
	LEAQ(squareTable(), squares)
	type repair struct {
		cell Mem
		name string
	}
	var repairs []repair
	loop("codes", n, 8, func(count int) {
		for i := range count {
			row, c := GP64(), GP64()
			MOVWLZX(Mem{Base: low, Disp: 2 * i}, row.As32())
			MOVBLZX(Mem{Base: code, Disp: i}, c.As32())
			MOVWLZX(Mem{Base: squares, Index: c, Scale: 2}, c.As32())
			IMULL(weight, c.As32())
			ADDL(U32(0xffff), c.As32())
			SHRL(U8(16), c.As32())
			r := repair{Mem{Base: cells, Index: row, Scale: 2}, fmt.Sprintf("%dof%d", i, count)}
			ADDW(c.As16(), r.cell)
			JCS(LabelRef("full" + r.name))
			Label("next" + r.name)
			repairs = append(repairs, r)
		}
		ADDQ(I32(int32(2*count)), low)
		ADDQ(I32(int32(count)), code)
	})
	RET()
	for _, r := range repairs {
		Label("full" + r.name)
		MOVW(U16(0xffff), r.cell)
		JMP(LabelRef("next" + r.name))
	}
}
