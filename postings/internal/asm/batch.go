package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// batchRegisters is how many registers the estimates of a row for a group of
// queries take, 16 a register.
const batchRegisters = 4

// scoreRows goes row by row, the estimates of 64 queries in four registers.
// Values are brought to 16 bits eight at a time, through a buffer on the stack
// that each is broadcast from.
func scoreRows() {
	begin("scoreRows", "(ptr *uint64, rows int, index *uint32, value *float32, unit float32, slots *uint16, weights *uint16, estimates *uint16)",
		"scoreRowsGo.")
	AllocLocal(16)
	ptr, rows := load("ptr"), load("rows")
	index, value := load("index"), load("value")
	slots, weights := load("slots"), load("weights")
	estimates := load("estimates")
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
	var sum [batchRegisters]VecVirtual
	for i := range sum {
		sum[i] = YMM()
		VPXOR(sum[i], sum[i], sum[i])
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
		SHLQ(U8(7), slot)
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
	for i, s := range sum {
		VMOVDQU(s, Mem{Base: estimates, Disp: 32 * i})
	}
	ADDQ(I32(32*batchRegisters), estimates)
	ADDQ(U8(8), ptr)
	DECQ(rows)
	JMP(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}

// loadLeast loads the thresholds of a group of queries.
func loadLeast() (least [batchRegisters]VecVirtual) {
	from := load("least")
	for i := range least {
		least[i] = YMM()
		VMOVDQU(Mem{Base: from, Disp: 32 * i}, least[i])
	}
	return least
}

// reach is all ones where an estimate of the row is least or more.
func reach(estimates GPVirtual, least [batchRegisters]VecVirtual) (over [batchRegisters]VecVirtual) {
	for i := range over {
		over[i] = YMM()
		v := YMM()
		VMOVDQU(Mem{Base: estimates, Disp: 32 * i}, v)
		VPMAXUW(least[i], v, over[i])
		VPCMPEQW(v, over[i], over[i])
	}
	return over
}

// rowsAtLeast packs the masks of 64 words into a bit each.
func rowsAtLeast() {
	begin("rowsAtLeast", "(estimates *uint16, rows int, least *uint16, hits *uint64)", "rowsAtLeastGo.")
	estimates, rows, hits := load("estimates"), load("rows"), load("hits")
	least := loadLeast()
	Label("row")
	TESTQ(rows, rows)
	JZ(LabelRef("done"))
	over := reach(estimates, least)
	var bits [2]GPVirtual
	for i := range bits {
		bits[i] = GP64()
		packed := YMM()
		VPACKSSWB(over[2*i+1], over[2*i], packed)
		VPERMQ(U8(0b11011000), packed, packed)
		VPMOVMSKB(packed, bits[i].As32())
	}
	SHLQ(U8(32), bits[1])
	ORQ(bits[1], bits[0])
	MOVQ(bits[0], Mem{Base: hits})
	ADDQ(U8(8), hits)
	ADDQ(I32(32*batchRegisters), estimates)
	DECQ(rows)
	JMP(LabelRef("row"))
	Label("done")
	VZEROUPPER()
	RET()
}

// countRows counts in words.
func countRows() {
	begin("countRows", "(estimates *uint16, rows int, least *uint16, counts *uint16)", "countRowsGo.")
	estimates, rows := load("estimates"), load("rows")
	least := loadLeast()
	counts := load("counts")
	var count [batchRegisters]VecVirtual
	for i := range count {
		count[i] = YMM()
		VPXOR(count[i], count[i], count[i])
	}
	Label("row")
	TESTQ(rows, rows)
	JZ(LabelRef("done"))
	for i, over := range reach(estimates, least) {
		VPSUBW(over, count[i], count[i])
	}
	ADDQ(I32(32*batchRegisters), estimates)
	DECQ(rows)
	JMP(LabelRef("row"))
	Label("done")
	for i, c := range count {
		VMOVDQU(c, Mem{Base: counts, Disp: 32 * i})
	}
	VZEROUPPER()
	RET()
}
