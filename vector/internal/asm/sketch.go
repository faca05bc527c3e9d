package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ahead is the prefetch distance in ids: at about 5 ns per sketch it covers the
// latency of memory.
const ahead = 16

// sketch emits the scores of width-byte sketches: four at a time with prefetching
// while at least ahead more ids follow, then four without, then one. The query stays
// in registers.
func sketch(s set, width int) {
	begin(s, fmt.Sprintf("sketchScores%d", width),
		"(q *int16, scale float32, chunks **byte, shift uint64, ids *uint32, n int, out *float32)",
		fmt.Sprintf("SketchScores for sketches of %d bytes", width))
	qp := Load(Param("q"), GP64()).(GPVirtual)
	chunks := Load(Param("chunks"), GP64()).(GPVirtual)
	shift := Load(Param("shift"), GP64()).(GPVirtual)
	ids := Load(Param("ids"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	scale := XMM()
	Load(Param("scale"), scale)
	VBROADCASTSS(scale, scale)
	mask := GP64()
	MOVQ(I32(-1), mask)
	SHLXQ(shift, mask, mask)
	NOTQ(mask)

	step := s.bytes / 2 // sketch bytes per register of words
	q := make([]VecVirtual, width/step)
	for i := range q {
		q[i] = s.vec()
		s.load(Mem{Base: qp, Disp: s.bytes * i}, q[i])
	}

	log := 6
	if width == 128 {
		log = 7
	}
	address := func(i int) GPVirtual { return sketchAddress(ids, chunks, shift, mask, i, log) }
	// dot returns the product of the query and a sketch, eight partial sums.
	dot := func(p GPVirtual) VecVirtual {
		var sum VecVirtual
		for i := range q {
			w := s.vec()
			VPMOVSXBW(Mem{Base: p, Disp: step * i}, w)
			VPMADDWD(q[i], w, w)
			if i == 0 {
				sum = w
			} else {
				VPADDD(w, sum, sum)
			}
		}
		return sum
	}
	four := func(prefetched bool) {
		norms := XMM()
		var sums [4]VecVirtual
		for i := range 4 {
			if prefetched {
				p := address(ahead + i)
				// A chunk need not start on a cache line: sketches may straddle lines.
				for off := 0; off < width; off += 64 {
					PREFETCHT0(Mem{Base: p, Disp: off})
				}
				PREFETCHT0(Mem{Base: p, Disp: width - 4})
			}
			p := address(i)
			sums[i] = dot(p)
			norm := Mem{Base: p, Disp: width - 4}
			if i == 0 {
				VMOVSS(norm, norms)
			} else {
				VINSERTPS(U8(i<<4), norm, norms, norms)
			}
		}
		var y [4]Register
		for i, v := range sums {
			y[i] = s.addHalves(v, false)
		}
		VPHADDD(y[1], y[0], y[0])
		VPHADDD(y[3], y[2], y[2])
		VPHADDD(y[2], y[0], y[0])
		h := XMM()
		x := sums[0].AsX()
		VEXTRACTI128(U8(1), y[0], h)
		VPADDD(h, x, x)
		VCVTDQ2PS(x, x)
		VMULPS(scale, x, x)
		VSUBPS(x, norms, x)
		VMOVUPS(x, Mem{Base: out})
		ADDQ(U8(16), ids)
		ADDQ(U8(16), out)
		SUBQ(U8(4), n)
	}

	byFours(n, four)
	p := address(0)
	sum := s.sumInt(dot(p))
	x, norm := XMM(), XMM()
	VXORPS(x, x, x)
	VCVTSI2SSL(sum, x, x)
	VMULSS(scale, x, x)
	VMOVSS(Mem{Base: p, Disp: width - 4}, norm)
	VSUBSS(x, norm, x)
	VMOVSS(x, Mem{Base: out})
	ADDQ(U8(4), ids)
	ADDQ(U8(4), out)
	DECQ(n)
	JMP(LabelRef("one"))
	Label("return")
	VZEROUPPER()
	RET()
}

// sketchAddress returns a register that points at the sketch of ids[i], 1<<log
// bytes wide.
func sketchAddress(ids, chunks, shift, mask GPVirtual, i, log int) GPVirtual {
	id, p := GP64(), GP64()
	MOVL(Mem{Base: ids, Disp: 4 * i}, id.As32())
	SHRXQ(shift, id, p)
	MOVQ(Mem{Base: chunks, Index: p, Scale: 8}, p)
	ANDQ(mask, id)
	SHLQ(U8(log), id)
	ADDQ(id, p)
	return p
}

// byFours emits the loop over n ids: four handles four of them, and prefetches while more follow. The
// ids left over are for the code after it, which jumps to "one" after each.
func byFours(n Register, four func(prefetched bool)) {
	Label("far")
	CMPQ(n, U8(ahead+4))
	JLT(LabelRef("near"))
	four(true)
	JMP(LabelRef("far"))
	Label("near")
	CMPQ(n, U8(4))
	JLT(LabelRef("one"))
	four(false)
	JMP(LabelRef("near"))
	Label("one")
	TESTQ(n, n)
	JZ(LabelRef("return"))
}
