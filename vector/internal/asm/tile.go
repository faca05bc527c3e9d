package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// shapes are the register blocks: the large one fills the register file with accumulators, the others serve
// matrix-vector products and edges.
var shapes = [][2]int{{4, 3}, {1, 8}, {1, 4}, {1, 1}}

// ymm are the registers by number.
var ymm = [...]VecPhysical{Y0, Y1, Y2, Y3, Y4, Y5, Y6, Y7, Y8, Y9, Y10, Y11, Y12, Y13, Y14, Y15}

// tile emits the products of rows vectors at a with blocks·cols vectors at b. Every
// product has one accumulator and the same order of summation in all shapes, so that
// a result does not depend on its position in the tile.
// Registers are fixed: accumulators first, then the columns, then one row.
func tile(rows, cols int) {
	begin(tileName(rows, cols), "(a, b *float32, dim int, out *float32, stride, blocks int)",
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

	acc := func(i, j int) VecPhysical { return ymm[i*cols+j] }
	col := func(j int) VecPhysical { return ymm[rows*cols+j] }
	last := rows*cols + cols
	if rows == 1 {
		// The only row is loaded once; columns are memory operands.
		last = cols
		col = func(int) VecPhysical { return ymm[cols+1] }
	}
	row := ymm[last]

	Label("block")
	TESTQ(blocks, blocks)
	JZ(LabelRef("return"))
	for i := range rows * cols {
		zero(ymm[i])
	}
	pa, pb, n := GP64(), GP64(), GP64()
	MOVQ(a, pa)
	MOVQ(block, pb)
	MOVQ(dim, n)

	Label("step")
	CMPQ(n, U8(lanes))
	JLT(LabelRef("tail"))
	if rows == 1 {
		VMOVDQU(at(pa, 0), row)
		for j := range cols {
			VFMADD231PS(at(pb, j), row, acc(0, j))
		}
	} else {
		for j := range cols {
			VMOVDQU(at(pb, j), col(j))
		}
		for i := range rows {
			VMOVDQU(at(pa, i), row)
			for j := range cols {
				VFMADD231PS(col(j), row, acc(i, j))
			}
		}
	}
	ADDQ(U8(width), pa)
	ADDQ(U8(width), pb)
	SUBQ(U8(lanes), n)
	JMP(LabelRef("step"))

	Label("tail")
	TESTQ(n, n)
	JZ(LabelRef("sum"))
	mask := lead(n)
	masked := func(from Mem, to VecPhysical) {
		VMOVDQU(mask, to) // no register is free for the mask, so to holds it first
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
		storeSums(ymm[i*cols:(i+1)*cols], to)
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

// storeSums adds up each register (pairs, pairs of pairs, halves) and stores the 1,
// 3, 4 or 8 sums.
func storeSums(v []VecPhysical, to GPVirtual) {
	pair := func(i int) VecPhysical {
		j := min(i+1, len(v)-1)
		VHADDPS(v[j], v[i], v[i])
		return v[i]
	}
	quad := func(i int) VecPhysical {
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
	x := low.AsX()
	var h Register
	if len(v) > 1 {
		h = v[1].AsX()
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
