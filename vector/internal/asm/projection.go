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
func projection() {
	begin("matVecBytes", "(m *int8, rows, stride int, x *uint8, out *int32)", "MatVecBytes")
	m := Load(Param("m"), GP64()).(GPVirtual)
	rows := Load(Param("rows"), GP64()).(GPVirtual)
	stride := Load(Param("stride"), GP64()).(GPVirtual)
	x := Load(Param("x"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	ones := YMM()
	VMOVDQU(wordOnes, ones)
	three := GP64()
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, three)
	Label("rows")
	TESTQ(rows, rows)
	JZ(LabelRef("return"))
	var acc [4]VecVirtual
	for i := range acc {
		acc[i] = YMM()
		zero(acc[i])
	}
	j := GP64()
	XORQ(j, j)
	at := GP64()
	MOVQ(m, at)
	Label("columns")
	for half := 0; half < 64; half += width {
		v := YMM()
		VMOVDQU(Mem{Base: x, Index: j, Scale: 1, Disp: half}, v)
		for i, from := range []Mem{
			{Base: at, Disp: half},
			{Base: at, Index: stride, Scale: 1, Disp: half},
			{Base: at, Index: stride, Scale: 2, Disp: half},
			{Base: at, Index: three, Scale: 1, Disp: half},
		} {
			p := YMM()
			VPMADDUBSW(from, v, p)
			VPMADDWD(ones, p, p)
			VPADDD(p, acc[i], acc[i])
		}
	}
	ADDQ(U8(64), at)
	ADDQ(U8(64), j)
	CMPQ(j, stride)
	JLT(LabelRef("columns"))
	VMOVDQU(sumsOfFour(acc), Mem{Base: out})
	ADDQ(U8(16), out)
	LEAQ(Mem{Base: m, Index: stride, Scale: 4}, m)
	SUBQ(U8(4), rows)
	JMP(LabelRef("rows"))
	Label("return")
	VZEROUPPER()
	RET()
}
