package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// spreadTable has byte i of a word for lanes 8i to 8i+7.
func spreadTable() Mem {
	t := GLOBL("spread", RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(uint64(i)*0x0101010101010101))
	}
	return t
}

// estimateStrips counts a strip as countStrip does and brings its counts of 32
// positions at a time from bits in planes to bytes: a word of a plane goes to all
// lanes, each byte keeps its bit.
func estimateStrips(depth int, spread Mem) {
	begin(fmt.Sprintf("estimateStrips%d", depth),
		"(counted *uint64, planes *uint64, filled int, words *uint64, bitmaps *int, n int, stride int, factor uint16, ratios *uint16, counts *uint8, estimates *uint16)",
		fmt.Sprintf("estimateStripsGo of depth %d, for n bitmaps at byte offsets;\n// stride, in bytes, is not zero. It leaves the planes of the last strip in counted.", depth))
	at := GP64() // the strip, as an offset in a plane
	XORQ(at, at)
	Label("strip")
	planes, filled := load("planes"), load("filled")
	ADDQ(at, planes)
	b := loadPlanes(depth, planes, filled, load("stride"))
	words, bitmaps, n := load("words"), load("bitmaps"), load("n")
	ADDQ(at, words)
	addBitmaps(b, words, bitmaps, n)
	counted := load("counted")
	for i := range b {
		VMOVDQU(b[i], Mem{Base: counted, Disp: 32 * i})
	}
	estimateGroups(depth, at, counted, spread)
	ADDQ(U8(32), at)
	CMPQ(at, load("stride"))
	JLT(LabelRef("strip"))
	VZEROUPPER()
	RET()
}

// estimateGroups makes bytes and estimates of the counts of the strip at an offset
// in a plane.
func estimateGroups(depth int, at, counted GPVirtual, spread Mem) {
	x, factor := XMM(), YMM()
	f := GP32()
	Load(Param("factor"), f)
	VMOVD(f, x)
	VPBROADCASTW(x, factor)
	bytes, bits, value := YMM(), YMM(), GP64()
	VMOVDQU(spread, bytes)
	MOVQ(U64(0x8040201008040201), value)
	VMOVQ(value, x)
	VPBROADCASTQ(x, bits)
	ratios, counts, estimates := load("ratios"), load("counts"), load("estimates")
	LEAQ(Mem{Base: counts, Index: at, Scale: 8}, counts)
	for _, p := range []GPVirtual{ratios, estimates} {
		LEAQ(Mem{Base: p, Index: at, Scale: 8}, p)
		LEAQ(Mem{Base: p, Index: at, Scale: 8}, p)
	}
	groups := GP64()
	MOVQ(U32(8), groups)
	Label("group")
	// The highest plane first, so that doubling the sum makes room for the next.
	sum := YMM()
	VPXOR(sum, sum, sum)
	for p := depth - 1; p >= 0; p-- {
		y := YMM()
		VPBROADCASTD(Mem{Base: counted, Disp: 32 * p}, y)
		VPSHUFB(bytes, y, y)
		VPAND(bits, y, y)
		VPCMPEQB(bits, y, y) // -1 where the bit is set
		if p < depth-1 {
			VPADDB(sum, sum, sum)
		}
		VPSUBB(y, sum, sum)
	}
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
}
