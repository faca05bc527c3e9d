// Package vector provides the arithmetic of nearest-neighbour search: metrics,
// distance kernels over float32 and uint8 vectors, sketch scores, and the
// bounded heap that keeps the best k.
//
// Every kernel has a pure-Go reference that is always compiled. On amd64 the
// package selects AVX-512 or AVX2 versions at start; builds with the tag purego,
// and other architectures, use the reference. All versions of the integer kernels
// and of SketchScores return the same bits. Floating-point kernels sum in different
// orders; each result is within
//
//	|got - exact| <= 4·n·ε·Σ|aᵢ·bᵢ| + n·2⁻¹⁴⁹,  ε = 2⁻²⁴
//
// of the exact value for vectors of n elements (Σ(aᵢ-bᵢ)² for distances), as long
// as no sum overflows; the second term is for products that underflow. A NaN in
// either vector makes the result NaN; infinities follow IEEE 754. If finite elements
// overflow, a distance is +Inf, and a product is ±Inf or, if partial sums overflow to
// both sides, NaN, which depends on the order.
//
// No kernel reads past its vectors, and none allocates.
//
// The AVX2 kernels need AVX2, FMA and BMI2; the AVX-512 kernels also need AVX-512 F,
// BW, VL and DQ. The assembly is generated: change internal/asm and run go generate.
package vector

//go:generate go run ./internal/asm -out kernels_amd64.s -stubs kernels_amd64.go -pkg vector
