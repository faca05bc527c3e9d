package main

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/anndb/anndb/bench/internal/lcifbench"
	"github.com/anndb/anndb/vector"
)

// The tree finds a box that two features make, prunes what it learned of wrong
// classes, and prices rise along the weakest links.
func TestCart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, m = 600, 8
	x := &vector.CSR{Ptr: []uint64{0}, Cols: m}
	y := make([]int8, n)
	rows := make([]int, n)
	for i := range n {
		rows[i] = i
		var row vector.Sparse
		for j := range m {
			row.Index = append(row.Index, uint32(j))
			row.Value = append(row.Value, rng.Float32())
		}
		x.Append(row)
		y[i] = -1
		if row.Value[2] > 0.6 && row.Value[5] < 0.5 {
			y[i] = 1
		}
		if i < 400 && rng.IntN(20) == 0 {
			y[i] = -y[i]
		}
	}
	train, test := rows[:400], rows[400:]
	wrong, nodes, err := cart(x, y, train, test)
	if err != nil {
		t.Fatal(err)
	}
	if wrong > 10 || nodes < 2 || nodes > 6 {
		t.Fatalf("%d of 200 rows wrong with %d decisions", wrong, nodes)
	}
	d := newCartData(x, y, train)
	root := d.grow(ids(train))
	if got := d.wrongAt(root, train, 0); got > 0 {
		t.Fatalf("unpruned, %d training rows are wrong", got)
	}
	prices := root.prices()
	if !slices.IsSorted(prices) || len(prices) < 3 {
		t.Fatalf("prices %v", prices)
	}
	for i := 1; i < len(prices); i++ {
		if root.size(prices[i]) >= root.size(prices[i-1]) {
			t.Fatalf("%d decisions at price %v, %d at %v", root.size(prices[i]), prices[i], root.size(prices[i-1]), prices[i-1])
		}
	}
	if last := prices[len(prices)-1]; root.size(last) != 0 {
		t.Fatal("the highest price leaves more than a leaf")
	}
}

func TestRanking(t *testing.T) {
	got := lcifbench.Ranking([]uint32{7, 2, 9})
	if !slices.Equal(got.Index, []uint32{2, 7, 9}) || !slices.Equal(got.Value, []float32{2, 3, 1}) {
		t.Fatalf("%+v", got)
	}
}
