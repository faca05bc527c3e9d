package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// set is an instruction set: its suffix in names and its register width.
type set struct {
	name  string
	bytes int
	wide  bool // AVX-512: 512-bit registers and mask registers
}

// vector is a register of any width: an operand that has views.
type vector interface {
	Register
	AsX() Register
	AsY() Register
	AsZ() Register
}

// lanes returns the number of float32 in a register.
func (s set) lanes() int { return s.bytes / 4 }

// vec returns a new full-width register.
func (s set) vec() VecVirtual {
	if s.wide {
		return ZMM()
	}
	return YMM()
}

// phys returns full-width register i.
func (s set) phys(i int) VecPhysical {
	all := []VecPhysical{X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13, X14, X15,
		X16, X17, X18, X19, X20, X21, X22, X23, X24, X25, X26, X27, X28, X29, X30, X31}
	if s.wide {
		return all[i].AsZ().(VecPhysical)
	}
	return all[i].AsY().(VecPhysical)
}

// zero clears a register.
func (s set) zero(v vector) {
	if s.wide {
		VPXORD(v, v, v)
		return
	}
	VPXOR(v, v, v)
}

// load reads a full register of bytes or floats.
func (s set) load(m Mem, v vector) {
	if s.wide {
		VMOVDQU64(m, v)
		return
	}
	VMOVDQU(m, v)
}

// The mask tables of the AVX2 tails. floatMask is eight zero words, eight of
// ones, eight of zeros: a load at word 16-r selects the first r lanes, at word
// r the last r. byteMask is 32 zero bytes, then 32 of ones: a load at byte r
// selects the last r bytes.
//
// The tables of sign sketches: bitSpread repeats each of four bytes eight times, bitSelect
// has one bit for each of eight bytes, laneBits one for each of eight lanes. hadamardSigns
// are the factors of the elements of pairs that are 1, 2, 4 and 8 lanes apart, 1 and -1.
var (
	floatMask, byteMask, exponent, lowNibbles, wordOnes, byteOnes Mem
	bitSpread, bitSelect, laneBits, hadamardSigns                 Mem
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
	for i := range 8 {
		DATA(8*i, U64(0x0001000100010001))
	}
	lowNibbles = GLOBL("lowNibbles", 8|16)
	for i := range 8 {
		DATA(8*i, U64(0x0f0f0f0f0f0f0f0f))
	}
	byteOnes = GLOBL("byteOnes", 8|16)
	for i := range 8 {
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
	for step := range 4 {
		for lane := range 16 {
			DATA(64*step+4*lane, U32(0x3f800000|uint32(lane>>step&1)<<31))
		}
	}
	exponent = GLOBL("exponent", 8|16)
	for i := range 4 {
		DATA(8*i, U64(0x7f8000007f800000))
	}
}

// lead returns the mask of the first r lanes, r in 1..lanes-1: a mask register
// for AVX-512, the address of a vector mask for AVX2.
func (s set) lead(r GPVirtual) (Register, Mem) {
	if s.wide {
		return ones(r), Mem{}
	}
	p := GP64()
	t := GP64()
	LEAQ(floatMask.Offset(64), p)
	MOVQ(r, t)
	NEGQ(t)
	return nil, Mem{Base: p, Index: t, Scale: 4}
}

// ones returns a mask register with the r low bits set.
func ones(r GPVirtual) Register {
	k := K1
	t := GP64()
	MOVQ(I32(-1), t)
	BZHIQ(r, t, t)
	KMOVQ(t, k)
	return k
}

// addHalves adds the upper half of a wide integer or float register to its lower
// half and returns the 256-bit result; for AVX2 it returns v itself.
func (s set) addHalves(v vector, float bool) Register {
	if !s.wide {
		return v.AsY()
	}
	h := YMM()
	VEXTRACTI64X4(U8(1), v, h)
	if float {
		VADDPS(h, v.AsY(), v.AsY())
	} else {
		VPADDD(h, v.AsY(), v.AsY())
	}
	return v.AsY()
}

// sumFloat leaves the sum of v's floats in its low lane. It adds pairs within 128
// bits and then the halves, in the order of the tile kernels.
func (s set) sumFloat(v vector) Register {
	y := s.addHalves(v, true)
	VHADDPS(y, y, y)
	VHADDPS(y, y, y)
	h := XMM()
	VEXTRACTF128(U8(1), y, h)
	VADDSS(h, v.AsX(), v.AsX())
	return v.AsX()
}

// sumInt returns the sum of v's 32-bit integers, modulo 2^32.
func (s set) sumInt(v vector) GPVirtual {
	s.addHalves(v, false)
	return fold(v, VPADDD)
}

// fold combines the eight 32-bit lanes of v's low half by an instruction, in halves, and returns the result.
func fold(v vector, by func(...Op)) GPVirtual {
	h, x := XMM(), v.AsX()
	VEXTRACTI128(U8(1), v.AsY(), h)
	by(h, x, x)
	for _, halves := range []U8{0x4e, 0xb1} {
		VPSHUFD(halves, x, h)
		by(h, x, x)
	}
	r := GP32()
	VMOVD(x, r)
	return r
}

// rest emits the load of the last n floats, fewer than a register of AVX2 has lanes, with zeros in the
// others, or a jump to the label done if there are none.
func (s set) rest(n GPVirtual, from Mem) VecVirtual {
	TESTQ(n, n)
	JZ(LabelRef("done"))
	_, m := s.lead(n)
	v := YMM()
	VMOVDQU(m, v)
	VMASKMOVPS(from, v, v)
	return v
}

// blocks emits the loops of a kernel over two runs of n elements: steps of unroll
// registers, then of single registers, until n is below lanes. step(k, j) processes
// register j and adds to accumulator k.
func (s set) blocks(n GPVirtual, lanes, unroll int, step func(acc, j int), advance func(elements int)) {
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
