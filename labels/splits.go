package labels

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Fold is one division of rows into a training part and a test part. Both are ascending.
type Fold struct {
	Train, Test []int
}

// Sample returns n rows of the test part, evenly spread, since files have similar rows next to each
// other; all if it has fewer.
func (f *Fold) Sample(n int) []int {
	if n >= len(f.Test) {
		return f.Test
	}
	out := make([]int, n)
	for i := range out {
		out[i] = f.Test[i*len(f.Test)/n]
	}
	return out
}

// KFold divides n rows into k parts whose sizes differ by at most one, by a permutation that
// depends on the seed alone. Each part is the test part of one fold. O(n·k).
//
// Errors: ErrInput unless 2 ≤ k ≤ n.
func KFold(n, k int, seed uint64) ([]Fold, error) {
	if k < 2 || k > n {
		return nil, fmt.Errorf("%w: %d folds of %d rows", ErrInput, k, n)
	}
	order := Permutation(n, seed)
	folds := make([]Fold, k)
	for i := range folds {
		folds[i] = divide(order, i*n/k, (i+1)*n/k)
	}
	return folds, nil
}

// KFoldOf is KFold of the given rows, which ascend.
func KFoldOf(rows []int, k int, seed uint64) ([]Fold, error) {
	folds, err := KFold(len(rows), k, seed)
	for _, f := range folds {
		for _, part := range [][]int{f.Train, f.Test} {
			for i, at := range part {
				part[i] = rows[at]
			}
		}
	}
	return folds, err
}

// divide makes order[lo:hi] the test part.
func divide(order []int, lo, hi int) Fold {
	f := Fold{Test: slices.Clone(order[lo:hi]), Train: slices.Concat(order[:lo], order[hi:])}
	slices.Sort(f.Test)
	slices.Sort(f.Train)
	return f
}

// Permutation shuffles 0…n−1. It does not use the standard library, which does not promise the
// same permutation in every release, while results cite their seed.
func Permutation(n int, seed uint64) []int {
	rng := rand.NewPCG(seed, 0)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		// The bias of taking the high word is below n/2⁶⁴.
		j, _ := bits.Mul64(rng.Uint64(), uint64(i)+1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// SelectRows returns the matrix of the given rows in the given order, with the same columns.
// O(entries of the rows). It panics for a row beyond the matrix, as an index does.
func SelectRows(m *vector.CSR, rows []int) *vector.CSR {
	n := 0
	for _, i := range rows {
		n += int(m.Ptr[i+1] - m.Ptr[i])
	}
	s := &vector.CSR{Ptr: make([]uint64, 1, len(rows)+1), Index: make([]uint32, 0, n), Cols: m.Cols}
	if m.Value != nil {
		s.Value = make([]float32, 0, n)
	}
	for _, i := range rows {
		r := m.Row(i)
		s.Index = append(s.Index, r.Index...)
		s.Value = append(s.Value, r.Value...)
		s.Ptr = append(s.Ptr, uint64(len(s.Index)))
	}
	return s
}
