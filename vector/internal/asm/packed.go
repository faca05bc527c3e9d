package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of a PackedQuery in bytes.
const (
	packedHead  = 0   // 16 words
	packedLow   = 32  // 64 bytes
	packedHigh  = 96  // 64 bytes
	packedShift = 160 // uint64
	packedBias  = 168 // int32
	packedScale = 172 // float32
)

// packedOps are the operands of the kernel of packed sketches.
type packedOps struct {
	set
	q, chunks, shift, ids, n, out GPVirtual
	mask                          GPVirtual // of a row's number in its chunk
	head, count                   Register  // multipliers of the head; shift of the tail
	nibble, ones                  VecVirtual
	low, high                     []VecVirtual // multipliers of the halves
}

// loadPacked loads the parameters, the constants and the query.
func loadPacked(s set) *packedOps {
	load := func(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }
	k := &packedOps{
		set: s, q: load("q"), chunks: load("chunks"), shift: load("shift"), ids: load("ids"), n: load("n"),
		out: load("out"), mask: GP64(), head: YMM(), count: XMM(), nibble: s.vec(), ones: s.vec(),
	}
	MOVQ(I32(-1), k.mask)
	SHLXQ(k.shift, k.mask, k.mask)
	NOTQ(k.mask)
	VMOVDQU(Mem{Base: k.q, Disp: packedHead}, k.head)
	s.load(lowNibbles, k.nibble)
	s.load(wordOnes, k.ones)
	VMOVQ(Mem{Base: k.q, Disp: packedShift}, k.count)
	for i := range 64 / s.bytes {
		k.low, k.high = append(k.low, s.vec()), append(k.high, s.vec())
		s.load(Mem{Base: k.q, Disp: packedLow + s.bytes*i}, k.low[i])
		s.load(Mem{Base: k.q, Disp: packedHigh + s.bytes*i}, k.high[i])
	}
	return k
}

// dot returns eight partial sums of the products of the sketch at p: those of its halves, shifted, and of its
// head. The products of halves are at most 15·127, so that four of their pairwise sums fit 16 bits.
func (k *packedOps) dot(p GPVirtual) Register {
	sum := k.vec()
	for i := range k.low {
		x, y := k.vec(), k.vec()
		if i == 0 {
			x = sum
		}
		k.load(Mem{Base: p, Disp: k.bytes * i}, x)
		VPSRLW(U8(4), x, y)
		k.and(k.nibble, x, x)
		k.and(k.nibble, y, y)
		VPMADDUBSW(k.low[i], x, x)
		VPMADDUBSW(k.high[i], y, y)
		if i > 0 {
			VPADDW(x, sum, sum)
		}
		VPADDW(y, sum, sum)
	}
	VPMADDWD(k.ones, sum, sum)
	total := k.addHalves(sum, false)
	VPSLLD(k.count, total, total)
	h := YMM()
	VPMOVSXBW(Mem{Base: p}, h)
	VPMADDWD(k.head, h, h)
	VPADDD(h, total, total)
	return total
}

// one writes the score of the sketch at p, and advances by an id.
func (k *packedOps) one(p GPVirtual) {
	y := k.dot(p)
	x, h := XMM(), XMM()
	VEXTRACTI128(U8(1), y, h)
	VPADDD(h, y.(vector).AsX(), x)
	VPHADDD(x, x, x)
	VPHADDD(x, x, x)
	stored := XMM()
	VMOVSS(Mem{Base: p, Disp: 60}, stored)
	k.estimate(x, stored)
	VMOVSS(x, Mem{Base: k.out})
	ADDQ(U8(4), k.ids)
	ADDQ(U8(4), k.out)
	DECQ(k.n)
}

// estimate turns the sums x into estimates.
func (k *packedOps) estimate(x, norms VecVirtual) {
	bias := XMM()
	VPBROADCASTD(Mem{Base: k.q, Disp: packedBias}, bias)
	VPADDD(bias, x, x)
	VCVTDQ2PS(x, x)
	VBROADCASTSS(Mem{Base: k.q, Disp: packedScale}, bias)
	VMULPS(bias, x, x)
	VSUBPS(x, norms, x)
}

// packed emits the scores of packed sketches of 64 bytes, four at a time like sketch, with the query in
// registers.
func packed(s set) {
	begin(s, "packedScores",
		"(q *byte, chunks **byte, shift uint64, ids *uint32, n int, out *float32)",
		"PackedScores")
	k := loadPacked(s)
	address := func(i int) GPVirtual { return sketchAddress(k.ids, k.chunks, k.shift, k.mask, i, 6) }
	four := func(prefetched bool) {
		var y [4]Register
		var at [4]GPVirtual
		for i := range 4 {
			if prefetched {
				p := address(ahead + i)
				// A chunk need not start on a cache line.
				PREFETCHT0(Mem{Base: p})
				PREFETCHT0(Mem{Base: p, Disp: 60})
			}
			at[i] = address(i)
			y[i] = k.dot(at[i])
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
		k.estimate(x, norms)
		VMOVUPS(x, Mem{Base: k.out})
		ADDQ(U8(16), k.ids)
		ADDQ(U8(16), k.out)
		SUBQ(U8(4), k.n)
	}

	// The loop below prefetches ahead ids in advance: request the first ones here.
	left := GP64()
	MOVQ(U32(ahead), left)
	CMPQ(k.n, left)
	CMOVQLT(k.n, left)
	Label("first")
	SUBQ(U8(1), left)
	JLT(LabelRef("far"))
	{
		id, p := GP64(), GP64()
		MOVL(Mem{Base: k.ids, Index: left, Scale: 4}, id.As32())
		SHRXQ(k.shift, id, p)
		MOVQ(Mem{Base: k.chunks, Index: p, Scale: 8}, p)
		ANDQ(k.mask, id)
		SHLQ(U8(6), id)
		PREFETCHT0(Mem{Base: p, Index: id, Scale: 1})
		PREFETCHT0(Mem{Base: p, Index: id, Scale: 1, Disp: 60})
	}
	JMP(LabelRef("first"))
	byFours(k.n, four)
	k.one(address(0))
	JMP(LabelRef("one"))
	Label("return")
	VZEROUPPER()
	RET()
}
