package forest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
)

var kinds = []Kind{RP, KD, KDChrono, PCATree, RF}

// table returns its rows only in the caller's buffer, so that code that keeps a row
// after the next call reads a wrong row.
type table [][]float32

func (t table) Len() int { return len(t) }
func (t table) Dim() int { return len(t[0]) }
func (t table) Row(i int, buf []float32) []float32 {
	return buf[:copy(buf, t[i])]
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 7)) }

// gaussian rows: no ties in any coordinate.
func gaussian(rng *rand.Rand, n, d int) table {
	rows := make(table, n)
	for i := range rows {
		rows[i] = make([]float32, d)
		for j := range rows[i] {
			rows[i][j] = float32(rng.NormFloat64())
		}
	}
	return rows
}

// levelled rows: integers below levels, so that ties and equal points are common.
func levelled(rng *rand.Rand, n, d, levels int) table {
	rows := make(table, n)
	for i := range rows {
		rows[i] = make([]float32, d)
		for j := range rows[i] {
			rows[i][j] = float32(rng.IntN(levels))
		}
	}
	return rows
}

// nearest is equation 1 by sorting all distances: the rows of corpus nearest
// to x, ties by number; the row self comes first in its own list.
func nearest(corpus table, x []float32, self, k int) []uint32 {
	type pair struct {
		id uint32
		d  float64
	}
	all := make([]pair, len(corpus))
	for j, c := range corpus {
		var s float64
		for i := range c {
			s += float64(c[i]-x[i]) * float64(c[i]-x[i])
		}
		if j == self {
			s = -1
		}
		all[j] = pair{uint32(j), s}
	}
	slices.SortFunc(all, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.d, b.d), cmp.Compare(a.id, b.id))
	})
	ids := make([]uint32, min(k, len(all)))
	for i := range ids {
		ids[i] = all[i].id
	}
	return ids
}

// labelled is the label matrix of the rows among themselves.
func labelled(rows table, k int) *labels.Neighbors {
	return labelledBy(rows, nil, k)
}

// labelledBy is the label matrix of separate queries, or of the corpus itself.
func labelledBy(corpus, queries table, k int) *labels.Neighbors {
	self := queries == nil
	if self {
		queries = corpus
	}
	lab := &labels.Neighbors{N: len(queries), K: min(k, len(corpus))}
	for i, x := range queries {
		own := -1
		if self {
			own = i
		}
		lab.IDs = append(lab.IDs, nearest(corpus, x, own, k)...)
	}
	return lab
}

func learn(t testing.TB, rows labels.Rows, lab *labels.Neighbors, p Params) *Forest {
	t.Helper()
	f, err := Learn(context.Background(), rows, rows.Len(), lab, p, 2, nil)
	must(t, err)
	return f
}

// side is what node i of tree t compares and where it sends x, read off the
// arrays as FORMAT.md describes them. Sums run in float32 and in the order of
// the entries: a median may be the value of a point itself.
func side(f *Forest, t, i int, x []float32) (value float32, right bool) {
	slot := t<<f.Depth + i
	n := f.Nodes[slot]
	switch f.Coord {
	case CoordAxis:
		value = x[n.Dim]
	case CoordProjected:
		for e := f.Proj.Ptr[n.Dim]; e < f.Proj.Ptr[n.Dim+1]; e++ {
			value += f.Proj.Val[e] * x[f.Proj.Idx[e]]
		}
	case CoordDirections:
		for e := slot * f.DirWidth; e < (slot+1)*f.DirWidth; e++ {
			value += f.DirVal[e] * x[f.DirIdx[e]]
		}
	}
	return value, value > n.Threshold
}

