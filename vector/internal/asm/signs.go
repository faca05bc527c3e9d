package main

import (
	"fmt"
	"math/bits"

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

// rotateSigns emits the Hadamard transform of n floats, a power of two, after changing the signs of those
// whose bits are set. It processes as many registers together as a register has lanes, in a single pass
// over the memory, and then two steps in each pass.
func rotateSigns(s set) {
	lanes := s.lanes()
	begin(s, "rotateSigns", "(x *float32, signs *uint64, n int)",
		fmt.Sprintf("RotateSigns, n a power of two of at least %d", lanes*lanes))
	k := &hadamard{set: s, x: Load(Param("x"), GP64()).(GPVirtual), end: GP64(), limit: GP64(), h: GP64()}
	signs := Load(Param("signs"), GP64()).(GPVirtual)
	n := Load(Param("n"), GP64()).(GPVirtual)
	MOVQ(n, k.limit)
	SHLQ(U8(2), k.limit)
	LEAQ(Mem{Base: k.x, Index: k.limit, Scale: 1}, k.end)
	k.first(signs)
	MOVQ(U32(lanes*s.bytes), k.h)
	Label("step")
	CMPQ(k.h, k.limit)
	JGE(LabelRef("return"))
	k.pairs()
	k.fours()
	SHLQ(U8(2), k.h)
	JMP(LabelRef("step"))
	Label("return")
	VZEROUPPER()
	RET()
}

// hadamard are the operands of the kernel rotateSigns: h is the distance of the elements of a pair in bytes,
// limit the length of x.
type hadamard struct {
	set
	x, end, h, limit GPVirtual
}

// first changes signs and emits the steps between the lanes of a register and between registers that are
// processed together.
func (k *hadamard) first(signs GPVirtual) {
	steps := bits.TrailingZeros(uint(k.lanes()))
	flip := make([]VecVirtual, steps)
	for i := range flip {
		flip[i] = k.vec()
		k.load(hadamardSigns.Offset(64*i), flip[i])
	}
	top, lane := k.vec(), YMM()
	if k.wide {
		VPTERNLOGD(U8(0xff), top, top, top)
		VPSLLD(U8(31), top, top)
	} else {
		VMOVDQU(laneBits, lane)
	}
	p := GP64()
	MOVQ(k.x, p)
	Label("block")
	a := make([]VecVirtual, k.lanes())
	for i := range a {
		a[i] = k.vec()
		at := Mem{Base: p, Disp: k.bytes * i}
		if k.wide {
			KMOVW(Mem{Base: signs, Disp: 2 * i}, K1)
			k.load(at, a[i])
			VXORPS(top, a[i], K1, a[i])
		} else {
			VPBROADCASTB(Mem{Base: signs, Disp: i}, a[i])
			VPAND(lane, a[i], a[i])
			VPCMPEQD(lane, a[i], a[i])
			VPSLLD(U8(31), a[i], a[i])
			VXORPS(at, a[i], a[i])
		}
		for step := range flip {
			k.withinRegister(a[i], flip[step], step)
		}
	}
	k.between(a)
	for i := range a {
		VMOVUPS(a[i], Mem{Base: p, Disp: k.bytes * i})
	}
	ADDQ(U32(k.bytes*len(a)), p)
	ADDQ(U8(k.bytes*len(a)/32), signs)
	CMPQ(p, k.end)
	JLT(LabelRef("block"))
}

// between emits the steps between registers.
func (k *hadamard) between(a []VecVirtual) {
	for h := 1; h < len(a); h *= 2 {
		for i := range a {
			if j := i + h; i&h == 0 {
				sum := k.vec()
				VADDPS(a[j], a[i], sum)
				VSUBPS(a[j], a[i], a[j])
				a[i] = sum
			}
		}
	}
}

// pairs emits the last step and returns, if there is only one.
func (k *hadamard) pairs() {
	p, h2 := GP64(), GP64()
	LEAQ(Mem{Base: k.h, Index: k.h, Scale: 1}, h2)
	CMPQ(h2, k.limit)
	JLT(LabelRef("two"))
	MOVQ(k.x, p)
	Label("pair")
	k.group(p, []Mem{{Base: p}, {Base: p, Index: k.h, Scale: 1}})
	LEAQ(Mem{Base: p, Index: k.h, Scale: 1}, h2)
	CMPQ(h2, k.end)
	JLT(LabelRef("pair"))
	JMP(LabelRef("return"))
	Label("two")
}

// fours emits two steps.
func (k *hadamard) fours() {
	p, stop, h3 := GP64(), GP64(), GP64()
	LEAQ(Mem{Base: k.h, Index: k.h, Scale: 2}, h3)
	MOVQ(k.x, p)
	Label("run")
	LEAQ(Mem{Base: p, Index: k.h, Scale: 1}, stop)
	Label("four")
	k.group(p, []Mem{
		{Base: p}, {Base: p, Index: k.h, Scale: 1}, {Base: p, Index: k.h, Scale: 2}, {Base: p, Index: h3, Scale: 1},
	})
	CMPQ(p, stop)
	JLT(LabelRef("four"))
	ADDQ(h3, p)
	CMPQ(p, k.end)
	JLT(LabelRef("run"))
}

// group transforms registers in memory and advances p by a register.
func (k *hadamard) group(p GPVirtual, at []Mem) {
	a := make([]VecVirtual, len(at))
	for i := range a {
		a[i] = k.vec()
		VMOVUPS(at[i], a[i])
	}
	k.between(a)
	for i := range a {
		VMOVUPS(a[i], at[i])
	}
	ADDQ(U8(k.bytes), p)
}

// withinRegister emits a step between the lanes of a that are 1<<step apart: a, negated in the second lane of
// each pair, is added to a with the lanes exchanged. The products with ±1 are exact.
func (k *hadamard) withinRegister(a, flip VecVirtual, step int) {
	other := k.vec()
	switch {
	case step == 0:
		VPERMILPS(U8(0xb1), a, other)
	case step == 1:
		VPERMILPS(U8(0x4e), a, other)
	case !k.wide:
		VPERM2F128(U8(0x01), a, a, other)
	case step == 2:
		VSHUFF32X4(U8(0xb1), a, a, other)
	default:
		VSHUFF32X4(U8(0x4e), a, a, other)
	}
	VFMADD213PS(other, flip, a)
}
