package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// shapes lists the register blocks of a set: the large one fills the register
// file with accumulators, the others serve matrix-vector products and edges.
func (s set) shapes() [][2]int {
	if s.wide {
		return [][2]int{{6, 4}, {1, 8}, {1, 4}, {1, 1}}
	}
	return [][2]int{{4, 3}, {1, 8}, {1, 4}, {1, 1}}
}

// tile emits the products of rows vectors at a with blocks·cols vectors at b. Every
// product has one accumulator and the same order of summation in all shapes, so that
// a result does not depend on its position in the tile.
// Registers are fixed: accumulators first, then the columns, then one row.
func tile(s set, rows, cols int) {
	begin(s, tileName(rows, cols), "(a, b *float32, dim int, out *float32, stride, blocks int)",
		fmt.Sprintf("the %d by %d·blocks dot products of vectors of dim floats,\n"+
			"stored in rows that lie stride floats apart", rows, cols))
	a := Load(Param("a"), GP64()).(GPVirtual)
	block := Load(Param("b"), GP64()).(GPVirtual)
	dim := Load(Param("dim"), GP64()).(GPVirtual)
	out := Load(Param("out"), GP64()).(GPVirtual)
	stride := Load(Param("stride"), GP64()).(GPVirtual)
	blocks := Load(Param("blocks"), GP64()).(GPVirtual)
	SHLQ(U8(2), stride)
	size := GP64()
	MOVQ(dim, size)
	SHLQ(U8(2), size)
	at := vectors(size, max(rows, cols))

	acc := func(i, j int) VecPhysical { return s.phys(i*cols + j) }
	col := func(j int) VecPhysical { return s.phys(rows*cols + j) }
	row := s.phys(rows*cols + cols)
	if rows == 1 {
		// The only row is loaded once; columns are memory operands.
		row = s.phys(cols)
		col = func(int) VecPhysical { return s.phys(cols + 1) }
	}

	Label("block")
	TESTQ(blocks, blocks)
	JZ(LabelRef("return"))
	for i := range rows * cols {
		s.zero(s.phys(i))
	}
	pa, pb, n := GP64(), GP64(), GP64()
	MOVQ(a, pa)
	MOVQ(block, pb)
	MOVQ(dim, n)

	Label("step")
	CMPQ(n, U8(s.lanes()))
	JLT(LabelRef("tail"))
	if rows == 1 {
		s.load(at(pa, 0), row)
		for j := range cols {
			VFMADD231PS(at(pb, j), row, acc(0, j))
		}
	} else {
		for j := range cols {
			s.load(at(pb, j), col(j))
		}
		for i := range rows {
			s.load(at(pa, i), row)
			for j := range cols {
				VFMADD231PS(col(j), row, acc(i, j))
			}
		}
	}
	ADDQ(U8(s.bytes), pa)
	ADDQ(U8(s.bytes), pb)
	SUBQ(U8(s.lanes()), n)
	JMP(LabelRef("step"))

	Label("tail")
	TESTQ(n, n)
	JZ(LabelRef("sum"))
	k, m := s.lead(n)
	masked := func(from Mem, to VecPhysical) {
		if s.wide {
			VMOVUPS_Z(from, k, to)
			return
		}
		VMOVDQU(m, to) // no register is free for the mask, so to holds it first
		VMASKMOVPS(from, to, to)
	}
	if rows == 1 {
		masked(at(pa, 0), row)
		for j := range cols {
			masked(at(pb, j), col(j))
			VFMADD231PS(col(j), row, acc(0, j))
		}
	} else {
		for j := range cols {
			masked(at(pb, j), col(j))
		}
		for i := range rows {
			masked(at(pa, i), row)
			for j := range cols {
				VFMADD231PS(col(j), row, acc(i, j))
			}
		}
	}

	Label("sum")
	to := GP64()
	MOVQ(out, to)
	for i := range rows {
		narrow := make([]Register, cols)
		for j := range cols {
			narrow[j] = s.narrow(acc(i, j), j, rows*cols+cols+1)
		}
		storeSums(narrow, to)
		if i < rows-1 {
			ADDQ(stride, to)
		}
	}
	ADDQ(U8(4*cols), out)
	for range cols {
		ADDQ(size, block)
	}
	DECQ(blocks)
	JMP(LabelRef("block"))

	Label("return")
	VZEROUPPER()
	RET()
}

// vectors returns a function for the address of vector i, p+i·size, for up to eight
// vectors.
func vectors(size GPVirtual, n int) func(p GPVirtual, i int) Mem {
	times := map[int]GPVirtual{1: size}
	for _, f := range []int{3, 5, 7} {
		if f < n {
			times[f] = GP64()
			IMUL3Q(U8(f), size, times[f])
		}
	}
	return func(p GPVirtual, i int) Mem {
		switch i {
		case 0:
			return Mem{Base: p}
		case 2, 4:
			return Mem{Base: p, Index: size, Scale: uint8(i)}
		case 6:
			return Mem{Base: p, Index: times[3], Scale: 2}
		}
		return Mem{Base: p, Index: times[i], Scale: 1}
	}
}

// narrow adds the halves of an AVX-512 accumulator into low register j, which
// horizontal adds can encode. It returns AVX2 accumulators unchanged.
func (s set) narrow(v VecPhysical, j, scratch int) Register {
	if !s.wide {
		return v.AsY()
	}
	h := s.phys(scratch).AsY()
	to := s.phys(j).AsY()
	VEXTRACTF64X4(U8(1), v, h)
	VADDPS(h, v.AsY(), to)
	return to
}

// storeSums adds up each register (pairs, pairs of pairs, halves) and stores the 1,
// 3, 4 or 8 sums.
func storeSums(v []Register, to GPVirtual) {
	pair := func(i int) Register {
		j := min(i+1, len(v)-1)
		VHADDPS(v[j], v[i], v[i])
		return v[i]
	}
	quad := func(i int) Register {
		p := pair(i)
		q := p
		if i+2 < len(v) {
			q = pair(i + 2)
		}
		VHADDPS(q, p, p)
		return p
	}
	low := quad(0)
	if len(v) == 8 {
		high := quad(4)
		VPERM2F128(U8(0x31), high, low, v[1])
		VPERM2F128(U8(0x20), high, low, low)
		VADDPS(v[1], low, low)
		VMOVUPS(low, Mem{Base: to})
		return
	}
	x := low.(VecPhysical).AsX()
	var h Register
	if len(v) > 1 {
		h = v[1].(VecPhysical).AsX()
	} else {
		h = X1
	}
	VEXTRACTF128(U8(1), low, h)
	VADDPS(h, x, x)
	switch len(v) {
	case 1:
		VMOVSS(x, Mem{Base: to})
	case 3:
		VMOVLPS(x, Mem{Base: to})
		VEXTRACTPS(U8(2), x, Mem{Base: to, Disp: 8})
	case 4:
		VMOVUPS(x, Mem{Base: to})
	}
}