// path is the nodes from the root of tree t to the leaf of x, the leaf last,
// in heap numbers: the structure function q of section 4.
func path(f *Forest, t int, x []float32) []int {
	nodes := []int{1}
	for node := 1; node < 1<<f.Depth; {
		node *= 2
		if _, right := side(f, t, node/2, x); right {
			node++
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// nodePoints lists the rows that pass each node of tree t, ascending. Leaf l
// is node 2^Depth + l.
func nodePoints(f *Forest, t int, rows table) [][]uint32 {
	at := make([][]uint32, 2<<f.Depth)
	for i, x := range rows {
		for _, node := range path(f, t, x) {
			at[node] = append(at[node], uint32(i))
		}
	}
	return at
}

// entry is a label of a leaf with its votes, zero in member lists.
type entry struct {
	label, votes uint32
}

// entries reads a leaf block and checks that it follows FORMAT.md. It merges the
// entries of a label with more than 255 votes into one.
func entries(t rapid.TB, b LeafBlock, weighted bool) []entry {
	t.Helper()
	var out []entry
	segments := b.segments
	for {
		hi, low, weights, ok := b.Next()
		if !ok {
			break
		}
		segments--
		if (weights != nil) != weighted || weighted && len(weights) != len(low) {
			t.Fatalf("%d labels with %d weights, weighted %v", len(low), len(weights), weighted)
		}
		for i, l := range low {
			e := entry{label: hi<<16 | uint32(l)}
			if weighted {
				e.votes = uint32(weights[i])
			}
			n := len(out)
			switch {
			case n == 0 || e.label > out[n-1].label:
				out = append(out, e)
			case weighted && e.label == out[n-1].label && out[n-1].votes%255 == 0:
				out[n-1].votes += e.votes
			default:
				t.Fatalf("label %d after %d of %d votes", e.label, out[n-1].label, out[n-1].votes)
			}
		}
	}
	if segments != 0 {
		t.Fatalf("%d segments not read", segments)
	}
	return out
}

// must ends a test that has got an error.
func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// checkTables compares every leaf with equations 4 and 7 computed from their
// definitions: the points of each element of the partition, and how many of them
// have each label.
func checkTables(t rapid.TB, f *Forest, rows table, lab *labels.Neighbors, corpus table) {
	t.Helper()
	for tree := range f.Trees {
		part := nodePoints(f, tree, rows)[1<<f.Depth:]
		for leaf, points := range part {
			if f.Natural {
				checkLeaf(t, f, tree, leaf, points, lab)
			}
		}
		if f.Params.Members {
			if corpus != nil {
				part = nodePoints(f, tree, corpus)[1<<f.Depth:]
			}
			for leaf, points := range part {
				b := f.MemberLeaf(tree, leaf)
				var got []uint32
				for _, e := range entries(t, b, false) {
					got = append(got, e.label)
				}
				if !slices.Equal(got, points) || int(b.Points()) != len(points) {
					t.Fatalf("tree %d leaf %d: %d members %v, want %v", tree, leaf, b.Points(), got, points)
				}
			}
		}
	}
}

// checkLeaf compares the sum and N_q(x) of equation 4 with a leaf.
func checkLeaf(t rapid.TB, f *Forest, tree, leaf int, points []uint32, lab *labels.Neighbors) {
	t.Helper()
	votes := map[uint32]uint32{}
	for _, i := range points {
		for _, j := range lab.Row(int(i))[:f.LabelsK] {
			votes[j]++
		}
	}
	b := f.Leaf(tree, leaf)
	got := map[uint32]uint32{}
	for _, e := range entries(t, b, true) {
		got[e.label] = e.votes
	}
	if int(b.Points()) != len(points) || !maps.Equal(got, votes) {
		t.Fatalf("tree %d leaf %d: %d points with votes %v, want %d with %v",
			tree, leaf, b.Points(), got, len(points), votes)
	}
}

// checkRoutes sends every row down all trees at once and one by one.
func checkRoutes(t rapid.TB, f *Forest, rows table) {
	t.Helper()
	leaves := make([]uint32, f.Trees)
	var z []float32
	for i, x := range rows {
		z = f.Coordinates(x, z)
		f.Route(z, leaves)
		for tree, leaf := range leaves {
			want := path(f, tree, x)[f.Depth] - 1<<f.Depth
			if int(leaf) != want || f.routeOne(tree, x) != want {
				t.Fatalf("row %d in tree %d: leaf %d, %d alone, want %d", i, tree, leaf, f.routeOne(tree, x), want)
			}
		}
		if f.Coord != CoordProjected {
			z = nil
		}
	}
}

// check tests the properties that every forest has for every input.
func check(t rapid.TB, f *Forest, rows table, lab *labels.Neighbors) {
	t.Helper()
	if err := f.Validate(); err != nil {
		t.Fatalf("%v", err)
	}
	checkRoutes(t, f, rows)
	checkTables(t, f, rows, lab, nil)
}

// popular makes one row a label of all points.
func popular(lab *labels.Neighbors, row uint32) {
	for i := range lab.N {
		if own := lab.Row(i); !slices.Contains(own, row) {
			own[len(own)-1] = row
		}
	}
}

// Every kind in several shapes, with leaves on both sides of the 255 votes that
// one entry holds, and labels on both sides of 2 · 255.
func TestTablesAreLabelProportions(t *testing.T) {
	for _, s := range []struct{ n, d, k, trees, depth int }{
		{301, 16, 10, 4, 6}, {510, 4, 3, 2, 1}, {511, 4, 3, 2, 1}, {1300, 3, 2, 1, 1},
	} {
		rows := gaussian(newRand(uint64(s.n)), s.n, s.d)
		lab := labelled(rows, s.k)
		popular(lab, uint32(s.n/2))
		for _, kind := range kinds {
			t.Run(fmt.Sprintf("%s/n=%d/depth=%d", kind, s.n, s.depth), func(t *testing.T) {
				f := learn(t, rows, lab, Params{
					Kind: kind, Trees: s.trees, Depth: s.depth, Natural: true, Members: true, Seed: 3,
				})
				check(t, f, rows, lab)
				if f.Points != s.n || f.MeanLeaf() != float64(s.n)/float64(int(1)<<s.depth) {
					t.Fatalf("%d points, %v a leaf", f.Points, f.MeanLeaf())
				}
			})
		}
	}
}

// The label matrix used by these tests, from the definition of equation 1, is
// the one the database trains with.
func TestReferenceLabelsAreExactNeighbors(t *testing.T) {
	rows := gaussian(newRand(5), 150, 6)
	got, err := labels.ExactNeighbors(context.Background(), rows, nil, 9, 2, nil)
	must(t, err)
	if want := labelled(rows, 9); !slices.Equal(got.IDs, want.IDs) {
		t.Fatal("label matrices differ")
	}
}

// Ties, equal points, empty leaves, cut-off tables and any number of workers.
func TestTablesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 330).Draw(t, "n")
		d := rapid.IntRange(1, 12).Draw(t, "d")
		k := rapid.IntRange(1, min(n+3, 12)).Draw(t, "k")
		rng := newRand(rapid.Uint64().Draw(t, "data"))
		rows := gaussian(rng, n, d)
		if levels := rapid.IntRange(0, 4).Draw(t, "levels"); levels > 0 {
			rows = levelled(rng, n, d, levels)
		}
		lab := labelled(rows, k)
		p := Params{
			Kind:       rapid.SampledFrom(kinds).Draw(t, "kind"),
			Trees:      rapid.IntRange(1, 4).Draw(t, "trees"),
			Depth:      rapid.IntRange(1, 7).Draw(t, "depth"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
			LabelsK:    rapid.IntRange(0, k+1).Draw(t, "labels"),
			Subsample:  rapid.IntRange(0, 120).Draw(t, "subsample"),
			Candidates: rapid.IntRange(0, d+1).Draw(t, "candidates"),
			Members:    rapid.Bool().Draw(t, "members"),
			Natural:    rapid.Bool().Draw(t, "natural"),
		}
		f, err := Learn(context.Background(), rows, n, lab, p, rapid.IntRange(0, 4).Draw(t, "workers"), nil)
		must(t, err)
		if !p.Members != f.Natural && f.Natural != p.Natural {
			t.Fatalf("natural %v, members %v became natural %v", p.Natural, p.Members, f.Natural)
		}
		check(t, f, rows, lab)
	})
}

