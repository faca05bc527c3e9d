package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// byteStep is the arithmetic of an integer kernel. add adds the contribution of
// the bytes in x and y, clobbering both, to two accumulators of 32-bit sums; c
// is the constant of the kernel.
type byteStep struct {
	signed   bool
	product  bool // a dot product; otherwise a distance
	constant func(s set) vector
	add      func(s set, c, x, y, acc0, acc1 vector)
}

// distance squares |x-y|, widened by interleaving with zero: sums of two
// squares are at most 2·255² = 130,050, far from the limits of VPMADDWD.
func distance(signed bool) byteStep {
	return byteStep{
		signed:   signed,
		constant: func(s set) vector { z := s.vec(); s.zero(z); return z },
		add: func(s set, zero, x, y, acc0, acc1 vector) {
			d := s.vec()
			if signed {
				VPMAXSB(y, x, d)
				VPMINSB(y, x, x)
			} else {
				VPMAXUB(y, x, d)
				VPMINUB(y, x, x)
			}
			VPSUBB(x, d, d)
			VPUNPCKLBW(zero, d, x)
			VPUNPCKHBW(zero, d, d)
			madd(x, x, acc0)
			madd(d, d, acc1)
		},
	}
}

var (
	distanceU8 = distance(false)
	distanceI8 = distance(true)

	// dotU8 multiplies the even and the odd bytes as 16-bit words.
	dotU8 = byteStep{
		product:  true,
		constant: func(s set) vector { c := s.vec(); s.load(lowBytes, c); return c },
		add: func(s set, low, x, y, acc0, acc1 vector) {
			u, v := s.vec(), s.vec()
			s.and(low, x, u)
			s.and(low, y, v)
			madd(u, v, acc0)
			VPSRLW(U8(8), x, x)
			VPSRLW(U8(8), y, y)
			madd(x, y, acc1)
		},
	}

	// dotI8 does the same for signed bytes: (-128)² twice is 2^15, so the
	// pair sum is exact in 32 bits.
	dotI8 = byteStep{
		signed:   true,
		product:  true,
		constant: func(set) vector { return nil },
		add: func(s set, _, x, y, acc0, acc1 vector) {
			u, v := s.vec(), s.vec()
			VPSLLW(U8(8), x, u)
			VPSLLW(U8(8), y, v)
			VPSRAW(U8(8), u, u)
			VPSRAW(U8(8), v, v)
			madd(u, v, acc0)
			VPSRAW(U8(8), x, x)
			VPSRAW(U8(8), y, y)
			madd(x, y, acc1)
		},
	}
)

// madd adds the pairwise products of 16-bit words to acc, clobbering x.
func madd(x, y, acc vector) {
	VPMADDWD(y, x, x)
	VPADDD(x, acc, acc)
}

// and is dst = x & y.
func (s set) and(x, y Op, dst vector) {
	if s.wide {
		VPANDD(x, y, dst)
		return
	}
	VPAND(x, y, dst)
}

// bytePair is an integer kernel of two byte vectors.
func bytePair(s set, name, doc string, step byteStep) {
	pointer, result := "*uint8", "uint32"
	if step.signed {
		pointer, result = "*int8", "int32"
	}
	begin(s, name, "(a, b "+pointer+", n int) "+result, doc+", modulo 2^32")
	a := Load(Param("a"), GP64()).(GPVirtual)
	b := Load(Param("b"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	c := step.constant(s)
	acc := accumulators(s)
	if !s.wide {
		CMPQ(n, U8(s.bytes))
		JLT(LabelRef("short"))
	}
	s.blocks(n, s.bytes, 2, func(k, j int) {
		x, y := s.vec(), s.vec()
		s.load(Mem{Base: a, Disp: s.bytes * j}, x)
		s.load(Mem{Base: b, Disp: s.bytes * j}, y)
		step.add(s, c, x, y, acc[2*k], acc[2*k+1])
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
		// Read the last 32 bytes again; those already counted become zero in
		// both, which adds nothing to a distance or a product.
		mask := YMM()
		p := GP64()
		LEAQ(byteMask, p)
		VMOVDQU(Mem{Base: p, Index: n, Scale: 1}, mask)
		VPAND(Mem{Base: a, Index: n, Scale: 1, Disp: -32}, mask, x)
		VPAND(Mem{Base: b, Index: n, Scale: 1, Disp: -32}, mask, y)
	}
	step.add(s, c, x, y, acc[0], acc[1])
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
	if step.signed {
		MOVBLSX(Mem{Base: a}, u)
		MOVBLSX(Mem{Base: b}, v)
	} else {
		MOVBLZX(Mem{Base: a}, u)
		MOVBLZX(Mem{Base: b}, v)
	}
	if step.product {
		IMULL(v, u)
	} else {
		SUBL(v, u)
		IMULL(u, u)
	}
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
