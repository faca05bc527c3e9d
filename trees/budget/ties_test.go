package budget

import (
	"slices"
	"testing"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// Of features of equal violation the worst-case analysis takes the smaller ones.
func TestWorstCaseTies(t *testing.T) {
	if got := first([]scored{{7, 1}, {3, 1}, {9, 1}, {5, 1}}, 2); !slices.Equal(got, []scored{{3, 1}, {5, 1}}) {
		t.Errorf("%v of equal violation, want 3 and 5", got)
	}
}

// In a tie of the votes the sum of the margins decides.
func TestVoteTies(t *testing.T) {
	for _, c := range []struct {
		votes   int
		margins float64
		want    bool
	}{{1, 0.5, true}, {1, -0.5, false}, {1, 0, false}, {2, -9, true}, {0, 9, false}} {
		if got := voteLeft(c.votes, 2, c.margins); got != c.want {
			t.Errorf("%d of 2 votes, margins %g: %v", c.votes, c.margins, got)
		}
	}
}

// lineRows are n rows of one feature, the first half of one class.
func lineRows(n int) (*vector.CSR, []uint32) {
	x, class := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}, make([]uint32, n)
	for i := range n {
		if i < n/2 {
			class[i] = 1
			x.Append(vector.Sparse{Index: []uint32{0}, Value: []float32{1}})
		} else {
			x.Append(vector.Sparse{Index: []uint32{1}, Value: []float32{1}})
		}
	}
	return x, class
}

// A leaf with as many rows of both classes answers -1, and a node of exactly MinRows rows is parted.
func TestLeastRowsAndMajorityTies(t *testing.T) {
	const n = 40
	x, class := lineRows(n)
	for _, c := range []struct{ least, nodes int }{{n, 1}, {n + 1, 0}} {
		m, err := Train(t.Context(), SBT, Job{X: x, Class: class, Classes: 2, Params: Params{
			BAC: BACParams{Budget: 2}, MinRows: c.least,
		}})
		must(t, err)
		if m.Nodes() != c.nodes {
			t.Errorf("%d rows, at least %d to part: %d nodes, want %d", n, c.least, m.Nodes(), c.nodes)
		}
		if c.nodes == 0 && m.LeafClass[0] != -1 {
			t.Errorf("a leaf of %d rows of each class answers %d", n/2, m.LeafClass[0])
		}
	}
}

// The best label of an empty answer is, of equally good ones, the smaller one.
func TestBestLabelTies(t *testing.T) {
	m := &Model{
		Kind: AT, Cols: 1, Labels: 3, Voters: 1, KeepTop: true, Roots: []int32{0}, Features: []uint32{0},
		Left: []int32{^0}, Right: []int32{^1}, NodePtr: []uint32{0, 1}, NodeFeature: []uint32{0},
		Weight: []float32{1}, Offset: []float32{-1.5}, LeafRows: []uint32{1, 1},
		SetPtr: []uint32{0, 2, 2}, SetLabel: []uint32{1, 2},
	}
	p := NewPredictor(NewIndex(m))
	if got := p.Set(vector.Sparse{Index: []uint32{0}, Value: []float32{1}}); !slices.Equal(got, []uint32{1}) {
		t.Errorf("the best of the labels 1 and 2 is %v", got)
	}
}

// Of parts with as many rows the one that was made first is taken first: sets in their order, then joints.
func TestHuffmanTies(t *testing.T) {
	for _, c := range []struct{ count, order []int }{
		{[]int{3, 3, 2}, []int{1, 2, 0}}, {[]int{4, 2, 2}, []int{0, 1, 2}},
	} {
		sets := &labels.Powersets{Sets: make([][]uint32, len(c.count)), Count: c.count}
		if _, order := huffman(sets); !slices.Equal(order, c.order) {
			t.Errorf("sets of %v rows are leaves in the order %v, want %v", c.count, order, c.order)
		}
	}
}
