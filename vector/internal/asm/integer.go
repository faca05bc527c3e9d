package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// madd adds the pairwise products of 16-bit words to acc, clobbering x.
func madd(x, y, acc vector) {
	VPMADDWD(y, x, x)
	VPADDD(x, acc, acc)
}

// and emits dst = x & y.
func (s set) and(x, y Op, dst vector) {
	if s.wide {
		VPANDD(x, y, dst)
		return
	}
	VPAND(x, y, dst)
}

// byteDistance emits the squared Euclidean distance of two byte vectors.
func byteDistance(s set) {
	begin(s, "l2SquaredUint8", "(a, b *uint8, n int) uint32",
		"the squared Euclidean distance of n bytes, modulo 2^32")
	a := Load(Param("a"), GP64()).(GPVirtual)
	b := Load(Param("b"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	zero := s.vec()
	s.zero(zero)
	acc := accumulators(s)
	// add squares |x-y|, widened by interleaving with zero: sums of two squares
	// are at most 2·255² = 130,050, far from the limits of VPMADDWD. It clobbers
	// x and y.
	add := func(x, y, acc0, acc1 vector) {
		d := s.vec()
		VPMAXUB(y, x, d)
		VPMINUB(y, x, x)
		VPSUBB(x, d, d)
		VPUNPCKLBW(zero, d, x)
		VPUNPCKHBW(zero, d, d)
		madd(x, x, acc0)
		madd(d, d, acc1)
	}
	if !s.wide {
		CMPQ(n, U8(s.bytes))
		JLT(LabelRef("short"))
	}
	s.blocks(n, s.bytes, 2, func(k, j int) {
		x, y := s.vec(), s.vec()
		s.load(Mem{Base: a, Disp: s.bytes * j}, x)
		s.load(Mem{Base: b, Disp: s.bytes * j}, y)
		add(x, y, acc[2*k], acc[2*k+1])
	}, func(elements int) {
		ADDQ(U32(elements), a)
		ADDQ(U32(elements), b)
	})
	TESTQ(n, n)
	JZ(LabelRef("done"))
	x, y := s.vec(), s.vec()
	if s.wide {
		k := ones(n)
		VMOVDQU8_Z(Mem{Base: a}, k, x)
		VMOVDQU8_Z(Mem{Base: b}, k, y)
	} else {
		// Read the last 32 bytes again and set those already counted to zero in
		// both vectors, which adds nothing to a distance.
		mask := YMM()
		p := GP64()
		LEAQ(byteMask, p)
		VMOVDQU(Mem{Base: p, Index: n, Scale: 1}, mask)
		VPAND(Mem{Base: a, Index: n, Scale: 1, Disp: -32}, mask, x)
		VPAND(Mem{Base: b, Index: n, Scale: 1, Disp: -32}, mask, y)
	}
	add(x, y, acc[0], acc[1])
	Label("done")
	VPADDD(acc[1], acc[0], acc[0])
	VPADDD(acc[3], acc[2], acc[2])
	VPADDD(acc[2], acc[0], acc[0])
	sum := s.sumInt(acc[0])
	Store(sum, ReturnIndex(0))
	VZEROUPPER()
	RET()
	if s.wide {
		return
	}
	Label("short")
	total, u, v := GP32(), GP32(), GP32()
	XORL(total, total)
	Label("byte")
	TESTQ(n, n)
	JZ(LabelRef("return"))
	MOVBLZX(Mem{Base: a}, u)
	MOVBLZX(Mem{Base: b}, v)
	SUBL(v, u)
	IMULL(u, u)
	ADDL(u, total)
	INCQ(a)
	INCQ(b)
	DECQ(n)
	JMP(LabelRef("byte"))
	Label("return")
	Store(total, ReturnIndex(0))
	VZEROUPPER()
	RET()
}
