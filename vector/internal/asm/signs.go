package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The offsets of the fields of a SignQuery in bytes.
const (
	signTotal       = 0 // int32
	signScale       = 4 // float32
	signMultipliers = 8 // 2,048 bytes
)

// signOps are the operands of the kernel of sign sketches.
type signOps struct {
	set
	q, width, chunks, shift, ids, n, out GPVirtual
	bytes, spread, bit                   VecVirtual
}

// signs emits the scores of sign sketches, four at a time, at least four.
func signs(s set) {
	const aheadRows = 8
	begin(s, "signScores",
		"(q *byte, width uint64, chunks **byte, shift uint64, ids *uint32, n int, out *float32)",
		"SignScores for at least four rows")
	load := func(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }
	k := &signOps{
		set: s, q: load("q"), width: load("width"), chunks: load("chunks"), shift: load("shift"),
		ids: load("ids"), n: load("n"), out: load("out"), bytes: s.vec(), spread: s.vec(), bit: s.vec(),
	}
	s.load(byteOnes, k.bytes)
	if !s.wide {
		s.load(bitSpread, k.spread)
		s.load(bitSelect, k.bit)
	}
	left := GP64()
	MOVQ(U32(aheadRows), left)
	CMPQ(k.n, left)
	CMOVQLT(k.n, left)
	Label("first")
	SUBQ(U8(1), left)
	JLT(LabelRef("four"))
	k.request("firstlines", k.address(Mem{Base: k.ids, Index: left, Scale: 4}))
	JMP(LabelRef("first"))

	Label("four")
	CMPQ(k.n, U8(aheadRows+4))
	JLT(LabelRef("near"))
	for i, lines := range []string{"lines0", "lines1", "lines2", "lines3"} {
		k.request(lines, k.address(Mem{Base: k.ids, Disp: 4 * (aheadRows + i)}))
	}
	Label("near")
	var rows [4]GPVirtual
	for i := range rows {
		rows[i] = k.address(Mem{Base: k.ids, Disp: 4 * i})
	}
	k.estimates(k.sums(rows), rows)

	// The last four may have been among those before.
	SUBQ(U8(4), k.n)
	JZ(LabelRef("return"))
	step := GP64()
	MOVQ(U32(4), step)
	CMPQ(k.n, step)
	CMOVQLT(k.n, step)
	LEAQ(Mem{Base: k.ids, Index: step, Scale: 4}, k.ids)
	LEAQ(Mem{Base: k.out, Index: step, Scale: 4}, k.out)
	MOVQ(U32(4), step)
	CMPQ(k.n, step)
	CMOVQLT(step, k.n)
	JMP(LabelRef("four"))
	Label("return")
	VZEROUPPER()
	RET()
}

// address returns a register that points at the sketch of the id at the given place.
func (k *signOps) address(at Mem) GPVirtual {
	id, p, in := GP64(), GP64(), GP64()
	MOVL(at, id.As32())
	SHRXQ(k.shift, id, p)
	MOVQ(Mem{Base: k.chunks, Index: p, Scale: 8}, p)
	BZHIQ(k.shift, id, in)
	IMULQ(k.width, in)
	ADDQ(in, p)
	return p
}

// request prefetches the sketch at p.
func (k *signOps) request(name string, p GPVirtual) {
	off := GP64()
	XORQ(off, off)
	Label(name)
	PREFETCHT0(Mem{Base: p, Index: off, Scale: 1})
	ADDQ(U8(64), off)
	CMPQ(off, k.width)
	JLT(LabelRef(name))
	// A chunk need not start on a cache line.
	PREFETCHT0(Mem{Base: p, Index: k.width, Scale: 1, Disp: -1})
}

// sums adds the multipliers whose bits are set in four rows: those of four registers in bytes, at most 4·31,
// then pairs of those in 16 bits. The factor and norm are read as a word of bits, too, whose multipliers
// are zero.
func (k *signOps) sums(rows [4]GPVirtual) (sum [4]VecVirtual) {
	var group [4]VecVirtual
	for i := range rows {
		sum[i], group[i] = k.vec(), k.vec()
		VPXOR(sum[i].AsX(), sum[i].AsX(), sum[i].AsX())
	}
	flush := func() {
		for i := range rows {
			VPMADDUBSW(group[i], k.bytes, group[i])
			VPADDW(group[i], sum[i], sum[i])
		}
	}
	off := GP64()
	XORQ(off, off)
	Label("group")
	for word := range 4 {
		by := Mem{Base: k.q, Index: off, Scale: 8, Disp: signMultipliers + 64*word}
		if k.wide {
			x := k.vec()
			k.load(by, x)
			for i, mask := range []Register{K1, K2, K3, K4} {
				KMOVQ(Mem{Base: rows[i], Index: off, Scale: 1, Disp: 8 * word}, mask)
				if word == 0 {
					VMOVDQU8_Z(x, mask, group[i])
				} else {
					VPADDB(x, group[i], mask, group[i])
				}
			}
			continue
		}
		for half := range 2 {
			for i := range rows {
				x := k.vec()
				if word%2+half == 0 {
					x = group[i]
				}
				VPBROADCASTD(Mem{Base: rows[i], Index: off, Scale: 1, Disp: 8*word + 4*half}, x)
				VPSHUFB(k.spread, x, x)
				VPAND(k.bit, x, x)
				VPCMPEQB(k.bit, x, x)
				VPAND(by, x, x)
				if word%2+half > 0 {
					VPADDB(x, group[i], group[i])
				}
			}
			by.Disp += 32
		}
		if word == 1 {
			flush()
		}
	}
	flush()
	ADDQ(U8(32), off)
	CMPQ(off, k.width)
	JLT(LabelRef("group"))
	return sum
}