// Training points that are queries of their own: labels and members name rows
// of the corpus.
func TestSeparateTrainingSet(t *testing.T) {
	rng := newRand(11)
	corpus, queries := gaussian(rng, 90, 4), gaussian(rng, 400, 4)
	lab := labelledBy(corpus, queries, 5)
	for _, kind := range kinds {
		p := Params{Kind: kind, Trees: 3, Depth: 4, Natural: true, Members: true, Corpus: corpus}
		f, err := Learn(context.Background(), queries, len(corpus), lab, p, 2, nil)
		must(t, err)
		must(t, f.Validate())
		checkRoutes(t, f, queries)
		checkTables(t, f, queries, lab, corpus)
		if f.Corpus != nil {
			t.Error("the forest holds on to the corpus")
		}
	}
}

// reference answers of priority search: the distance of every leaf.
func leafMargins(f *Forest, t int, x []float32) map[uint32]float32 {
	margins := map[uint32]float32{}
	var walk func(node int, margin float32)
	walk = func(node int, margin float32) {
		if node >= 1<<f.Depth {
			margins[uint32(node-1<<f.Depth)] = margin
			return
		}
		value, right := side(f, t, node, x)
		threshold := f.Nodes[t<<f.Depth+node].Threshold
		near, far := 2*node, 2*node+1
		if right {
			near, far = far, near
		}
		walk(near, margin)
		if !math.IsInf(float64(threshold), 1) {
			walk(far, max(margin, float32(math.Abs(float64(value-threshold)))))
		}
	}
	walk(1, 0)
	return margins
}

