package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// estimateCounts brings the counts of 32 positions at a time from bits in
// planes to bytes: a word of a plane goes to all lanes, each byte keeps its bit.
func estimateCounts() {
	begin("estimateCounts", "(counted *uint64, depth int, factor uint16, ratios *uint16, counts *uint8, estimates *uint16)",
		"estimateCountsGo for a depth of at most eight.")
	counted, depth := load("counted"), load("depth")
	x, factor := XMM(), YMM()
	f := GP32()
	Load(Param("factor"), f)
	VMOVD(f, x)
	VPBROADCASTW(x, factor)
	ratios, counts, estimates := load("ratios"), load("counts"), load("estimates")

	spread := GLOBL("spread", RODATA|NOPTR) // byte i of a word to lanes 8i to 8i+7
	for i := range 4 {
		DATA(8*i, U64(uint64(i)*0x0101010101010101))
	}
	bytes, bits, ones := YMM(), YMM(), YMM()
	VMOVDQU(spread, bytes)
	value := GP64()
	MOVQ(U64(0x8040201008040201), value)
	VMOVQ(value, x)
	VPBROADCASTQ(x, bits)
	MOVQ(U64(0x0101010101010101), value)
	VMOVQ(value, x)
	VPBROADCASTQ(x, ones)

	groups := GP64()
	MOVQ(U32(8), groups)
	Label("group")
	sum, one := YMM(), YMM()
	VPXOR(sum, sum, sum)
	VMOVDQA(ones, one)
	p, left := GP64(), GP64()
	MOVQ(counted, p)
	MOVQ(depth, left)
	Label("plane")
	y := YMM()
	VPBROADCASTD(Mem{Base: p}, y)
	VPSHUFB(bytes, y, y)
	VPAND(bits, y, y)
	VPCMPEQB(bits, y, y)
	VPAND(one, y, y)
	VPOR(y, sum, sum)
	VPADDB(one, one, one)
	ADDQ(U8(32), p)
	DECQ(left)
	JNZ(LabelRef("plane"))
	VMOVDQU(sum, Mem{Base: counts})
	high := XMM()
	VEXTRACTI128(U8(1), sum, high)
	lo, hi := YMM(), YMM()
	VPMOVZXBW(sum.AsX(), lo)
	VPMOVZXBW(high, hi)
	for i, w := range []VecVirtual{lo, hi} {
		VPMULLW(factor, w, w)
		VPMULHUW(Mem{Base: ratios, Disp: 32 * i}, w, w)
		VMOVDQU(w, Mem{Base: estimates, Disp: 32 * i})
	}
	ADDQ(U8(4), counted)
	ADDQ(U8(32), counts)
	ADDQ(U8(64), ratios)
	ADDQ(U8(64), estimates)
	DECQ(groups)
	JNZ(LabelRef("group"))
	VZEROUPPER()
	RET()
}
