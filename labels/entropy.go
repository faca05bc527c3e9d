package labels

import (
	"cmp"
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Entropy returns, for each feature, the entropy in bits of its presence in a row: −p log₂ p −
// (1−p) log₂ (1−p), where p is the share of rows with a value above zero (definition 4). It is
// 0 for features of no row or of every row, and 1 for features of half the rows. O(entries +
// M).
func Entropy(features *vector.CSR) []float64 {
	rows := make([]int, features.Cols)
	for e, f := range features.Index {
		if features.Value == nil || features.Value[e] != 0 {
			rows[f]++
		}
	}
	h := make([]float64, features.Cols)
	for f, n := range rows {
		if n == 0 || n == features.Rows() {
			continue
		}
		p := float64(n) / float64(features.Rows())
		h[f] = -p*math.Log2(p) - (1-p)*math.Log2(1-p)
	}
	return h
}

// SelectFeatures returns the n features of highest entropy, ascending by number; ties prefer
// the smaller number. It returns all features if there are fewer than n. O(entries + M log M).
func SelectFeatures(features *vector.CSR, n int) []uint32 {
	h := Entropy(features)
	order := make([]uint32, len(h))
	for f := range order {
		order[f] = uint32(f)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(h[b], h[a]) })
	order = order[:max(0, min(n, len(order)))]
	slices.Sort(order)
	return order
}
