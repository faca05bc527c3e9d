package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// projection emits the product of a matrix of small signed bytes and a vector of
// bytes, four rows at a time, so that a register of the vector is loaded once for
// four rows. There are no tails: the stride is a multiple of 64, the number of rows a
// multiple of four.
func projection(s set) {
	begin(s, "matVecBytes", "(m *int8, rows, stride int, x *uint8, out *int32)", "MatVecBytes")
	m := Load(Param("m"), GP64()).(GPVirtual)
	rows := Load(Param("rows"), GP64()).(GPVirtual)
	stride := Load(Param("stride"), GP64()).(GPVirtual)
	x := Load(Param("x"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	ones := s.vec()
	s.load(wordOnes, ones)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	Label("rows")
	TESTQ(rows, rows)
	JZ(LabelRef("return"))
	var acc [4]VecVirtual
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	j := GP64()
	XORQ(j, j)
	at := GP64()
	MOVQ(m, at)
	Label("columns")
	for half := 0; half < 64; half += s.bytes {
		v := s.vec()
		s.load(Mem{Base: x, Index: j, Scale: 1, Disp: half}, v)
		for i, from := range []Mem{
			{Base: at, Disp: half},
			{Base: at, Index: stride, Scale: 1, Disp: half},
			{Base: at, Index: stride, Scale: 2, Disp: half},
			{Base: at, Index: three, Scale: 1, Disp: half},
		} {
			p := s.vec()
			VPMADDUBSW(from, v, p)
			VPMADDWD(ones, p, p)
			VPADDD(p, acc[i], acc[i])
		}
	}
	ADDQ(U8(64), at)
	ADDQ(U8(64), j)
	CMPQ(j, stride)
	JLT(LabelRef("columns"))
	var y [4]Register
	for i, v := range acc {
		y[i] = s.addHalves(v, false)
	}
	VPHADDD(y[1], y[0], y[0])
	VPHADDD(y[3], y[2], y[2])
	VPHADDD(y[2], y[0], y[0])
	h := XMM()
	VEXTRACTI128(U8(1), y[0], h)
	VPADDD(h, acc[0].AsX(), h)
	VMOVDQU(h, Mem{Base: out})
	ADDQ(U8(16), out)
	LEAQ(Mem{Base: m, Index: stride, Scale: 4}, m)
	SUBQ(U8(4), rows)
	JMP(LabelRef("rows"))
	Label("return")
	VZEROUPPER()
	RET()
}

// wholeBytes emits the conversion of floats to bytes, which reports whether all of
// them are integers from 0 to 255.
func wholeBytes() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "wholeBytes", "(x *float32, n int, out *uint8) bool",
		"WholeBytes for a multiple of eight numbers")
	x := Load(Param("x"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	bad, high := YMM(), YMM()
	s.zero(bad)
	VPCMPEQD(high, high, high)
	VPSLLD(U8(8), high, high) // all bits except the lowest eight
	Label("eight")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	v, i, back := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: x}, v)
	VCVTTPS2DQ(v, i)
	VCVTDQ2PS(i, back)
	VCMPPS(U8(4), v, back, back) // not equal, or not a number
	VORPS(back, bad, bad)
	VPAND(high, i, back)
	VPOR(back, bad, bad)
	h := XMM()
	VEXTRACTI128(U8(1), i, h)
	VPACKUSDW(h, i.AsX(), h)
	VPACKUSWB(h, h, h)
	VMOVQ(h, Mem{Base: out})
	ADDQ(U8(32), x)
	ADDQ(U8(8), out)
	SUBQ(U8(8), n)
	JMP(LabelRef("eight"))
	Label("done")
	VPTEST(bad, bad)
	r := GP8()
	SETEQ(r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
