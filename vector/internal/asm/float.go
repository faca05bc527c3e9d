package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// unroll is the number of independent accumulators of the pair kernels: the loads
// allow one fused multiply-add per cycle, and its latency is four cycles.
const unroll = 4

// begin starts a kernel without a frame; signature is without the func keyword.
func begin(s set, name, signature, doc string) {
	TEXT(name+s.name, 4, "func"+signature) // NOSPLIT
	Pragma("noescape")
	Doc(strings.Split(name+s.name+" is "+doc+".", "\n")...)
}

// floatPair emits l2Squared or dot for two float vectors.
func floatPair(s set, name, doc string, distance bool) {
	begin(s, name, "(a, b *float32, n int) float32", doc)
	a := Load(Param("a"), GP64()).(GPVirtual)
	b := Load(Param("b"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	acc := accumulators(s)
	s.blocks(n, s.lanes(), unroll, func(k, j int) {
		x := s.vec()
		s.load(Mem{Base: a, Disp: s.bytes * j}, x)
		if distance {
			VSUBPS(Mem{Base: b, Disp: s.bytes * j}, x, x)
			VFMADD231PS(x, x, acc[k])
		} else {
			VFMADD231PS(Mem{Base: b, Disp: s.bytes * j}, x, acc[k])
		}
	}, func(elements int) {
		ADDQ(U32(4*elements), a)
		ADDQ(U32(4*elements), b)
	})
	TESTQ(n, n)
	JZ(LabelRef("done"))
	x, y := s.vec(), s.vec()
	k, m := s.lead(n)
	if s.wide {
		VMOVUPS_Z(Mem{Base: a}, k, x)
		VMOVUPS_Z(Mem{Base: b}, k, y)
	} else {
		mask := YMM()
		VMOVDQU(m, mask)
		VMASKMOVPS(Mem{Base: a}, mask, x)
		VMASKMOVPS(Mem{Base: b}, mask, y)
	}
	if distance {
		VSUBPS(y, x, x)
		VFMADD231PS(x, x, acc[1])
	} else {
		VFMADD231PS(y, x, acc[1])
	}
	Label("done")
	finishFloat(s, acc)
}

// accumulators returns the cleared accumulators of a pair kernel.
func accumulators(s set) []VecVirtual {
	acc := make([]VecVirtual, unroll)
	for i := range acc {
		acc[i] = s.vec()
		s.zero(acc[i])
	}
	return acc
}

// finishFloat adds the accumulators and emits the return of their sum.
func finishFloat(s set, acc []VecVirtual) {
	VADDPS(acc[1], acc[0], acc[0])
	VADDPS(acc[3], acc[2], acc[2])
	VADDPS(acc[2], acc[0], acc[0])
	Store(s.sumFloat(acc[0]), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// mixedPair emits l2Mixed or dotMixed for a float query and a row of bytes.
func mixedPair(s set, name, doc string, distance bool) {
	begin(s, name, "(q *float32, row *uint8, n int) float32", doc)
	q := Load(Param("q"), GP64()).(GPVirtual)
	row := Load(Param("row"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	acc := accumulators(s)
	lanes := s.lanes()
	if !s.wide {
		CMPQ(n, U8(lanes))
		JLT(LabelRef("short"))
	}
	s.blocks(n, lanes, unroll, func(k, j int) {
		x := s.vec()
		VPMOVZXBD(Mem{Base: row, Disp: lanes * j}, x)
		VCVTDQ2PS(x, x)
		m := Mem{Base: q, Disp: s.bytes * j}
		if distance {
			VSUBPS(m, x, x)
			VFMADD231PS(x, x, acc[k])
		} else {
			VFMADD231PS(m, x, acc[k])
		}
	}, func(elements int) {
		ADDQ(U32(4*elements), q)
		ADDQ(U32(elements), row)
	})
	TESTQ(n, n)
	JZ(LabelRef("done"))
	x, y := s.vec(), s.vec()
	if s.wide {
		k := ones(n)
		// A masked move does not fault on bytes it leaves out. A masked VPMOVZXBD
		// should not either, but it does on the emulator that ran the tests.
		VMOVDQU8_Z(Mem{Base: row}, k, x.AsX())
		VPMOVZXBD(x.AsX(), x)
		VMOVUPS_Z(Mem{Base: q}, k, y)
	} else {
		// The vector has at least eight elements: read the last eight again and
		// drop those that are already counted.
		VPMOVZXBD(Mem{Base: row, Index: n, Scale: 1, Disp: -8}, x)
		VMOVUPS(Mem{Base: q, Index: n, Scale: 4, Disp: -32}, y)
	}
	VCVTDQ2PS(x, x)
	if distance {
		VSUBPS(y, x, y)
	}
	if !s.wide {
		p := GP64()
		LEAQ(floatMask, p)
		VANDPS(Mem{Base: p, Index: n, Scale: 4}, y, y)
	}
	if distance {
		VFMADD231PS(y, y, acc[1])
	} else {
		VFMADD231PS(y, x, acc[1])
	}
	Label("done")
	finishFloat(s, acc)
	if s.wide {
		return
	}
	Label("short")
	TESTQ(n, n)
	JZ(LabelRef("done"))
	t := GP32()
	v := XMM()
	VXORPS(v, v, v)
	MOVBLZX(Mem{Base: row}, t)
	VCVTSI2SSL(t, v, v)
	if distance {
		VSUBSS(Mem{Base: q}, v, v)
		VFMADD231SS(v, v, acc[0].AsX())
	} else {
		VFMADD231SS(Mem{Base: q}, v, acc[0].AsX())
	}
	ADDQ(U8(4), q)
	INCQ(row)
	DECQ(n)
	JMP(LabelRef("short"))
}

// allFinite emits the check that no exponent is all ones.
func allFinite() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "allFinite", "(x *float32, n int) bool", "whether none of n floats is a NaN or an infinity")
	x := Load(Param("x"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	e := YMM()
	VMOVDQU(exponent, e)
	bad := []VecVirtual{YMM(), YMM()}
	for _, v := range bad {
		s.zero(v)
	}
	check := func(v, into vector) {
		VPAND(e, v, v)
		VPCMPEQD(e, v, v)
		VPOR(v, into, into)
	}
	s.blocks(n, 8, 2, func(k, j int) {
		v := YMM()
		VMOVDQU(Mem{Base: x, Disp: 32 * j}, v)
		check(v, bad[k])
	}, func(elements int) { ADDQ(U32(4*elements), x) })
	check(s.rest(n, Mem{Base: x}), bad[0])
	Label("done")
	VPOR(bad[1], bad[0], bad[0])
	VPTEST(bad[0], bad[0])
	r := GP8()
	SETEQ(r)
	Store(r, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// prefetch emits a kernel that requests every cache line of a run of bytes.
func prefetch() {
	TEXT("prefetchLines", 4, "func(p *byte, n int)")
	Pragma("noescape")
	Doc("prefetchLines hints that the n bytes from p will be read.")
	p := Load(Param("p"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	TESTQ(n, n)
	JLE(LabelRef("done"))
	ADDQ(p, n)
	ANDQ(I8(-64), p)
	Label("line")
	CMPQ(p, n)
	JCC(LabelRef("done"))
	PREFETCHT0(Mem{Base: p})
	ADDQ(U8(64), p)
	JMP(LabelRef("line"))
	Label("done")
	RET()
}

// tileName returns the name of a tile kernel.
func tileName(rows, cols int) string { return fmt.Sprintf("dotTile%dx%d", rows, cols) }
