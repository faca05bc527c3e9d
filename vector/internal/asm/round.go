package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// largestBits emits the largest magnitude of floats. Those that are not negative have the order of their
// bits.
func largestBits() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "largestBits", "(x *float32, n int) uint32", "the bits of the largest magnitude of n floats")
	x := Load(Param("x"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	most, magnitude := accumulators(s), YMM()
	VPCMPEQD(magnitude, magnitude, magnitude)
	VPSRLD(U8(1), magnitude, magnitude)
	s.blocks(n, 8, unroll, func(k, j int) {
		v := YMM()
		VPAND(Mem{Base: x, Disp: 32 * j}, magnitude, v)
		VPMAXUD(v, most[k], most[k])
	}, func(elements int) { ADDQ(U32(4*elements), x) })
	v := s.rest(n, Mem{Base: x})
	VPAND(magnitude, v, v)
	VPMAXUD(v, most[0], most[0])
	Label("done")
	VPMAXUD(most[1], most[0], most[0])
	VPMAXUD(most[3], most[2], most[2])
	VPMAXUD(most[2], most[0], most[0])
	Store(fold(most[0], VPMAXUD), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// roundSixteens emits the conversion of floats to bytes and their sum. The conversion to integers rounds to
// even, as Go programs never change the rounding mode.
func roundSixteens() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "roundSixteens", "(x *float32, n int, scale float32, out *int8) int32",
		"roundBytes for a multiple of sixteen numbers")
	x := Load(Param("x"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	scale, sum := YMM(), YMM()
	VBROADCASTSS(Load(Param("scale"), XMM()), scale)
	s.zero(sum)
	Label("sixteen")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	a, b, h := YMM(), YMM(), XMM()
	for i, v := range []VecVirtual{a, b} {
		VMULPS(Mem{Base: x, Disp: 32 * i}, scale, v)
		VCVTPS2DQ(v, v)
		VPADDD(v, sum, sum)
	}
	VPACKSSDW(b, a, a)
	VPERMQ(U8(0xd8), a, a) // the order of the halves of a and b
	VEXTRACTI128(U8(1), a, h)
	VPACKSSWB(h, a.AsX(), h)
	VMOVDQU(h, Mem{Base: out})
	ADDQ(U8(64), x)
	ADDQ(U8(16), out)
	SUBQ(U8(16), n)
	JMP(LabelRef("sixteen"))
	Label("done")
	Store(s.sumInt(sum), ReturnIndex(0))
	VZEROUPPER()
	RET()
}