func TestRouteMultiTakesTheNearestLeaves(t *testing.T) {
	var s MultiScratch // shared, so that a call must not see the last one
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "n")
		d := rapid.IntRange(1, 6).Draw(t, "d")
		rng := newRand(rapid.Uint64().Draw(t, "data"))
		rows := gaussian(rng, n, d)
		if rapid.Bool().Draw(t, "ties") {
			rows = levelled(rng, n, d, 3)
		}
		p := Params{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Trees: rapid.IntRange(1, 4).Draw(t, "trees"),
			Depth: rapid.IntRange(1, 5).Draw(t, "depth"), Members: true,
		}
		f, err := Learn(context.Background(), rows, n, labelled(rows, 2), p, 1, nil)
		must(t, err)
		x := gaussian(rng, 1, d)[0]
		trees := rapid.IntRange(1, f.Trees+1).Draw(t, "used")
		extra := rapid.IntRange(0, 40).Draw(t, "extra")
		got := f.RouteMulti(f.Coordinates(x, nil), trees, extra, &s)
		trees = min(trees, f.Trees)

		margins := make([]map[uint32]float32, trees)
		var rest []float32
		for tree := range trees {
			margins[tree] = leafMargins(f, tree, x)
			own := uint32(path(f, tree, x)[f.Depth] - 1<<f.Depth)
			if got[tree] != (TreeLeaf{uint32(tree), own}) {
				t.Fatalf("leaf %d is %v, want %d", tree, got[tree], own)
			}
			for leaf, m := range margins[tree] {
				if leaf != own {
					rest = append(rest, m)
				}
			}
		}
		slices.Sort(rest)
		if want := trees + min(extra, len(rest)); len(got) != want {
			t.Fatalf("%d leaves, want %d", len(got), want)
		}
		seen := map[TreeLeaf]bool{}
		for i, l := range got {
			if seen[l] {
				t.Fatalf("leaf %v twice", l)
			}
			seen[l] = true
			m, reachable := margins[l.Tree][l.Leaf]
			if !reachable {
				t.Fatalf("leaf %v lies behind a node that was not split", l)
			}
			if i >= trees && m != rest[i-trees] {
				t.Fatalf("extra leaf %d has margin %v, want %v", i-trees, m, rest[i-trees])
			}
		}
	})
}

// Route fills as many trees as it is given room for, and no more than it has.
func TestRouteOfFewerTrees(t *testing.T) {
	rows := gaussian(newRand(1), 100, 5)
	f := learn(t, rows, labelled(rows, 2), Params{Kind: KD, Trees: 4, Depth: 4})
	all, some := make([]uint32, 6), make([]uint32, 2)
	all[4], all[5] = 99, 99
	f.Route(rows[0], all)
	f.Route(rows[0], some)
	if !slices.Equal(all[:2], some) || all[4] != 99 || all[5] != 99 {
		t.Fatalf("routes %v and %v", all, some)
	}
}

func TestRoutingAllocatesNothing(t *testing.T) {
	rows := gaussian(newRand(1), 500, 8)
	lab := labelled(rows, 3)
	for _, kind := range kinds {
		f := learn(t, rows, lab, Params{Kind: kind, Trees: 5, Depth: 5})
		leaves := make([]uint32, 5)
		z := f.Coordinates(rows[0], nil)
		if f.Coord != CoordProjected {
			z = nil
		}
		var s MultiScratch
		f.RouteMulti(f.Coordinates(rows[0], z), 5, 30, &s)
		labelsSeen := 0
		allocs := testing.AllocsPerRun(50, func() {
			x := f.Coordinates(rows[1], z)
			f.Route(x, leaves)
			for _, l := range f.RouteMulti(x, 5, 30, &s) {
				b := f.Leaf(int(l.Tree), int(l.Leaf))
				for {
					_, low, _, ok := b.Next()
					if !ok {
						break
					}
					labelsSeen += len(low)
				}
			}
		})
		if allocs != 0 || labelsSeen == 0 {
			t.Errorf("%s: %v allocations, %d labels", kind, allocs, labelsSeen)
		}
	}
}

