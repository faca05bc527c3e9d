package budget

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// Sizes of the greedy trees of the look-ahead: quantiles of a feature that are
// tried as thresholds, decisions on a path, rows of a leaf.
const (
	greedyBins  = 32
	greedyDepth = 8
	greedyLeaf  = 5
)

// binned is a dense matrix whose values are replaced by the quantile they lie
// in, column after column.
type binned struct {
	rows int
	bin  []uint8
	cuts [][]float32 // of each column: bin b holds values above cuts[b−1] up to cuts[b]
	y    []int8
}

// newBinned bins all features of x. O(rows · features · log rows).
func newBinned(x *vector.CSR, y []int8) *binned {
	n := x.Rows()
	d := &binned{rows: n, bin: make([]uint8, n*x.Cols), cuts: make([][]float32, x.Cols), y: y}
	values, sorted := make([]float32, n), make([]float32, n)
	columns := x.Transpose()
	for j := range x.Cols {
		clear(values)
		column := columns.Row(j)
		for e, i := range column.Index {
			values[i] = column.Value[e]
		}
		copy(sorted, values)
		slices.Sort(sorted)
		var cuts []float32
		for b := 1; b < greedyBins; b++ {
			// The largest value is no threshold: nothing lies above.
			v := sorted[b*(n-1)/greedyBins]
			if v < sorted[n-1] && (len(cuts) == 0 || v > cuts[len(cuts)-1]) {
				cuts = append(cuts, v)
			}
		}
		d.cuts[j] = cuts
		for i, v := range values {
			at, _ := slices.BinarySearch(cuts, v)
			d.bin[j*n+i] = uint8(at)
		}
	}
	return d
}

// bestSplit is the feature and the bin of the split of the rows with the least
// Gini impurity, bins up to it on one side; ties to the smaller feature, then
// bin. Not ok when none leaves greedyLeaf rows on both sides. O(rows · features).
func (d *binned) bestSplit(rows []int32) (feature int, bin uint8, ok bool) {
	best := math.Inf(-1)
	for j, cuts := range d.cuts {
		var count [greedyBins][restRows]int
		column := d.bin[j*d.rows : (j+1)*d.rows]
		for _, r := range rows {
			count[column[r]][classOf(d.y[r])]++
		}
		var all, below [restRows]int
		for _, c := range count {
			all[restNegative] += c[restNegative]
			all[restPositive] += c[restPositive]
		}
		for b := range cuts {
			below[restNegative] += count[b][restNegative]
			below[restPositive] += count[b][restPositive]
			n := below[restNegative] + below[restPositive]
			if n < greedyLeaf || len(rows)-n < greedyLeaf {
				continue
			}
			// The impurity falls as this rises.
			purity := 0.0
			for c := range all {
				a, z := float64(below[c]), float64(all[c]-below[c])
				purity += a*a/float64(n) + z*z/float64(len(rows)-n)
			}
			if purity > best {
				feature, bin, best, ok = j, uint8(b), purity, true
			}
		}
	}
	return feature, bin, ok
}

// grow counts, for trees of all depths from 0 to greedyDepth grown on train,
// the rows of test that they have wrong, each added to wrong.
func (d *binned) grow(train, test []int32, depth int, wrong *[greedyDepth + 1]int) {
	if len(test) == 0 {
		return
	}
	var count [restRows]int
	for _, r := range train {
		count[classOf(d.y[r])]++
	}
	class, missed := restNegative, 0
	if count[restPositive] > count[restNegative] {
		class = restPositive
	}
	for _, r := range test {
		if classOf(d.y[r]) != class {
			missed++
		}
	}
	wrong[depth] += missed
	if depth == greedyDepth {
		return
	}
	if count[1-class] > 0 {
		if j, b, ok := d.bestSplit(train); ok {
			learn, judge := d.divide(train, j, b), d.divide(test, j, b)
			for side := range learn {
				d.grow(learn[side], judge[side], depth+1, wrong)
			}
			return
		}
	}
	for deeper := depth + 1; deeper <= greedyDepth; deeper++ {
		wrong[deeper] += missed
	}
}

// divide parts rows at a bin of a feature.
func (d *binned) divide(rows []int32, feature int, bin uint8) (sides [2][]int32) {
	column := d.bin[feature*d.rows : (feature+1)*d.rows]
	for _, r := range rows {
		side := 0
		if column[r] > bin {
			side = 1
		}
		sides[side] = append(sides[side], r)
	}
	return sides
}

// tree is a tree of at most depth levels grown on the rows; nil for a leaf.
func (d *binned) tree(rows []int32, depth int) *split {
	positive := 0
	for _, r := range rows {
		positive += classOf(d.y[r])
	}
	if depth == 0 || positive == 0 || positive == len(rows) {
		return nil
	}
	j, b, ok := d.bestSplit(rows)
	if !ok {
		return nil
	}
	sides := d.divide(rows, j, b)
	return &split{uint32(j), d.cuts[j][b], d.tree(sides[1], depth-1), d.tree(sides[0], depth-1)}
}

// greedy grows a tree of splits on single features by the Gini index, as CART
// does, as deep as has the fewest cross-validation errors, and returns it with
// them; nil if no split is any good. O(rows · features · depth · folds).
func greedy(x *vector.CSR, y []int8, folds int, seed uint64) (*split, int) {
	d := newBinned(x, y)
	var wrong [greedyDepth + 1]int
	part := parts(y, folds, seed)
	for v := range folds {
		var train, test []int32
		for i := range y {
			if int(part[i]) == v {
				test = append(test, int32(i))
			} else {
				train = append(train, int32(i))
			}
		}
		d.grow(train, test, 0, &wrong)
	}
	depth := 0
	for i, n := range wrong {
		if n < wrong[depth] {
			depth = i
		}
	}
	return d.tree(positions(d.rows), depth), wrong[depth]
}
