// Command asm writes the amd64 kernels of package vector. Run it with
//
//	go generate ./vector
//
// Every kernel is written once, over a type set of 256-bit (AVX2) or 512-bit
// (AVX-512) registers. Only the tails differ: each set has its own masked loads.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	Package("github.com/anndb/anndb/vector")
	ConstraintExpr("amd64,!purego")
	tables()
	for _, s := range []set{{name: "AVX2", bytes: 32}, {name: "AVX512", bytes: 64, wide: true}} {
		floatPair(s, "l2Squared", "the squared Euclidean distance of n floats", true)
		floatPair(s, "dot", "the dot product of n floats", false)
		mixedPair(s, "l2Mixed", "the squared Euclidean distance of n floats and n bytes", true)
		mixedPair(s, "dotMixed", "the dot product of n floats and n bytes", false)
		byteDistance(s)
		for _, shape := range s.shapes() {
			tile(s, shape[0], shape[1])
		}
		sketch(s, 64)
		sketch(s, 128)
		packed(s)
		signs(s)
		projection(s)
		rotateSigns(s)
	}
	allFinite()
	wholeBytes()
	largestBits()
	roundSixteens()
	addRows()
	standardize()
	prefetch()
	Generate()
}
