// Command asm writes the amd64 kernels of package vector. Run it with
//
//	go generate ./vector
//
// All are for AVX2.
package main

import (
	. "github.com/mmcloughlin/avo/build"
)

func main() {
	Package("github.com/anndb/anndb/vector")
	ConstraintExpr("amd64,!purego")
	tables()
	floatPair("l2Squared", "the squared Euclidean distance of n floats", true)
	floatPair("dot", "the dot product of n floats", false)
	mixedPair("l2Mixed", "the squared Euclidean distance of n floats and n bytes", true)
	mixedPair("dotMixed", "the dot product of n floats and n bytes", false)
	byteDistance()
	for _, shape := range shapes {
		tile(shape[0], shape[1])
	}
	sketch(64)
	sketch(128)
	packed()
	signs()
	projection()
	rotateSigns()
	addRows()
	prefetch()
	Generate()
}
