package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
)

// addUnit adds to 16 rows at once: a word in all places shows each its bit.
func addUnit() {
	begin("addUnit", "(cells *uint16, words *uint16, n int, unit uint32)", "addUnitGo for n words.")
	places := GLOBL("places", RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(uint64(0x0008_0004_0002_0001)<<(4*i)))
	}
	cells, words, n := load("cells"), load("words"), load("n")
	w := Load(Param("unit"), GP32())
	x, unit, place := XMM(), YMM(), YMM()
	VMOVD(w, x)
	VPBROADCASTW(x, unit)
	VMOVDQU(places, place)
	loop("words", n, 4, func(count int) {
		for i := range count {
			v := YMM()
			VPBROADCASTW(Mem{Base: words, Disp: 2 * i}, v)
			VPAND(place, v, v)
			VPCMPEQW(place, v, v) // -1 where the bit is set
			VPAND(unit, v, v)
			to := Mem{Base: cells, Disp: 32 * i}
			VPADDW(to, v, v)
			VMOVDQU(v, to)
		}
		ADDQ(I32(int32(2*count)), words)
		ADDQ(I32(int32(32*count)), cells)
	})
	VZEROUPPER()
	RET()
}
