//go:build amd64 && !purego

package postings

import "testing"

type addBitsKernel = func(cells, words []uint16, code []uint8, weight uint16) int

// addBitsKernels returns all versions that the processor can run.
func addBitsKernels(t *testing.T) map[string]addBitsKernel {
	wide := avx512
	t.Cleanup(func() { avx512 = wide })
	with := func(on bool) addBitsKernel {
		return func(cells, words []uint16, code []uint8, weight uint16) int {
			avx512 = on
			return addBits(cells, words, code, weight)
		}
	}
	return map[string]addBitsKernel{"AVX2": with(false), "AVX-512": with(wide)}
}
