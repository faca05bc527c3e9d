//go:build !amd64 || purego

package postings

import "testing"

type addBitsKernel = func(cells, words []uint16, code []uint8, weight uint16) int

func addBitsKernels(*testing.T) map[string]addBitsKernel {
	return map[string]addBitsKernel{"Go": addBits}
}
