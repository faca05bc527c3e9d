package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// scatterRows multiplies and adds separately, as its reference must where fused
// instructions round otherwise.
func scatterRows() {
	begin("scatterRows", "(sums *float32, low *uint16, value *float32, n int, weight float32)",
		"scatterRowsGo for n rows.")
	sums, low, value, n := load("sums"), load("low"), load("value"), load("n")
	weight := XMM()
	Load(Param("weight"), weight)
	loop("rows", n, 4, func(count int) {
		for i := range count {
			row, x := GP64(), XMM()
			MOVWLZX(Mem{Base: low, Disp: 2 * i}, row.As32())
			VMULSS(Mem{Base: value, Disp: 4 * i}, weight, x)
			cell := Mem{Base: sums, Index: row, Scale: 4}
			VADDSS(cell, x, x)
			VMOVSS(x, cell)
		}
		ADDQ(I32(int32(2*count)), low)
		ADDQ(I32(int32(4*count)), value)
	})
	RET()
}

// spreadLanes is, for every byte, the place among the bits set of each bit, and -1
// for bits that are not: what moves the next values to the lanes of their rows.
func spreadLanes() Mem {
	t := GLOBL("lanes", RODATA|NOPTR)
	for b := range 256 {
		place := int8(0)
		for bit := range 8 {
			if b>>bit&1 != 0 {
				DATA(8*b+bit, I8(place))
				place++
			} else {
				DATA(8*b+bit, I8(-1))
			}
		}
	}
	return t
}

// scatterBits adds to eight rows at once, zero to those without a bit.
func scatterBits() {
	begin("scatterBits", "(sums *float32, words *uint16, n int, value *float32, weight float32)",
		"scatterBitsGo for n words; eight values are read from each place on.")
	sums, words, n, value := load("sums"), load("words"), load("n"), load("value")
	weight, x := YMM(), XMM()
	Load(Param("weight"), x)
	VBROADCASTSS(x, weight)
	lanes := GP64()
	LEAQ(spreadLanes(), lanes)
	loop("words", n, 4, func(count int) {
		for i := range 2 * count {
			bits, ones := GP64(), GP64()
			lane, absent, product := YMM(), YMM(), YMM()
			MOVBLZX(Mem{Base: words, Disp: i}, bits.As32())
			VPMOVSXBD(Mem{Base: lanes, Index: bits, Scale: 8}, lane)
			VPERMPS(Mem{Base: value}, lane, product)
			VPSRAD(U8(31), lane, absent)
			VMULPS(weight, product, product)
			VPANDN(product, absent, product)
			cells := Mem{Base: sums, Disp: 32 * i}
			VADDPS(cells, product, product)
			VMOVUPS(product, cells)
			POPCNTL(bits.As32(), ones.As32())
			LEAQ(Mem{Base: value, Index: ones, Scale: 4}, value)
		}
		ADDQ(I32(int32(2*count)), words)
		ADDQ(I32(int32(64*count)), sums)
	})
	VZEROUPPER()
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
