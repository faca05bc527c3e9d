package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// squareTable is the squares of 0 to 255 as words: a load is cheaper here than
// a second multiplication.
func squareTable() Mem {
	t := GLOBL("squares", RODATA|NOPTR)
	for i := 0; i < 256; i += 4 {
		var squares uint64
		for j := range 4 {
			squares |= uint64((i+j)*(i+j)) << (16 * j)
		}
		DATA(2*i, U64(squares))
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

// spreadBytes has, for every byte, the places of the codes of its bits as a shuffle: the code of bit b,
// among those of the bits set, to word b, and zero to the words of bits that are not set.
func spreadBytes() Mem {
	t := GLOBL("spread", RODATA|NOPTR)
	for b := range 256 {
		var words [2]uint64
		place := uint64(0)
		for bit := range 8 {
			word := uint64(0x8080)
			if b>>bit&1 != 0 {
				word = 0x8000 | place
				place++
			}
			words[bit/4] |= word << (bit % 4 * 16)
		}
		for i, w := range words {
			DATA(16*b+8*i, U64(w))
		}
	}
	return t
}

// addBits adds to eight rows at once.
func addBits() {
	begin("addBits", "(cells *uint16, words *uint16, n int, code *uint8, weight uint32) int",
		"addBitsGo for n bytes of words, a multiple of two. Eight codes are read from each place on.")
	cells, words, n, code := load("cells"), load("words"), load("n"), load("code")
	start, spread := GP64(), GP64()
	MOVQ(code, start)
	LEAQ(spreadBytes(), spread)
	w := Load(Param("weight"), GP32())
	weight, zero := XMM(), XMM()
	VMOVD(w, weight)
	VPBROADCASTW(weight, weight)
	VPXOR(zero, zero, zero)
	loop("bytes", n, 4, func(count int) {
		for i := range count {
			mask, ones := GP64(), GP64()
			x, present := XMM(), XMM()
			MOVBLZX(Mem{Base: words, Disp: i}, mask.As32())
			VMOVQ(Mem{Base: code}, x)
			POPCNTL(mask.As32(), ones.As32())
			SHLQ(U8(4), mask)
			ADDQ(ones, code)
			VPSHUFB(Mem{Base: spread, Index: mask, Scale: 1}, x, x)
			VPCMPGTW(zero, x, present) // -1 where a bit is set
			VPMULLW(x, x, x)
			VPMULHUW(weight, x, x)
			VPSUBW(present, x, x)
			to := Mem{Base: cells, Disp: 16 * i}
			VPADDUSW(to, x, x)
			VMOVDQU(x, to)
		}
		ADDQ(I32(int32(count)), words)
		ADDQ(I32(int32(16*count)), cells)
	})
	SUBQ(start, code)
	Store(code, ReturnIndex(0))
	RET()
}

// expandBytes is VPEXPANDB with zeroing, which avo does not know.
func expandBytes(m Mem, k, z Register) {
	Instruction(&ir.Instruction{
		Opcode: "VPEXPANDB", Suffixes: []string{"Z"}, Operands: []Op{m, k, z},
		Inputs: []Op{m, k}, Outputs: []Op{z}, ISA: []string{"AVX512_VBMI2"},
	})
}

// addBitsWide adds to 64 rows at once.
func addBitsWide() {
	TEXT("addBitsAVX512", NOSPLIT, "func(cells *uint16, words *uint16, n int, code *uint8, weight uint32) int")
	Doc("addBitsAVX512 is addBitsGo for n groups of four words.", "")
	Pragma("noescape")
	cells, words, n, code := load("cells"), load("words"), load("n"), load("code")
	start, one := GP64(), GP64()
	MOVQ(code, start)
	w := Load(Param("weight"), GP32())
	weight, ones := ZMM(), ZMM()
	VPBROADCASTW(w, weight)
	MOVL(U32(1), one.As32())
	VPBROADCASTW(one.As32(), ones)
	Label("groups")
	TESTQ(n, n)
	JLE(LabelRef("done"))
	mask, count := GP64(), GP64()
	k := K()
	x, high := ZMM(), YMM()
	MOVQ(Mem{Base: words}, mask)
	KMOVQ(mask, k)
	expandBytes(Mem{Base: code}, k, x)
	POPCNTQ(mask, count)
	ADDQ(count, code)
	VEXTRACTI64X4(U8(1), x, high)
	for i, half := range []Register{x.AsY(), high} {
		v, present := ZMM(), K()
		VPMOVZXBW(half, v)
		VPTESTMW(v, v, present)
		VPMULLW(v, v, v)
		VPMULHUW(weight, v, v)
		VPADDW(ones, v, present, v)
		to := Mem{Base: cells, Disp: 64 * i}
		VPADDUSW(to, v, v)
		VMOVDQU16(v, to)
	}
	ADDQ(U8(8), words)
	ADDQ(U32(128), cells)
	DECQ(n)
	JMP(LabelRef("groups"))
	Label("done")
	SUBQ(start, code)
	Store(code, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
