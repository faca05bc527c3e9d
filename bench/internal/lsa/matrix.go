// Package lsa makes dense coordinates of sparse rows, such as counts of words (latent semantic
// analysis): weights, and a truncated SVD to a small number of dimensions.
package lsa

import (
	"math"
	"slices"
)

// Matrix is a matrix of Rows x Cols by compressed rows: the entries of row i
// are Idx and Val [Ptr[i], Ptr[i+1]), columns ascending.
type Matrix struct {
	Rows, Cols int
	Ptr        []int
	Idx        []uint32
	Val        []float64
}

// transpose returns the matrix with rows and columns exchanged. O(entries).
func (s *Matrix) transpose() *Matrix {
	t := &Matrix{
		Rows: s.Cols, Cols: s.Rows, Ptr: make([]int, s.Cols+1),
		Idx: make([]uint32, len(s.Idx)), Val: make([]float64, len(s.Val)),
	}
	for _, c := range s.Idx {
		t.Ptr[c+1]++
	}
	for c := range s.Cols {
		t.Ptr[c+1] += t.Ptr[c]
	}
	at := slices.Clone(t.Ptr)
	for r := range s.Rows {
		for k := s.Ptr[r]; k < s.Ptr[r+1]; k++ {
			c := s.Idx[k]
			t.Idx[at[c]], t.Val[at[c]] = uint32(r), s.Val[k]
			at[c]++
		}
	}
	return t
}

// Weigh replaces counts by (1 + ln count) · ln(rows / rows with the term), and scales rows to
// unit length.
func (m *Matrix) Weigh() {
	with := make([]float64, m.Cols)
	for _, f := range m.Idx {
		with[f]++
	}
	for row := range m.Rows {
		sum := 0.0
		for i := m.Ptr[row]; i < m.Ptr[row+1]; i++ {
			m.Val[i] = (1 + math.Log(max(1, m.Val[i]))) * math.Log(float64(m.Rows)/with[m.Idx[i]])
			sum += m.Val[i] * m.Val[i]
		}
		for i := m.Ptr[row]; sum > 0 && i < m.Ptr[row+1]; i++ {
			m.Val[i] /= math.Sqrt(sum)
		}
	}
}