func TestForestDependsOnTheSeedOnly(t *testing.T) {
	rows := gaussian(newRand(2), 400, 12)
	lab := labelled(rows, 6)
	for _, kind := range kinds {
		p := Params{Kind: kind, Trees: 9, Depth: 5, Natural: true, Members: true, Seed: 42}
		want := learn(t, rows, lab, p)
		for _, procs := range []int{1, 2, 7} {
			old := runtime.GOMAXPROCS(procs)
			for _, workers := range []int{0, 1, 2, 7} {
				f, err := Learn(context.Background(), rows, len(rows), lab, p, workers, nil)
				must(t, err)
				if !reflect.DeepEqual(f, want) {
					t.Errorf("%s: %d processors, %d workers: another forest", kind, procs, workers)
				}
			}
			runtime.GOMAXPROCS(old)
		}
		// Every tree has its own stream: a smaller forest is a prefix.
		p.Trees = 4
		if f := learn(t, rows, lab, p); !slices.Equal(f.Nodes, want.Nodes[:len(f.Nodes)]) {
			t.Errorf("%s: four trees are not the first four of nine", kind)
		}
		p.Trees, p.Seed = 9, 43
		other := learn(t, rows, lab, p)
		if kind == KDChrono {
			continue // has nothing to draw
		}
		if bytes.Equal(other.Leaves[0], want.Leaves[0]) {
			t.Errorf("%s: another seed gives the same forest", kind)
		}
		if tree := 1 << p.Depth; slices.Equal(want.Nodes[:tree], want.Nodes[tree:2*tree]) {
			t.Errorf("%s: two trees are equal", kind)
		}
	}
}

