package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// countList adds to the lowest plane by exclusive or; the branch to the carry
// is rarely taken, since lists are sparse.
func countList() {
	begin("countList", "(planes *uint64, size int, low *uint16, n int, stride int)",
		"countListGo for n positions and size words of planes.")
	planes, size, low, n, stride := load("planes"), load("size"), load("low"), load("n"), load("stride")
	one := GP64()
	MOVQ(U64(1), one)
	Label("position")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	at, bit, old, sum := GP64(), GP64(), GP64(), GP64()
	MOVWLZX(Mem{Base: low}, at.As32())
	SHLXQ(at, one, bit)
	SHRL(U8(6), at.As32())
	MOVQ(Mem{Base: planes, Index: at, Scale: 8}, old)
	MOVQ(old, sum)
	XORQ(bit, sum)
	MOVQ(sum, Mem{Base: planes, Index: at, Scale: 8})
	ADDQ(U8(2), low)
	DECQ(n)
	TESTQ(bit, old)
	JZ(LabelRef("position"))
	Label("carry")
	ADDQ(stride, at)
	CMPQ(at, size)
	JGE(LabelRef("position"))
	MOVQ(Mem{Base: planes, Index: at, Scale: 8}, old)
	MOVQ(old, sum)
	XORQ(bit, sum)
	MOVQ(sum, Mem{Base: planes, Index: at, Scale: 8})
	TESTQ(bit, old)
	JNZ(LabelRef("carry"))
	JMP(LabelRef("position"))
	Label("done")
	RET()
}

// addBitmaps adds n bitmaps at offsets of bytes from words to 256 counts, whose
// bits are in b. Four bitmaps at a time go through a tree of full adders, so that
// the carry runs up the higher bits once for four.
func addBitmaps(b []VecVirtual, words, bitmaps, n GPVirtual) {
	next := func(i int) VecVirtual {
		p, x := GP64(), YMM()
		MOVQ(Mem{Base: bitmaps, Disp: 8 * i}, p)
		VMOVDQU(Mem{Base: words, Index: p, Scale: 1}, x)
		return x
	}
	// full adds x and y into sum and returns the carry.
	full := func(sum, x, y VecVirtual) VecVirtual {
		u, v, carry := YMM(), YMM(), YMM()
		VPXOR(x, y, u)
		VPAND(x, y, v)
		VPAND(sum, u, carry)
		VPOR(v, carry, carry)
		VPXOR(u, sum, sum)
		return carry
	}
	// ripple adds carry to the bits from i.
	ripple := func(carry VecVirtual, i int) {
		for ; i < len(b); i++ {
			if i == len(b)-1 {
				VPXOR(carry, b[i], b[i])
				break
			}
			t := YMM()
			VPAND(carry, b[i], t)
			VPXOR(carry, b[i], b[i])
			carry = t
		}
	}
	loop("bitmap", n, 4, func(count int) {
		if count == 4 {
			c0 := full(b[0], next(0), next(1))
			c1 := full(b[0], next(2), next(3))
			ripple(full(b[1], c0, c1), 2)
		} else {
			ripple(next(0), 0)
		}
		ADDQ(I32(int32(8*count)), bitmaps)
	})
}

// loadPlanes begins a strip's counts, as bits in depth registers, with the planes
// that are filled; the others are zero. It moves planes on.
func loadPlanes(depth int, planes, filled, stride Register) []VecVirtual {
	b := make([]VecVirtual, depth)
	for i := range b {
		b[i] = YMM()
		VPXOR(b[i], b[i], b[i])
	}
	for i := range b {
		CMPQ(filled, U8(i))
		JLE(LabelRef("start"))
		VMOVDQU(Mem{Base: planes}, b[i])
		ADDQ(stride, planes)
	}
	Label("start")
	return b
}

// countStrip holds the bits of 256 counts in depth registers.
func countStrip(depth int) {
	begin(fmt.Sprintf("countStrip%d", depth),
		"(counted *uint64, hits *uint64, planes *uint64, filled int, words *uint64, bitmaps *int, n int, stride int, least int) bool",
		fmt.Sprintf("countStripGo of depth %d, for n bitmaps at byte\n// offsets; planes and words point at the strip, stride is in bytes. It says\n// whether there are hits; if not, counted is not written.", depth))
	counted, hits := load("counted"), load("hits")
	planes, filled, words := load("planes"), load("filled"), load("words")
	bitmaps, n, stride, least := load("bitmaps"), load("n"), load("stride"), load("least")
	b := loadPlanes(depth, planes, filled, stride)
	addBitmaps(b, words, bitmaps, n)
	hit := YMM()
	VPCMPEQB(hit, hit, hit)
	for i := range b {
		one, done := fmt.Sprintf("one%d", i), fmt.Sprintf("bit%d", i)
		BTQ(U8(i), least)
		JCS(LabelRef(one))
		VPOR(b[i], hit, hit)
		JMP(LabelRef(done))
		Label(one)
		VPAND(b[i], hit, hit)
		Label(done)
	}
	found := GP8()
	VPTEST(hit, hit)
	SETNE(found)
	JZ(LabelRef("return"))
	VMOVDQU(hit, Mem{Base: hits})
	for i := range b {
		VMOVDQU(b[i], Mem{Base: counted, Disp: 32 * i})
	}
	Label("return")
	Store(found, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