// estimates turns the sums of four rows into estimates and writes them.
func (k *signOps) estimates(sum [4]VecVirtual, rows [4]GPVirtual) {
	var y [4]Register
	words := k.vec()
	k.load(wordOnes, words)
	for i := range y {
		VPMADDWD(words, sum[i], sum[i])
		y[i] = k.addHalves(sum[i], false)
	}
	VPHADDD(y[1], y[0], y[0])
	VPHADDD(y[3], y[2], y[2])
	VPHADDD(y[2], y[0], y[0])
	x, h, norms := y[0].(vector).AsX(), XMM(), XMM()
	VEXTRACTI128(U8(1), y[0], h)
	VPADDD(h, x, x)
	VPADDD(x, x, x)
	VPBROADCASTD(Mem{Base: k.q, Disp: signTotal}, h)
	VPSUBD(h, x, x)
	VCVTDQ2PS(x, x)
	VBROADCASTSS(Mem{Base: k.q, Disp: signScale}, h)
	VMULPS(h, x, x)
	for j, to := range []VecVirtual{h, norms} {
		at := func(i int) Mem { return Mem{Base: rows[i], Index: k.width, Scale: 1, Disp: 4*j - 8} }
		VMOVSS(at(0), to)
		for i := 1; i < 4; i++ {
			VINSERTPS(U8(i<<4), at(i), to, to)
		}
	}
	VMULPS(h, x, x)
	VSUBPS(x, norms, x)
	VMOVUPS(x, Mem{Base: k.out})
}

// rotateSigns emits the Hadamard transform of n floats, a power of two of at least 8, after changing the
// signs of those whose bits are set.
func rotateSigns() {
	s := set{name: "AVX2", bytes: 32}
	begin(s, "rotateSigns", "(x *float32, signs *uint64, n int)",
		"RotateSigns, n a power of two of at least 8")
	x, n := Load(Param("x"), GP64()).(GPVirtual), Load(Param("n"), GP64()).(GPVirtual)
	signs := Load(Param("signs"), GP64()).(GPVirtual)
	end := GP64()
	LEAQ(Mem{Base: x, Index: n, Scale: 4}, end)
	var flip [3]VecVirtual
	for i := range flip {
		flip[i] = YMM()
		VMOVUPS(hadamardSigns.Offset(32*i), flip[i])
	}
	p := GP64()
	MOVQ(x, p)
	lane := YMM()
	VMOVDQU(laneBits, lane)
	Label("eight")
	a, negative := YMM(), YMM()
	VPBROADCASTB(Mem{Base: signs}, negative)
	VPAND(lane, negative, negative)
	VPCMPEQD(lane, negative, negative)
	VPSLLD(U8(31), negative, negative)
	VXORPS(Mem{Base: p}, negative, a)
	withinRegister(a, flip)
	VMOVUPS(a, Mem{Base: p})
	ADDQ(U8(32), p)
	ADDQ(U8(1), signs)
	CMPQ(p, end)
	JLT(LabelRef("eight"))

	// h is the distance of the elements of a pair, and the length of a run of pairs, in bytes.
	h, other, stop, limit := GP64(), GP64(), GP64(), GP64()
	MOVQ(U32(32), h)
	MOVQ(n, limit)
	SHLQ(U8(2), limit)
	Label("step")
	CMPQ(h, limit)
	JGE(LabelRef("return"))
	MOVQ(x, p)
	Label("run")
	LEAQ(Mem{Base: p, Index: h, Scale: 1}, other)
	MOVQ(other, stop)
	Label("pair")
	low, high, sum := YMM(), YMM(), YMM()
	VMOVUPS(Mem{Base: p}, low)
	VMOVUPS(Mem{Base: other}, high)
	VADDPS(high, low, sum)
	VSUBPS(high, low, low)
	VMOVUPS(sum, Mem{Base: p})
	VMOVUPS(low, Mem{Base: other})
	ADDQ(U8(32), p)
	ADDQ(U8(32), other)
	CMPQ(p, stop)
	JLT(LabelRef("pair"))
	MOVQ(other, p)
	CMPQ(p, end)
	JLT(LabelRef("run"))
	ADDQ(h, h)
	JMP(LabelRef("step"))
	Label("return")
	VZEROUPPER()
	RET()
}

// withinRegister emits the steps of a Hadamard transform between the lanes of a: a sum and a difference are
// both a half of each pair twice, the second time with the sign changed in half of the lanes.
func withinRegister(a VecVirtual, flip [3]VecVirtual) {
	for step := range flip {
		low, high := YMM(), YMM()
		switch step {
		case 0:
			VMOVSLDUP(a, low)
			VMOVSHDUP(a, high)
		case 1:
			VPERMILPS(U8(0x44), a, low)
			VPERMILPS(U8(0xee), a, high)
		case 2:
			VPERM2F128(U8(0x00), a, a, low)
			VPERM2F128(U8(0x11), a, a, high)
		}
		VXORPS(flip[step], high, high)
		VADDPS(high, low, a)
	}
}
