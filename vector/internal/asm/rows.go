package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// addRows emits a kernel that keeps the sums of 32 cells in registers while it loops
// over the rows. It rounds products before it adds them, as the reference does.
func addRows() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "addRows", "(sum *float64, n int, cells *float32, at *int, x *float64, rows int)",
		"AddRows for n sums, a multiple of 32, and a number of rows")
	sum := Load(Param("sum"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	cells := Load(Param("cells"), GP64()).(GPVirtual)
	at := Load(Param("at"), GP64()).(GPVirtual)
	x := Load(Param("x"), GP64()).(GPVirtual)
	rows := Load(Param("rows"), GP64()).(GPVirtual)
	Label("strip")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	var acc [8]VecVirtual
	for i := range acc {
		acc[i] = YMM()
		VMOVUPD(Mem{Base: sum, Disp: 32 * i}, acc[i])
	}
	r := GP64()
	XORQ(r, r)
	Label("row")
	CMPQ(r, rows)
	JGE(LabelRef("store"))
	p := GP64()
	MOVQ(Mem{Base: at, Index: r, Scale: 8}, p)
	LEAQ(Mem{Base: cells, Index: p, Scale: 4}, p)
	factor := YMM()
	VBROADCASTSD(Mem{Base: x, Index: r, Scale: 8}, factor)
	for i, a := range acc {
		v := YMM()
		VCVTPS2PD(Mem{Base: p, Disp: 16 * i}, v)
		VMULPD(factor, v, v)
		VADDPD(v, a, a)
	}
	INCQ(r)
	JMP(LabelRef("row"))
	Label("store")
	for i, a := range acc {
		VMOVUPD(a, Mem{Base: sum, Disp: 32 * i})
	}
	ADDQ(I32(256), sum)
	ADDQ(I32(128), cells)
	SUBQ(U8(32), n)
	JMP(LabelRef("strip"))
	Label("done")
	VZEROUPPER()
	RET()
}

// standardize emits a kernel that handles eight floats at a time.
func standardize() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "standardize", "(out, x, mean, factor *float32, n int)",
		"Standardize for n floats, a multiple of 8")
	var at [4]GPVirtual
	for i, name := range [...]string{"out", "x", "mean", "factor"} {
		at[i] = Load(Param(name), GP64()).(GPVirtual)
	}
	n := Load(Param("n"), GP64()).(GPVirtual)
	i := GP64()
	XORQ(i, i)
	Label("eight")
	CMPQ(i, n)
	JGE(LabelRef("done"))
	place := func(of GPVirtual) Mem { return Mem{Base: of, Index: i, Scale: 4} }
	v := YMM()
	VMOVUPS(place(at[1]), v)
	VSUBPS(place(at[2]), v, v)
	VMULPS(place(at[3]), v, v)
	VMOVUPS(v, place(at[0]))
	ADDQ(U8(8), i)
	JMP(LabelRef("eight"))
	Label("done")
	VZEROUPPER()
	RET()
}
