package budget

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// vertices is clusters at the vertices of a cube of four features, of classes
// such that no feature tells them apart alone, among noise: as in madelon, two
// levels are not enough.
func vertices(n, noise int, seed uint64) ([][]float32, []int8) {
	rng := rand.New(rand.NewPCG(seed, 5))
	rows, y := make([][]float32, n), make([]int8, n)
	for i := range rows {
		at := i % 16
		for d := range 4 {
			rows[i] = append(rows[i], float32(2*(at>>d&1)-1)+0.3*float32(rng.NormFloat64()))
		}
		for range noise {
			rows[i] = append(rows[i], float32(rng.NormFloat64()))
		}
		y[i] = 1
		// The last feature of the cube says which two of the others count.
		if a, b := at&1, at>>1&1; at>>3 == 1 && a == b || at>>3 == 0 && b == at>>2&1 {
			y[i] = -1
		}
	}
	return rows, y
}

func TestLookAheadTakesGreedyTree(t *testing.T) {
	train, y := vertices(800, 12, 1)
	test, ty := vertices(400, 12, 2)
	params := Params{BAC: BACParams{Budget: 2, C: 1}}
	m, err := Train(t.Context(), SBT, Job{X: dense(train), Class: classesOf(y), Classes: 2, Params: params})
	must(t, err)
	must(t, m.Validate())
	if e := errorRate(m, dense(test), ty, nil); e > 0.05 {
		t.Errorf("test error %v", e)
	}
	if depth := m.Stats().Depth; depth < 3 {
		t.Errorf("depth %d", depth)
	}
	// No deeper than is allowed, and no split of rows that are too few.
	params.MaxDepth, params.MinRows = 2, 150
	if m, err = Train(t.Context(), SBT, Job{X: dense(train), Class: classesOf(y), Classes: 2, Params: params}); err != nil {
		t.Fatal(err)
	}
	if depth := m.Stats().Depth; depth > 2 {
		t.Errorf("depth %d", depth)
	}
	for node, left := range m.Left {
		if m.NodeRows[node] < 150 {
			t.Errorf("node %d with children %d of %d rows", node, left, m.NodeRows[node])
		}
	}
}

// The best split is that of an exhaustive search over the bins' edges, and the
// bins are where the values lie between them.
func TestBestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, m := rapid.IntRange(2, 60).Draw(t, "n"), rapid.IntRange(1, 4).Draw(t, "m")
		rows, y := make([][]float32, n), make([]int8, n)
		for i := range rows {
			for range m {
				rows[i] = append(rows[i], float32(rapid.IntRange(-9, 9).Draw(t, "v")))
			}
			y[i] = int8(2*rapid.IntRange(0, 1).Draw(t, "y") - 1)
		}
		d := newBinned(dense(rows), y)
		impurity := func(j int, b uint8) float64 {
			var count [2][2]float64
			for i, row := range rows {
				side := 0
				if row[j] > d.cuts[j][b] {
					side = 1
				}
				if above := d.bin[j*n+i] > b; above != (side == 1) {
					t.Fatalf("row %d, value %v: bin %d, threshold %v", i, row[j], d.bin[j*n+i], d.cuts[j][b])
				}
				count[side][classOf(y[i])]++
			}
			sum := 0.0
			for _, c := range count {
				all := c[0] + c[1]
				if all < greedyLeaf {
					return 2 * float64(n)
				}
				sum += all - (c[0]*c[0]+c[1]*c[1])/all
			}
			return sum
		}
		least, some := 2*float64(n), false
		for j, cuts := range d.cuts {
			for b := range cuts {
				if v := impurity(j, uint8(b)); v < 2*float64(n) {
					least, some = min(least, v), true
				}
			}
		}
		j, b, ok := d.bestSplit(positions(n))
		if ok != some {
			t.Fatalf("ok %v, a split exists %v", ok, some)
		}
		if ok && impurity(j, b) > least+1e-9 {
			t.Fatalf("impurity %v of feature %d bin %d, least %v", impurity(j, b), j, b, least)
		}
	})
}

// TestLookAheadRows: nodes of more rows than the option allows are parted by their
// classifiers, as all are where it is off.
func TestLookAheadRows(t *testing.T) {
	x, y := xor(300, 4, 1)
	train := func(rows int) *Model {
		params := Params{BAC: BACParams{Budget: 1, C: 1}, LookAheadRows: rows}
		m, err := Train(t.Context(), SBT, Job{X: x, Class: classesOf(y), Classes: 2, Params: params})
		must(t, err)
		return m
	}
	on, off := train(0), train(-1)
	if reflect.DeepEqual(on, off) {
		t.Fatal("the look-ahead makes no difference here")
	}
	if !reflect.DeepEqual(train(300), on) || !reflect.DeepEqual(train(20), off) {
		t.Error("the size of a node does not decide")
	}
}
