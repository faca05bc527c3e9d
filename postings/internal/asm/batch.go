package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scoreRows goes row by row, the estimates of 32 queries in two registers.
// Values are brought to 16 bits eight at a time, through a buffer on the stack
// that each is broadcast from.
func scoreRows() {
	begin("scoreRows", "(ptr *uint64, rows int, index *uint32, value *float32, unit float32, slots *uint16, weights *uint16, least *uint16, estimates *uint16, hits *uint64)",
		"scoreRowsGo.")
	AllocLocal(16)
	ptr, rows := load("ptr"), load("rows")
	index, value := load("index"), load("value")
	slots, weights := load("slots"), load("weights")
	estimates, hits := load("estimates"), load("hits")
	unit, x := YMM(), XMM()
	Load(Param("unit"), x)
	VBROADCASTSS(x, unit)
	buffer := Mem{Base: StackPointer}

	// Masks for the last values of a row: ones from 32 - 4·count.
	tail := GLOBL("tail", RODATA|NOPTR)
	for i := range 16 {
		v := U32(0)
		if i < 8 {
			v = 0xffffffff
		}
		DATA(4*i, v)
	}

	Label("row")
	TESTQ(rows, rows)
	JZ(LabelRef("done"))
	e, end := GP64(), GP64()
	MOVQ(Mem{Base: ptr}, e)
	MOVQ(Mem{Base: ptr, Disp: 8}, end)
	sum := [2]VecVirtual{YMM(), YMM()}
	for _, s := range sum {
		VPXOR(s, s, s)
	}
	// convert brings eight values to words in the buffer.
	convert := func(v VecVirtual) {
		hi := XMM()
		VMULPS(unit, v, v)
		VCVTPS2DQ(v, v)
		VEXTRACTI128(U8(1), v, hi)
		VPACKUSDW(hi, v.AsX(), hi)
		VMOVDQU(hi, buffer)
	}
	// add adds entry e+i of the row, word i of the buffer.
	add := func(entry Mem, word Mem) {
		slot, v := GP64(), YMM()
		MOVL(entry, slot.As32())
		MOVWLZX(Mem{Base: slots, Index: slot, Scale: 2}, slot.As32())
		SHLQ(U8(6), slot)
		VPBROADCASTW(word, v)
		for i, s := range sum {
			t := YMM()
			VPMULHUW(Mem{Base: weights, Index: slot, Scale: 1, Disp: 32 * i}, v, t)
			VPADDUSW(t, s, s)
		}
	}
	left := GP64()
	Label("eight")
	MOVQ(end, left)
	SUBQ(e, left)
	CMPQ(left, U8(8))
	JL(LabelRef("rest"))
	v := YMM()
	VMOVUPS(Mem{Base: value, Index: e, Scale: 4}, v)
	convert(v)
	for i := range 8 {
		add(Mem{Base: index, Index: e, Scale: 4, Disp: 4 * i}, Mem{Base: StackPointer, Disp: 2 * i})
	}
	ADDQ(U8(8), e)
	JMP(LabelRef("eight"))
	Label("rest")
	TESTQ(left, left)
	JLE(LabelRef("compare"))
	mask := GP64()
	LEAQ(tail, mask)
	ADDQ(U8(32), mask)
	shifted := GP64()
	MOVQ(left, shifted)
	SHLQ(U8(2), shifted)
	SUBQ(shifted, mask)
	m := YMM()
	VMOVDQU(Mem{Base: mask}, m)
	VMASKMOVPS(Mem{Base: value, Index: e, Scale: 4}, m, v)
	convert(v)
	i := GP64()
	XORQ(i, i)
	Label("one")
	add(Mem{Base: index, Index: e, Scale: 4}, Mem{Base: StackPointer, Index: i, Scale: 2})
	INCQ(e)
	INCQ(i)
	CMPQ(i, left)
	JL(LabelRef("one"))

	Label("compare")
	least := load("least")
	var over [2]VecVirtual
	for i, s := range sum {
		over[i] = YMM()
		VMOVDQU(s, Mem{Base: estimates, Disp: 32 * i})
		VPMAXUW(Mem{Base: least, Disp: 32 * i}, s, over[i])
		VPCMPEQW(s, over[i], over[i])
	}
	bits := GP64()
	VPACKSSWB(over[1], over[0], over[0])
	VPERMQ(U8(0b11011000), over[0], over[0])
	VPMOVMSKB(over[0], bits.As32())
	MOVQ(bits, Mem{Base: hits})
	ADDQ(U8(8), hits)
	ADDQ(I32(64), estimates)
	ADDQ(U8(8), ptr)
	DECQ(rows)
	JMP(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}