func TestProgressOnlyGrows(t *testing.T) {
	rows := gaussian(newRand(3), 20, 3)
	lab := labelled(rows, 2)
	for range 20 {
		last, calls := 0, 0 // not atomic: the calls must not overlap
		p := Params{Kind: KD, Trees: 60, Depth: 2, Natural: true, Members: true}
		_, err := Learn(context.Background(), rows, len(rows), lab, p, 7, func(done, total int) {
			if total != 60 || done < last || done > total {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			if last == total {
				t.Errorf("progress %d of %d after the end", done, total)
			}
			last = done
			calls++
		})
		must(t, err)
		if last != 60 || calls < 60 {
			t.Fatalf("progress ends at %d after %d calls", last, calls)
		}
	}
}

// tripwire cancels a context at the n-th row and counts the rows read after.
type tripwire struct {
	table
	left   atomic.Int64
	after  atomic.Int64
	done   atomic.Bool
	cancel context.CancelFunc
}

func (w *tripwire) Row(i int, buf []float32) []float32 {
	if w.left.Add(-1) == 0 {
		w.cancel()
		w.done.Store(true)
	} else if w.done.Load() {
		w.after.Add(1)
	}
	return w.table.Row(i, buf)
}

func TestCancellation(t *testing.T) {
	const n, depth, workers = 2000, 8, 2
	rows := gaussian(newRand(4), n, 6)
	lab := &labels.Neighbors{N: n, K: 1, IDs: make([]uint32, n)}
	for _, kind := range kinds {
		// In the check of the input, in the first level, deep in a tree, and near
		// the end.
		for _, at := range []int64{1, n + 10, n + 5*n, n + 25*n} {
			ctx, cancel := context.WithCancel(context.Background())
			w := &tripwire{table: rows, cancel: cancel}
			w.left.Store(at)
			p := Params{Kind: kind, Trees: 40, Depth: depth}
			f, err := Learn(ctx, w, n, lab, p, workers, nil)
			if !errors.Is(err, context.Canceled) || f != nil {
				t.Fatalf("%s cancelled at %d: forest %v, error %v", kind, at, f != nil, err)
			}
			// The learner may finish the current node: at most mean, covariance and
			// projection of all its points, or six coordinates of a sample.
			if after := w.after.Load(); after > workers*4*n {
				t.Errorf("%s cancelled at %d: %d more rows read", kind, at, after)
			}
			cancel()
		}
	}
}

// Learn is cancelled while it fills the tables: between trees, and within a tree while
// it reads the corpus for the member lists.
func TestCancellationInTheSecondHalf(t *testing.T) {
	rows := gaussian(newRand(4), 100, 3)
	lab := labelled(rows, 3)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Learn(ctx, rows, 100, lab, Params{Kind: KD, Trees: 10, Depth: 3}, 1, func(done, total int) {
		if done == 8 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("between trees: error %v", err)
	}
	// The corpus is read once to check it, then again for the first tree.
	const n = 20 * checkEvery
	ctx, cancel = context.WithCancel(context.Background())
	w := &tripwire{table: gaussian(newRand(5), n, 3), cancel: cancel}
	w.left.Store(n + 10)
	p := Params{Kind: KD, Trees: 10, Depth: 3, Natural: true, Members: true, Corpus: w}
	_, err = Learn(ctx, rows, n, lab, p, 2, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("within a tree: error %v", err)
	}
	if after := w.after.Load(); after > 2*checkEvery {
		t.Errorf("%d more rows read", after)
	}
}

func TestDegenerateInputs(t *testing.T) {
	rng := newRand(6)
	equal := levelled(rng, 300, 4, 1)
	line := gaussian(rng, 77, 1)
	columns := gaussian(rng, 120, 9)
	for _, x := range columns {
		for j := range x {
			if j != 6 {
				x[j] = 1e7 + float32(j)
			}
		}
	}
	zerosFirst := levelled(rng, 400, 20, 1)
	for _, x := range zerosFirst[200:] {
		x[13] = float32(rng.NormFloat64())
	}
	huge := gaussian(rng, 90, 7)
	for _, x := range huge {
		for j := range x {
			x[j] = max(-math.MaxFloat32, min(math.MaxFloat32, x[j]*2e38))
		}
	}
	for name, rows := range map[string]table{
		"all equal": equal, "one point": gaussian(rng, 1, 3), "two equal points": equal[:2],
		"fewer than leaves": gaussian(rng, 11, 3), "one coordinate": line,
		"constant columns": columns, "equal rows first": zerosFirst, "huge": huge,
	} {
		lab := labelled(rows, 10) // more than some of the corpora have
		for _, kind := range kinds {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				f := learn(t, rows, lab, Params{
					Kind: kind, Trees: 2, Depth: 6, LabelsK: 50, Natural: true, Members: true,
				})
				check(t, f, rows, lab)
				for i, n := range f.Nodes {
					if math.IsNaN(float64(n.Threshold)) {
						t.Fatalf("node %d has no threshold", i)
					}
				}
			})
		}
	}
}

// A constant coordinate is not split, even if its square is large. kd finds a varying
// coordinate even if the first points of a node are equal.
func TestKDFindsTheOnlyVaryingCoordinate(t *testing.T) {
	rng := newRand(8)
	constant := gaussian(rng, 1, 200)[0]
	flat, late := make(table, 200), levelled(rng, 500, 200, 1)
	for i := range flat {
		flat[i] = slices.Clone(constant)
		for j := range flat[i] {
			flat[i][j] *= 1e6
		}
		flat[i][17] = 1e-3 * float32(rng.NormFloat64())
		late[300+i][17] = flat[i][17]
	}
	for name, rows := range map[string]table{"constant columns": flat, "equal rows first": late} {
		f := learn(t, rows, labelled(rows, 1), Params{Kind: KD, Trees: 20, Depth: 3})
		for tree := range f.Trees {
			if n := f.Nodes[tree<<3+1]; n.Dim != 17 || math.IsInf(float64(n.Threshold), 1) {
				t.Errorf("%s: tree %d splits coordinate %d at %v", name, tree, n.Dim, n.Threshold)
			}
		}
	}
}

