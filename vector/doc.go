// Package vector is the arithmetic of nearest-neighbour search: metrics,
// distance kernels over float32, uint8 and int8 vectors, sketch scores, vote
// accumulation, and the bounded heap that keeps the best k.
//
// Every kernel has a pure-Go reference that is always compiled. On amd64 the
// package picks AVX-512 or AVX2 versions at start; the tag purego, and other
// architectures, use the reference. Integer kernels agree bit for bit.
// Floating-point kernels sum in another order and agree within
//
//	|got - want| <= 2·n·ε·Σ|aᵢ·bᵢ|,  ε = 2⁻²⁴
//
// for vectors of n elements, which the tests check at all lengths and
// alignments.
package vector
