package main

import (
	"math"
	"slices"

	"github.com/anndb/anndb/vector"
)

// The peer CART (Breiman et al. 1984): binary splits on one feature each, by
// the Gini index, grown until nodes are pure and pruned by cost complexity, the
// price of a leaf chosen on a fifth of the training rows held out. Thresholds
// are cartBins − 1 quantiles of the training rows, all of them where there are
// no more distinct values.
const (
	cartBins    = 64
	cartMinRows = 2
)

// cartData is the rows in bins, by columns.
type cartData struct {
	rows, cols int
	bin        []uint8     // column after column
	cuts       [][]float32 // of each column: bin b holds values above cuts[b−1] up to cuts[b]
	y          []bool
}

// cartNode is a node of the tree; leaves have no children.
type cartNode struct {
	feature      int
	cut          uint8 // bins up to it go left
	left, right  *cartNode
	rows, wrong  int
	yes          bool
	price        float64 // of a leaf from which on the node is one
	leaves, errs int     // below, while pruning
}

// newCartData lays out the rows of x in order; cuts come from the rows of
// train.
func newCartData(x *vector.CSR, y []int8, train []int) *cartData {
	d := &cartData{rows: x.Rows(), cols: x.Cols, y: make([]bool, x.Rows()), cuts: make([][]float32, x.Cols)}
	d.bin = make([]uint8, d.rows*d.cols)
	for i, c := range y {
		d.y[i] = c > 0
	}
	columns := x.Transpose()
	values := make([]float32, d.rows)
	sorted := make([]float32, len(train))
	for j := range d.cols {
		clear(values)
		column := columns.Row(j)
		for e, i := range column.Index {
			values[i] = column.Value[e]
		}
		for k, i := range train {
			sorted[k] = values[i]
		}
		slices.Sort(sorted)
		distinct := slices.Compact(slices.Clone(sorted))
		var cuts []float32
		for b := 1; b < cartBins; b++ {
			v := sorted[b*len(sorted)/cartBins]
			if len(distinct) <= cartBins {
				if b > len(distinct)-1 {
					break
				}
				v = distinct[b-1]
			}
			if len(cuts) == 0 || v > cuts[len(cuts)-1] {
				cuts = append(cuts, v)
			}
		}
		d.cuts[j] = cuts
		for i, v := range values {
			b, _ := slices.BinarySearch(cuts, v)
			d.bin[j*d.rows+i] = uint8(b)
		}
	}
	return d
}

// grow grows the subtree over the rows, which it reorders.
func (d *cartData) grow(rows []int32) *cartNode {
	n := &cartNode{rows: len(rows)}
	yes := 0
	for _, r := range rows {
		if d.y[r] {
			yes++
		}
	}
	n.yes = 2*yes > len(rows)
	n.wrong = min(yes, len(rows)-yes)
	if n.wrong == 0 || len(rows) < cartMinRows {
		return n
	}
	best := gini(yes, len(rows)) - 1e-9
	found := false
	for j := range d.cols {
		if len(d.cuts[j]) == 0 {
			continue
		}
		bin := d.bin[j*d.rows : (j+1)*d.rows]
		var count [cartBins][2]int32
		for _, r := range rows {
			c := 0
			if d.y[r] {
				c = 1
			}
			count[bin[r]][c]++
		}
		left, leftYes := 0, 0
		for b := range d.cuts[j] {
			leftYes += int(count[b][1])
			left += int(count[b][0] + count[b][1])
			if left == 0 || left == len(rows) {
				continue
			}
			if g := gini(leftYes, left) + gini(yes-leftYes, len(rows)-left); g < best {
				best, found = g, true
				n.feature, n.cut = j, uint8(b)
			}
		}
	}
	if !found {
		return n
	}
	bin := d.bin[n.feature*d.rows : (n.feature+1)*d.rows]
	k := 0
	for i, r := range rows {
		if bin[r] <= n.cut {
			rows[i], rows[k] = rows[k], r
			k++
		}
	}
	n.left, n.right = d.grow(rows[:k]), d.grow(rows[k:])
	return n
}

// gini is the index of n rows, of which some are positive, times n.
func gini(yes, n int) float64 {
	p := float64(yes)
	return 2 * p * (float64(n) - p) / float64(n)
}

// prices finds the weakest links again and again (cost-complexity pruning):
// every inner node gets the price of a leaf from which on it is one. The prices
// are returned, ascending.
func (n *cartNode) prices() []float64 {
	all := []float64{0}
	last := 0.0
	for n.left != nil {
		weakest := n.weakest()
		if weakest == nil || n.price != 0 {
			break
		}
		last = max(last, weakest.link())
		weakest.price = math.Nextafter(last, math.Inf(1))
		all = append(all, weakest.price)
	}
	return slices.Compact(all)
}

// weakest is the node below whose subtree saves the least errors a leaf, among
// those that are no leaves yet; it counts leaves and errors on the way.
func (n *cartNode) weakest() *cartNode {
	if n.left == nil || n.price != 0 {
		n.leaves, n.errs = 1, n.wrong
		return nil
	}
	a, b := n.left.weakest(), n.right.weakest()
	n.leaves, n.errs = n.left.leaves+n.right.leaves, n.left.errs+n.right.errs
	best := n
	for _, o := range []*cartNode{a, b} {
		if o != nil && o.link() < best.link() {
			best = o
		}
	}
	return best
}

func (n *cartNode) link() float64 { return float64(n.wrong-n.errs) / float64(n.leaves-1) }

// class is the answer for a row at a price of a leaf in errors.
func (n *cartNode) class(d *cartData, row int, price float64) bool {
	for n.left != nil && (n.price == 0 || n.price > price) {
		if d.bin[n.feature*d.rows+row] <= n.cut {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n.yes
}

// size counts the decisions of the tree at a price.
func (n *cartNode) size(price float64) int {
	if n.left == nil || n.price != 0 && n.price <= price {
		return 0
	}
	return 1 + n.left.size(price) + n.right.size(price)
}

func (d *cartData) wrongAt(n *cartNode, rows []int, price float64) int {
	wrong := 0
	for _, r := range rows {
		if n.class(d, r, price) != d.y[r] {
			wrong++
		}
	}
	return wrong
}

// cart is the test errors and the decisions of a pruned tree.
func cart(x *vector.CSR, y []int8, train, test []int) (wrong, nodes int, err error) {
	d := newCartData(x, y, train)
	held, err := randomSplit(len(train), 5, 1)
	if err != nil {
		return 0, 0, err
	}
	part, rest := pick(train, held.Train), pick(train, held.Test)
	trial := d.grow(ids(part))
	best, least := 0.0, math.MaxInt
	prices := trial.prices()
	// Neighbouring prices prune alike: some fifty suffice.
	for i := 0; i < len(prices); i += max(1, len(prices)/50) {
		if w := d.wrongAt(trial, rest, prices[i]); w <= least {
			best, least = prices[i], w
		}
	}
	root := d.grow(ids(train))
	root.prices()
	best *= float64(len(train)) / float64(len(part))
	return d.wrongAt(root, test, best), root.size(best), nil
}

func ids(rows []int) []int32 {
	out := make([]int32, len(rows))
	for i, r := range rows {
		out[i] = int32(r)
	}
	return out
}
