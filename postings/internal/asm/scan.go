package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// emit writes place+i, size bytes wide, for every set bit i of mask, each bit
// standing for 1<<shift bits of which only one is set.
func emit(name string, mask, place, found, count GPVirtual, size uint8, shift uint8) {
	Label(name)
	i := GP64()
	TZCNTL(mask.As32(), i.As32())
	if shift > 0 {
		SHRL(U8(shift), i.As32())
	}
	ADDQ(place, i)
	if size == 4 {
		MOVL(i.As32(), Mem{Base: found, Index: count, Scale: 4})
	} else {
		MOVW(i.As16(), Mem{Base: found, Index: count, Scale: 2})
	}
	INCQ(count)
	BLSRL(mask.As32(), mask.As32())
	JNZ(LabelRef(name))
}

// matchEntries has no branches on data: every place is written, the count moves
// on where the filter says so.
func matchEntries() {
	begin("matchEntries", "(index *uint32, n int, filter *uint8, found *uint32) int",
		"matchEntriesGo for n features.")
	index, n, filter, found := load("index"), load("n"), load("filter"), load("found")
	place, count := GP64(), GP64()
	XORQ(place, place)
	XORQ(count, count)
	loop("features", n, 4, func(unroll int) {
		for i := range unroll {
			f, at := GP64(), place
			if i > 0 {
				at = GP64()
				LEAL(Mem{Base: place, Disp: i}, at.As32())
			}
			MOVL(Mem{Base: index, Disp: 4 * i}, f.As32())
			MOVL(at.As32(), Mem{Base: found, Index: count, Scale: 4})
			ANDL(I32(1<<14-1), f.As32())
			MOVBLZX(Mem{Base: filter, Index: f, Scale: 1}, f.As32())
			ADDQ(f, count)
		}
		ADDQ(U8(4*unroll), index)
		ADDL(U8(unroll), place.As32())
	})
	Store(count, ReturnIndex(0))
	RET()
}

// atLeastFloat looks at 32 cells at once, as mostly none passes.
func atLeastFloat() {
	begin("atLeastFloat", "(cells *float32, n int, least float32, found *uint32) int",
		"atLeastFloatGo for n cells, a multiple of 32.")
	cells, n := load("cells"), load("n")
	least := YMM()
	x := XMM()
	Load(Param("least"), x)
	VBROADCASTSS(x, least)
	found := load("found")
	place, count := GP64(), GP64()
	XORQ(place, place)
	XORQ(count, count)
	Label("strip")
	CMPQ(place, n)
	JGE(LabelRef("done"))
	var over [4]VecVirtual
	for i := range over {
		over[i] = YMM()
		// 13 is "greater or equal, ordered": cells >= least.
		v := YMM()
		VMOVUPS(Mem{Base: cells, Index: place, Scale: 4, Disp: 32 * i}, v)
		VCMPPS(U8(13), least, v, over[i])
	}
	any0, any1 := YMM(), YMM()
	VORPS(over[0], over[1], any0)
	VORPS(over[2], over[3], any1)
	VORPS(any0, any1, any0)
	VPTEST(any0, any0)
	JZ(LabelRef("next"))
	mask, m := GP64(), GP64()
	VMOVMSKPS(over[0], mask.As32())
	for i := 1; i < 4; i++ {
		VMOVMSKPS(over[i], m.As32())
		SHLL(U8(8*i), m.As32())
		ORL(m.As32(), mask.As32())
	}
	emit("bit", mask, place, found, count, 4, 0)
	Label("next")
	ADDQ(U8(32), place)
	JMP(LabelRef("strip"))
	Label("done")
	Store(count, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// atLeast16 packs the masks of 32 words into bytes, a bit each.
func atLeast16() {
	begin("atLeast16", "(cells *uint16, n int, least uint16, found *uint16) int",
		"atLeast16Go for n cells, a multiple of 64.")
	cells, n := load("cells"), load("n")
	l := Load(Param("least"), GP32())
	least, x := YMM(), XMM()
	VMOVD(l, x)
	VPBROADCASTW(x, least)
	found := load("found")
	place, count := GP64(), GP64()
	XORQ(place, place)
	XORQ(count, count)
	Label("strip")
	CMPQ(place, n)
	JGE(LabelRef("done"))
	var over [4]VecVirtual
	for i := range over {
		over[i] = YMM()
		v := YMM()
		VMOVDQU(Mem{Base: cells, Index: place, Scale: 2, Disp: 32 * i}, v)
		VPMAXUW(least, v, over[i])
		VPCMPEQW(v, over[i], over[i]) // unsigned v >= least
	}
	any0, any1 := YMM(), YMM()
	VPOR(over[0], over[1], any0)
	VPOR(over[2], over[3], any1)
	VPOR(any0, any1, any0)
	VPTEST(any0, any0)
	JZ(LabelRef("next"))
	for half := range 2 {
		packed := YMM()
		VPACKSSWB(over[2*half+1], over[2*half], packed)
		VPERMQ(U8(0b11011000), packed, packed)
		mask, at := GP64(), GP64()
		VPMOVMSKB(packed, mask.As32())
		name := [...]string{"low", "high"}[half]
		TESTL(mask.As32(), mask.As32())
		JZ(LabelRef(name + "None"))
		LEAQ(Mem{Base: place, Disp: 32 * half}, at)
		emit(name, mask, at, found, count, 2, 0)
		Label(name + "None")
	}
	Label("next")
	ADDQ(U8(64), place)
	JMP(LabelRef("strip"))
	Label("done")
	Store(count, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// countAtLeast16 counts in words, of which each sees a sixteenth of the cells.
func countAtLeast16() {
	begin("countAtLeast16", "(cells *uint16, n int, least uint16) int",
		"countAtLeast16Go for n cells, a multiple of 64 and at most 1<<18.")
	cells, n := load("cells"), load("n")
	l := Load(Param("least"), GP32())
	least, x := YMM(), XMM()
	VMOVD(l, x)
	VPBROADCASTW(x, least)
	var count [2]VecVirtual
	for i := range count {
		count[i] = YMM()
		VPXOR(count[i], count[i], count[i])
	}
	Label("strip")
	TESTQ(n, n)
	JLE(LabelRef("done"))
	for i := range 4 {
		v, most := YMM(), YMM()
		VMOVDQU(Mem{Base: cells, Disp: 32 * i}, v)
		VPMAXUW(least, v, most)
		VPCMPEQW(v, most, v) // -1 where unsigned v >= least
		VPSUBW(v, count[i%2], count[i%2])
	}
	ADDQ(I32(128), cells)
	SUBQ(I32(64), n)
	JMP(LabelRef("strip"))
	Label("done")
	VPADDW(count[0], count[1], count[0])
	one, sum, hi := YMM(), count[0], XMM()
	VPCMPEQW(one, one, one)
	VPSRLW(U8(15), one, one)
	VPMADDWD(one, sum, sum)
	VEXTRACTI128(U8(1), sum, hi)
	VPADDD(hi, sum.AsX(), sum.AsX())
	VPSHUFD(U8(0b01001110), sum.AsX(), hi)
	VPADDD(hi, sum.AsX(), sum.AsX())
	VPSHUFD(U8(0b10110001), sum.AsX(), hi)
	VPADDD(hi, sum.AsX(), sum.AsX())
	total := GP64()
	VMOVD(sum.AsX(), total.As32())
	Store(total, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