func TestLearnRefuses(t *testing.T) {
	rows := gaussian(newRand(9), 20, 3)
	lab := labelled(rows, 4)
	with := func(v float32) table {
		bad := slices.Clone(rows)
		bad[13] = []float32{0, v, 0}
		return bad
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	twice := &labels.Neighbors{N: 20, K: 4, IDs: slices.Clone(lab.IDs)}
	twice.IDs[4*5+3] = twice.IDs[4*5]
	kd := Params{Kind: KD, Trees: 1, Depth: 2}
	change := func(f func(*Params)) Params { p := kd; f(&p); return p }
	for name, c := range map[string]struct {
		rows   labels.Rows
		corpus int
		lab    *labels.Neighbors
		p      Params
	}{
		"no rows":           {nil, 20, lab, kd},
		"empty rows":        {rows[:0:0], 20, lab, kd},
		"NaN":               {with(nan), 20, lab, kd},
		"infinity":          {with(inf), 20, lab, kd},
		"minus infinity":    {with(-inf), 20, lab, kd},
		"NaN in the corpus": {rows, 20, lab, change(func(p *Params) { p.Members = true; p.Corpus = with(nan) })},
		"kind":              {rows, 20, lab, change(func(p *Params) { p.Kind = "oak" })},
		"no trees":          {rows, 20, lab, change(func(p *Params) { p.Trees = 0 })},
		"many trees":        {rows, 20, lab, change(func(p *Params) { p.Trees = maxTrees + 1 })},
		"no depth":          {rows, 20, lab, change(func(p *Params) { p.Depth = 0 })},
		"too deep":          {rows, 20, lab, change(func(p *Params) { p.Depth = maxDepth + 1 })},
		"no labels":         {rows, 20, nil, kd},
		"no labels for rf":  {rows, 20, nil, change(func(p *Params) { p.Kind = RF; p.Members = true })},
		"labels of others":  {rows[:19], 20, lab, kd},
		"short labels":      {rows, 20, &labels.Neighbors{N: 20, K: 5, IDs: lab.IDs}, kd},
		"label beyond":      {rows, 19, lab, kd},
		"label twice":       {rows, 20, twice, kd},
		"corpus shape":      {rows, 20, lab, change(func(p *Params) { p.Corpus = gaussian(newRand(1), 20, 4) })},
		"corpus length":     {rows, 20, lab, change(func(p *Params) { p.Corpus = gaussian(newRand(1), 21, 3) })},
		"members are queries": {
			rows, 19, labelledBy(rows[:19], rows, 4), change(func(p *Params) { p.Members = true }),
		},
	} {
		f, err := Learn(context.Background(), c.rows, c.corpus, c.lab, c.p, 1, nil)
		if !errors.Is(err, ErrParams) || f != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Member lists without label tables need no labels, and too large parameters are
// lowered.
func TestLearnAccepts(t *testing.T) {
	rows := gaussian(newRand(9), 40, 3)
	f := learn(t, rows, nil, Params{Kind: RP, Trees: 2, Depth: 2, Members: true})
	if f.Natural || f.Leaves != nil {
		t.Error("tables without labels")
	}
	lab := labelled(rows, 4)
	p := Params{
		Kind: RF, Trees: 2, Depth: 2, Subsample: math.MaxInt / 2, Candidates: 99, LabelsK: 99,
		Density: math.NaN(),
	}
	f = learn(t, rows, lab, p)
	if f.Subsample > 40 || f.Candidates != 3 || f.LabelsK != 4 || !(f.Density > 0) {
		t.Errorf("parameters %+v", f.Params)
	}
	check(t, f, rows, lab)
}

// RouteRotated visits the leaves that Route does, and computes only the coordinates that it compares.
func TestRouteRotated(t *testing.T) {
	rows := gaussian(newRand(1), 600, 40)
	rot := learnRotation(t, rows, 32, 0)
	rotated := make(table, len(rows))
	for i, x := range rows {
		rotated[i] = make([]float32, rot.R)
		rot.Apply(x, rotated[i])
	}
	f := learn(t, rotated, labelled(rotated, 2), Params{Kind: KD, Trees: 2, Depth: 6})
	want, got := make([]uint32, 2), make([]uint32, 2)
	all, z := make([]float32, rot.R), make([]float32, rot.R)
	// Thresholds are coordinates of rows, which may be rounded to either side of them.
	for i, x := range gaussian(newRand(2), 600, 40) {
		for j := range z {
			z[j] = float32(math.NaN())
		}
		rot.Apply(x, all)
		f.Route(all, want)
		f.RouteRotated(rot, x, z, got)
		compared := 0
		for j, y := range z {
			if y == y {
				compared++
				if math.Abs(float64(y-all[j])) > 1e-4 {
					t.Fatalf("coordinate %d of query %d is %v, want %v", j, i, y, all[j])
				}
			}
		}
		if !slices.Equal(got, want) || compared < 1 || compared > 12 {
			t.Fatalf("query %d: leaves %v by %d coordinates, want %v", i, got, compared, want)
		}
	}
}
