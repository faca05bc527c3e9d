package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// lanes is the number of float32 in a register, width its bytes.
const lanes, width = 8, 32

// zero clears a register.
func zero(v Register) { VPXOR(v, v, v) }

// The mask tables of the tails. floatMask is eight zero words, eight of
// ones, eight of zeros: a load at word 16-r selects the first r lanes, at word
// r the last r. byteMask is 32 zero bytes, then 32 of ones: a load at byte r
// selects the last r bytes.
//
// The tables of sign sketches: bitSpread repeats each of four bytes eight times, bitSelect
// has one bit for each of eight bytes, laneBits one for each of eight lanes. hadamardSigns
// are the factors of the elements of pairs that are 1, 2 and 4 lanes apart, 1 and -1.
var (
	floatMask, byteMask, lowNibbles, wordOnes, byteOnes Mem
	bitSpread, bitSelect, laneBits, hadamardSigns       Mem
)

func tables() {
	floatMask = GLOBL("floatMask", 8|16) // RODATA|NOPTR
	for i := range 24 {
		v := U32(0)
		if i >= 8 && i < 16 {
			v = 0xffffffff
		}
		DATA(4*i, v)
	}
	byteMask = GLOBL("byteMask", 8|16)
	for i := range 8 {
		v := U64(0)
		if i >= 4 {
			v = 0xffffffffffffffff
		}
		DATA(8*i, v)
	}
	wordOnes = GLOBL("wordOnes", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x0001000100010001))
	}
	lowNibbles = GLOBL("lowNibbles", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x0f0f0f0f0f0f0f0f))
	}
	byteOnes = GLOBL("byteOnes", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x0101010101010101))
	}
	bitSpread = GLOBL("bitSpread", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x0101010101010101*uint64(i)))
	}
	bitSelect = GLOBL("bitSelect", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x8040201008040201))
	}
	laneBits = GLOBL("laneBits", 8|16)
	for lane := range 8 {
		DATA(4*lane, U32(1<<lane))
	}
	hadamardSigns = GLOBL("hadamardSigns", 8|16)
	for step := range 3 {
		for lane := range lanes {
			DATA(width*step+4*lane, U32(0x3f800000|uint32(lane>>step&1)<<31))
		}
	}
}

// lead returns the address of the mask of the first r lanes, r in 1..lanes-1.
func lead(r GPVirtual) Mem {
	p := GP64()
	t := GP64()
	LEAQ(floatMask.Offset(64), p)
	MOVQ(r, t)
	NEGQ(t)
	return Mem{Base: p, Index: t, Scale: 4}
}

// sumFloat leaves the sum of y's floats in its low lane. It adds pairs within 128
// bits and then the halves, in the order of the tile kernels.
func sumFloat(y VecVirtual) Register {
	VHADDPS(y, y, y)
	VHADDPS(y, y, y)
	h := XMM()
	VEXTRACTF128(U8(1), y, h)
	VADDSS(h, y.AsX(), y.AsX())
	return y.AsX()
}

// sumInt returns the sum of v's 32-bit integers, modulo 2^32.
func sumInt(v VecVirtual) GPVirtual {
	h, x := XMM(), v.AsX()
	VEXTRACTI128(U8(1), v, h)
	VPADDD(h, x, x)
	for _, halves := range []U8{0x4e, 0xb1} {
		VPSHUFD(halves, x, h)
		VPADDD(h, x, x)
	}
	r := GP32()
	VMOVD(x, r)
	return r
}

// sumsOfFour leaves the sums of the 32-bit integers of four registers in the four lanes of an XMM register.
func sumsOfFour(y [4]VecVirtual) VecVirtual {
	VPHADDD(y[1], y[0], y[0])
	VPHADDD(y[3], y[2], y[2])
	VPHADDD(y[2], y[0], y[0])
	x := XMM()
	VEXTRACTI128(U8(1), y[0], x)
	VPADDD(x, y[0].AsX(), x)
	return x
}

// blocks emits the loops of a kernel over two runs of n elements: steps of unroll
// registers, then of single registers, until n is below lanes. step(k, j) processes
// register j and adds to accumulator k.
func blocks(n GPVirtual, lanes, unroll int, step func(acc, j int), advance func(elements int)) {
	Label("unrolled")
	CMPQ(n, U32(lanes*unroll))
	JLT(LabelRef("single"))
	for j := range unroll {
		step(j, j)
	}
	advance(lanes * unroll)
	SUBQ(U32(lanes*unroll), n)
	JMP(LabelRef("unrolled"))
	Label("single")
	CMPQ(n, U32(lanes))
	JLT(LabelRef("tail"))
	step(0, 0)
	advance(lanes)
	SUBQ(U32(lanes), n)
	JMP(LabelRef("single"))
	Label("tail")
}
