package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of a PackedQuery in bytes.
const (
	packedHead  = 0   // 16 words
	packedShift = 32  // uint64
	packedBias  = 40  // int32
	packedScale = 44  // float32
	packedLow   = 48  // 256 bytes
	packedHigh  = 304 // 256 bytes
)

// packed emits the scores of packed sketches of 64 bytes, four at a time like sketch.
// The products of the half-byte coordinates are at most 15·127, so that four of their
// pairwise sums fit 16 bits.
func packed(s set) {
	begin(s, "packedScores",
		"(q *byte, chunks **byte, shift uint64, ids *uint32, n int, out *float32)",
		"PackedScores")
	qp := Load(Param("q"), GP64()).(GPVirtual)
	chunks := Load(Param("chunks"), GP64()).(GPVirtual)
	shift := Load(Param("shift"), GP64()).(GPVirtual)
	ids := Load(Param("ids"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	mask := GP64()
	MOVQ(I32(-1), mask)
	SHLXQ(shift, mask, mask)
	NOTQ(mask)

	head := YMM()
	VMOVDQU(Mem{Base: qp, Disp: packedHead}, head)
	parts := 64 / s.bytes
	low, high := make([]VecVirtual, parts), make([]VecVirtual, parts)
	for i := range parts {
		low[i], high[i] = s.vec(), s.vec()
		s.load(Mem{Base: qp, Disp: packedLow + s.bytes*i}, low[i])
		s.load(Mem{Base: qp, Disp: packedHigh + s.bytes*i}, high[i])
	}
	nibble, ones := s.vec(), s.vec()
	s.load(lowNibbles, nibble)
	s.load(wordOnes, ones)
	count := XMM()
	VMOVQ(Mem{Base: qp, Disp: packedShift}, count)

	dot := func(p GPVirtual) Register {
		sum := s.vec()
		for i := range parts {
			x, y := s.vec(), s.vec()
			if i == 0 {
				x = sum
			}
			s.load(Mem{Base: p, Disp: s.bytes * i}, x)
			VPSRLW(U8(4), x, y)
			s.and(nibble, x, x)
			s.and(nibble, y, y)
			VPMADDUBSW(low[i], x, x)
			VPMADDUBSW(high[i], y, y)
			if i > 0 {
				VPADDW(x, sum, sum)
			}
			VPADDW(y, sum, sum)
		}
		VPMADDWD(ones, sum, sum)
		total := s.addHalves(sum, false)
		VPSLLD(count, total, total)
		h := YMM()
		VPMOVSXBW(Mem{Base: p}, h)
		VPMADDWD(head, h, h)
		VPADDD(h, total, total)
		return total
	}
	estimate := func(x, norms VecVirtual) { packedEstimate(qp, x, norms) }
	four := func(prefetched bool) {
		var y [4]Register
		var at [4]GPVirtual
		for i := range 4 {
			if prefetched {
				p := sketchAddress(ids, chunks, shift, mask, ahead+i, 6)
				// A chunk need not start on a cache line.
				PREFETCHT0(Mem{Base: p})
				PREFETCHT0(Mem{Base: p, Disp: 60})
			}
			at[i] = sketchAddress(ids, chunks, shift, mask, i, 6)
			y[i] = dot(at[i])
		}
		VPHADDD(y[1], y[0], y[0])
		VPHADDD(y[3], y[2], y[2])
		VPHADDD(y[2], y[0], y[0])
		x, h := XMM(), XMM()
		VEXTRACTI128(U8(1), y[0], h)
		VPADDD(h, y[0].(vector).AsX(), x)
		norms := XMM()
		VMOVSS(Mem{Base: at[0], Disp: 60}, norms)
		for i := 1; i < 4; i++ {
			VINSERTPS(U8(i<<4), Mem{Base: at[i], Disp: 60}, norms, norms)
		}
		estimate(x, norms)
		VMOVUPS(x, Mem{Base: out})
		ADDQ(U8(16), ids)
		ADDQ(U8(16), out)
		SUBQ(U8(4), n)
	}

	// The loop below prefetches ahead ids in advance: request the first ones here.
	left := GP64()
	MOVQ(U32(ahead), left)
	CMPQ(n, left)
	CMOVQLT(n, left)
	Label("first")
	SUBQ(U8(1), left)
	JLT(LabelRef("far"))
	{
		id, p := GP64(), GP64()
		MOVL(Mem{Base: ids, Index: left, Scale: 4}, id.As32())
		SHRXQ(shift, id, p)
		MOVQ(Mem{Base: chunks, Index: p, Scale: 8}, p)
		ANDQ(mask, id)
		SHLQ(U8(6), id)
		PREFETCHT0(Mem{Base: p, Index: id, Scale: 1})
		PREFETCHT0(Mem{Base: p, Index: id, Scale: 1, Disp: 60})
	}
	JMP(LabelRef("first"))
	byFours(n, four)
	p := sketchAddress(ids, chunks, shift, mask, 0, 6)
	y := dot(p)
	x, h := XMM(), XMM()
	VEXTRACTI128(U8(1), y, h)
	VPADDD(h, y.(vector).AsX(), x)
	VPHADDD(x, x, x)
	VPHADDD(x, x, x)
	norm := XMM()
	VMOVSS(Mem{Base: p, Disp: 60}, norm)
	estimate(x, norm)
	VMOVSS(x, Mem{Base: out})
	ADDQ(U8(4), ids)
	ADDQ(U8(4), out)
	DECQ(n)
	JMP(LabelRef("one"))
	Label("return")
	VZEROUPPER()
	RET()
}

// packedEstimate turns the sums x into estimates.
func packedEstimate(qp Register, x, norms VecVirtual) {
	bias := XMM()
	VPBROADCASTD(Mem{Base: qp, Disp: packedBias}, bias)
	VPADDD(bias, x, x)
	VCVTDQ2PS(x, x)
	VBROADCASTSS(Mem{Base: qp, Disp: packedScale}, bias)
	VMULPS(bias, x, x)
	VSUBPS(x, norms, x)
}

// packedLines emits the scores of packed sketches of several cache lines, one at a time: the
// lines of a sketch already are reads that overlap. It requests the sketch of the id that
// follows aheadLines later, or the last one again. A pass over a line adds four pairwise sums
// at most before they are widened, as in packed.
func packedLines(s set) {
	const aheadLines = 8
	begin(s, "packedLines",
		"(q *byte, lines int, chunks **byte, shift uint64, ids *uint32, n int, out *float32)",
		"PackedScores for sketches of several cache lines")
	qp := Load(Param("q"), GP64()).(GPVirtual)
	width := Load(Param("lines"), GP64()).(GPVirtual)
	SHLQ(U8(6), width)
	chunks := Load(Param("chunks"), GP64()).(GPVirtual)
	shift := Load(Param("shift"), GP64()).(GPVirtual)
	ids := Load(Param("ids"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	mask := GP64()
	MOVQ(I32(-1), mask)
	SHLXQ(shift, mask, mask)
	NOTQ(mask)
	head := YMM()
	VMOVDQU(Mem{Base: qp, Disp: packedHead}, head)
	nibble, ones := s.vec(), s.vec()
	s.load(lowNibbles, nibble)
	s.load(wordOnes, ones)
	count := XMM()
	VMOVQ(Mem{Base: qp, Disp: packedShift}, count)

	// address sets p to the sketch of ids[at].
	address := func(at, p GPVirtual) {
		id := GP64()
		MOVL(Mem{Base: ids, Index: at, Scale: 4}, id.As32())
		SHRXQ(shift, id, p)
		MOVQ(Mem{Base: chunks, Index: p, Scale: 8}, p)
		ANDQ(mask, id)
		IMULQ(width, id)
		ADDQ(id, p)
	}
	// request prefetches the sketch at p.
	request := func(name string, p GPVirtual) {
		off := GP64()
		XORQ(off, off)
		Label(name)
		PREFETCHT0(Mem{Base: p, Index: off, Scale: 1})
		ADDQ(U8(64), off)
		CMPQ(off, width)
		JLT(LabelRef(name))
		// A chunk need not start on a cache line.
		PREFETCHT0(Mem{Base: p, Index: width, Scale: 1, Disp: -1})
	}

	left, p := GP64(), GP64()
	MOVQ(U32(aheadLines), left)
	CMPQ(n, left)
	CMOVQLT(n, left)
	Label("first")
	SUBQ(U8(1), left)
	JLT(LabelRef("row"))
	address(left, p)
	request("firstlines", p)
	JMP(LabelRef("first"))

	Label("row")
	TESTQ(n, n)
	JZ(LabelRef("return"))
	at := GP64()
	MOVQ(U32(aheadLines), at)
	CMPQ(n, at)
	last := GP64()
	LEAQ(Mem{Base: n, Disp: -1}, last)
	CMOVQLE(last, at)
	address(at, p)
	request("lines", p)
	XORQ(at, at)
	address(at, p)
	sum := s.vec()
	VPXOR(sum.AsX(), sum.AsX(), sum.AsX())
	off := GP64()
	XORQ(off, off)
	Label("line")
	words := s.vec()
	for i := range 64 / s.bytes {
		x, y := s.vec(), s.vec()
		if i == 0 {
			x = words
		}
		s.load(Mem{Base: p, Index: off, Scale: 1, Disp: s.bytes * i}, x)
		VPSRLW(U8(4), x, y)
		s.and(nibble, x, x)
		s.and(nibble, y, y)
		// VPMADDUBSW takes the signed bytes as its first operand here.
		VPMADDUBSW(Mem{Base: qp, Index: off, Scale: 1, Disp: packedLow + s.bytes*i}, x, x)
		VPMADDUBSW(Mem{Base: qp, Index: off, Scale: 1, Disp: packedHigh + s.bytes*i}, y, y)
		if i > 0 {
			VPADDW(x, words, words)
		}
		VPADDW(y, words, words)
	}
	VPMADDWD(ones, words, words)
	VPADDD(words, sum, sum)
	ADDQ(U8(64), off)
	CMPQ(off, width)
	JLT(LabelRef("line"))
	total := s.addHalves(sum, false)
	VPSLLD(count, total, total)
	h := YMM()
	VPMOVSXBW(Mem{Base: p}, h)
	VPMADDWD(head, h, h)
	VPADDD(h, total, total)
	x, hx := XMM(), XMM()
	VEXTRACTI128(U8(1), total, hx)
	VPADDD(hx, total.(vector).AsX(), x)
	VPHADDD(x, x, x)
	VPHADDD(x, x, x)
	norm := XMM()
	VMOVSS(Mem{Base: p, Index: width, Scale: 1, Disp: -4}, norm)
	packedEstimate(qp, x, norm)
	VMOVSS(x, Mem{Base: out})
	ADDQ(U8(4), ids)
	ADDQ(U8(4), out)
	DECQ(n)
	JMP(LabelRef("row"))
	Label("return")
	VZEROUPPER()
	RET()
}
