package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// scaleCells passes over 32 cells that are zero, as most are where lists are short.
func scaleCells() {
	begin("scaleCells", "(cells *uint16, ratio *uint16, n int)", "scaleCellsGo for n cells, a multiple of 32.")
	cells, ratio, n := load("cells"), load("ratio"), load("n")
	zero, ones := YMM(), YMM()
	VPXOR(zero, zero, zero)
	VPCMPEQW(ones, ones, ones)
	Label("strip")
	TESTQ(n, n)
	JLE(LabelRef("done"))
	var v [2]VecVirtual
	any := YMM()
	for i := range v {
		v[i] = YMM()
		VMOVDQU(Mem{Base: cells, Disp: 32 * i}, v[i])
	}
	VPOR(v[0], v[1], any)
	VPTEST(any, any)
	JZ(LabelRef("next"))
	for i := range v {
		none := YMM()
		VPCMPEQW(zero, v[i], none)
		VPMULHUW(Mem{Base: ratio, Disp: 32 * i}, v[i], v[i])
		VPADDW(none, v[i], v[i])
		VPSUBW(ones, v[i], v[i])
		VMOVDQU(v[i], Mem{Base: cells, Disp: 32 * i})
	}
	Label("next")
	ADDQ(U8(64), cells)
	ADDQ(U8(64), ratio)
	SUBQ(U8(32), n)
	JMP(LabelRef("strip"))
	Label("done")
	VZEROUPPER()
	RET()
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

// atLeast16 packs the masks of 64 words into bits of one. The places of the first
// emitted of them are written whether or not there are so many: which cells pass
// is what no processor foretells, so branches on it cost more than writes. Only
// four masks without any bit, as most are in long scans, are passed over.
func atLeast16() {
	begin("atLeast16", "(cells *uint16, n int, least uint16, found *uint16) int",
		"atLeast16Go for n cells, a multiple of 64. It may write up to four places more than it\n// returns.")
	const emitted = 4
	cells, n := load("cells"), load("n")
	l := Load(Param("least"), GP32())
	least, x := YMM(), XMM()
	VMOVD(l, x)
	VPBROADCASTW(x, least)
	found := load("found")
	place := GP64()
	start := GP64()
	MOVQ(found, start)
	XORQ(place, place)
	// mask is that of 64 cells, some of them displaced.
	mask := func(disp int) GPVirtual {
		var half [2]GPVirtual
		for h := range half {
			var over [2]VecVirtual
			for i := range over {
				over[i] = YMM()
				v := YMM()
				VMOVDQU(Mem{Base: cells, Index: place, Scale: 2, Disp: 2*disp + 64*h + 32*i}, v)
				VPMAXUW(least, v, over[i])
				VPCMPEQW(v, over[i], over[i]) // unsigned v >= least
			}
			packed := YMM()
			VPACKSSWB(over[1], over[0], packed)
			VPERMQ(U8(0b11011000), packed, packed)
			half[h] = GP64()
			VPMOVMSKB(packed, half[h].As32())
		}
		SHLQ(U8(32), half[1])
		ORQ(half[0], half[1])
		return half[1]
	}
	emit := func(name string, m GPVirtual, disp int) {
		next, to, at := GP64(), GP64(), GP64()
		POPCNTQ(m, next)
		LEAQ(Mem{Base: found, Index: next, Scale: 2}, next)
		MOVQ(found, to)
		LEAQ(Mem{Base: place, Disp: disp}, at)
		Label(name)
		for e := range emitted {
			i := GP64()
			TZCNTQ(m, i)
			ADDL(at.As32(), i.As32())
			MOVW(i.As16(), Mem{Base: to, Disp: 2 * e})
			BLSRQ(m, m)
		}
		ADDQ(U8(2*emitted), to)
		TESTQ(m, m)
		JNZ(LabelRef(name))
		MOVQ(next, found)
	}
	SUBQ(U32(256), n)
	JLT(LabelRef("rest"))
	Label("strips")
	var masks [4]GPVirtual
	for i := range masks {
		masks[i] = mask(64 * i)
	}
	any0, any1 := GP64(), GP64()
	MOVQ(masks[0], any0)
	ORQ(masks[1], any0)
	MOVQ(masks[2], any1)
	ORQ(masks[3], any1)
	ORQ(any0, any1)
	JZ(LabelRef("none"))
	for i, m := range masks {
		emit(fmt.Sprintf("more%d", i), m, 64*i)
	}
	Label("none")
	ADDQ(U32(256), place)
	CMPQ(place, n)
	JLE(LabelRef("strips"))
	Label("rest")
	ADDQ(U32(256), n)
	Label("strip")
	CMPQ(place, n)
	JGE(LabelRef("done"))
	emit("more", mask(0), 0)
	ADDQ(U8(64), place)
	JMP(LabelRef("strip"))
	Label("done")
	SUBQ(start, found)
	SHRQ(U8(1), found)
	Store(found, ReturnIndex(0))
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
