// Command asm writes the amd64 kernels of package postings. Run it by
//
//	go generate ./postings
//
// All are for AVX2, addBits also for AVX-512. Each has its reference, with the same result bit for bit,
// in generic.go of the package.
package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	ConstraintExpr("amd64,!purego")
	scatterCodes()
	addBits()
	addBitsWide()
	addUnit()
	scaleCells()
	matchEntries()
	atLeast16()
	countAtLeast16()
	Generate()
}

// begin starts a kernel and documents its stub.
func begin(name, signature, doc string) {
	TEXT(name+"AVX2", NOSPLIT, "func"+signature)
	Doc(name+"AVX2 is "+doc, "")
	Pragma("noescape")
}

func load(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// loop runs body(unroll) while at least unroll elements are left in n, then
// body(1) for the rest; body advances its pointers itself.
func loop(name string, n GPVirtual, unroll int, body func(count int)) {
	Label(name)
	CMPQ(n, I32(int32(unroll)))
	JLT(LabelRef(name + "One"))
	body(unroll)
	SUBQ(I32(int32(unroll)), n)
	JMP(LabelRef(name))
	Label(name + "One")
	TESTQ(n, n)
	JZ(LabelRef(name + "Done"))
	body(1)
	DECQ(n)
	JMP(LabelRef(name + "One"))
	Label(name + "Done")
}
