package forest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// eachSplit visits the split nodes of all trees with the points that pass
// them, in the order the learner sees: a split keeps it, so it ascends.
func eachSplit(f *Forest, rows table, visit func(tree, node, level int, n Node, points []uint32)) {
	for tree := range f.Trees {
		at := nodePoints(f, tree, rows)
		for level := range f.Depth {
			for node := 1 << level; node < 2<<level; node++ {
				if n := f.Nodes[tree<<f.Depth+node]; !math.IsInf(float64(n.Threshold), 1) {
					visit(tree, node, level, n, at[node])
				}
			}
		}
	}
}

// nodeValues is what a node compares, of all its points, rising.
func nodeValues(f *Forest, rows table, tree, node int, points []uint32) []float32 {
	var v []float32
	for _, i := range points {
		x, _ := side(f, tree, node, rows[i])
		v = append(v, x)
	}
	slices.Sort(v)
	return v
}

// The threshold of every unsupervised kind is the median of the points of its
// node: at least the middle value from below, less than the one from above.
func TestThresholdsAreMedians(t *testing.T) {
	rows := gaussian(newRand(1), 257, 7)
	for _, kind := range []Kind{RP, KD, KDChrono, PCATree} {
		f := learn(t, rows, labelled(rows, 1), Params{Kind: kind, Trees: 3, Depth: 5})
		splits := 0
		eachSplit(f, rows, func(tree, node, _ int, n Node, points []uint32) {
			splits++
			v := nodeValues(f, rows, tree, node, points)
			a, b := v[(len(v)-1)/2], v[len(v)/2]
			if want := (float64(a) + float64(b)) / 2; math.Abs(float64(n.Threshold)-want) > 1e-6 {
				t.Errorf("%s node %d: threshold %v, median %v", kind, node, n.Threshold, want)
			}
		})
		if splits != f.Trees*31 {
			t.Errorf("%s: %d nodes split", kind, splits)
		}
	}
}

// Values one step apart in floating point, ties, and the ends of the range:
// whatever goes left is at most the threshold, and the halves are as equal as
// the ties let them be.
func TestMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bases := []float32{0, 1, -3, 1e-45, 16777216, math.MaxFloat32, -math.MaxFloat32}
		base := rapid.SampledFrom(bases).Draw(t, "base")
		value := rapid.Custom(func(t *rapid.T) float32 {
			v := base
			to := rapid.SampledFrom([]float32{float32(math.Inf(1)), float32(math.Inf(-1)), -base}).Draw(t, "to")
			for range rapid.IntRange(0, 3).Draw(t, "steps") {
				v = math.Nextafter32(v, to)
			}
			if rapid.IntRange(0, 9).Draw(t, "flip") == 0 {
				v = -v
			}
			return v
		})
		v := rapid.SliceOfN(value, 1, 12).Draw(t, "values")
		threshold, ok := median(slices.Clone(v))
		slices.Sort(v)
		n := len(v)
		if !ok {
			if v[0] != v[n-1] {
				t.Fatalf("no median of %v", v)
			}
			return
		}
		left := 0
		for _, x := range v {
			if x <= threshold {
				left++
			}
		}
		// The cut nearest above the middle, or the last one there is.
		want := (n + 1) / 2
		for want < n && v[want] == v[want-1] {
			want++
		}
		if want == n {
			want, _ = slices.BinarySearch(v, v[n-1])
		}
		if left != want {
			t.Fatalf("%v splits %v into %d and %d, want %d", threshold, v, left, n-left, want)
		}
	})
}

// Sums of large coordinates overflow to NaN; such points go left, together
// with minus infinity, and never hide the rest.
func TestMedianOfOverflow(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		v         []float32
		threshold float32
		ok        bool
	}{
		{[]float32{nan, nan, nan}, 0, false},
		{[]float32{nan, -inf, nan}, 0, false},
		{[]float32{inf, inf}, 0, false},
		{[]float32{5, nan, 3, nan}, -inf, true},
		{[]float32{nan, 1, 2}, 1, true},
		{[]float32{inf, nan}, -inf, true},
		{[]float32{inf, 1, inf}, 1, true},
		{[]float32{inf, 1}, 1, true},
	} {
		got, ok := median(slices.Clone(c.v))
		if ok != c.ok || ok && got != c.threshold {
			t.Errorf("median of %v is %v, %v, want %v, %v", c.v, got, ok, c.threshold, c.ok)
		}
	}
}

// A direction for every tree and level, shared by the nodes of the level; each
// entry is standard normal with the given probability, otherwise zero.
func TestRPDirections(t *testing.T) {
	const d, trees, depth = 400, 30, 9
	rows := gaussian(newRand(1), 64, d)
	for _, density := range []float64{0, 0.2, 1} {
		f := learn(t, rows, nil, Params{Kind: RP, Trees: trees, Depth: depth, Members: true, Density: density})
		if density == 0 {
			density = 1 / math.Sqrt(d)
		}
		var entries, sum, square float64
		columns := make([]float64, d)
		for row := range trees * depth {
			lo, hi := f.Proj.Ptr[row], f.Proj.Ptr[row+1]
			idx := f.Proj.Idx[lo:hi]
			if len(idx) == 0 || !slices.IsSorted(idx) || len(slices.Compact(slices.Clone(idx))) != len(idx) {
				t.Fatalf("direction %d has the coordinates %v", row, idx)
			}
			for i, v := range f.Proj.Val[lo:hi] {
				columns[idx[i]]++
				entries++
				sum += float64(v)
				square += float64(v) * float64(v)
			}
		}
		// Five standard deviations about the expectations.
		const cells = d * trees * depth
		if sd := math.Sqrt(cells * density * (1 - density)); math.Abs(entries-cells*density) > 5*sd {
			t.Errorf("density %v: %v entries of %v", density, entries, cells)
		}
		if mean := sum / entries; math.Abs(mean) > 5/math.Sqrt(entries) {
			t.Errorf("density %v: mean %v", density, mean)
		}
		if variance := square / entries; math.Abs(variance-1) > 5*math.Sqrt(2/entries) {
			t.Errorf("density %v: variance %v", density, variance)
		}
		for j, c := range columns {
			const n = trees * depth
			if sd := math.Sqrt(n * density * (1 - density)); math.Abs(c-n*density) > 5*sd {
				t.Errorf("density %v: coordinate %d in %v of %d directions", density, j, c, n)
			}
		}
		eachSplit(f, rows, func(tree, node, level int, n Node, _ []uint32) {
			if int(n.Dim) != tree*depth+level {
				t.Errorf("tree %d level %d compares direction %d", tree, level, n.Dim)
			}
		})
	}
}

// A direction is never empty, at any density.
func TestRPDirectionsAreNeverEmpty(t *testing.T) {
	rows := gaussian(newRand(1), 50, 5)
	f := learn(t, rows, nil, Params{Kind: RP, Trees: 10, Depth: 4, Members: true, Density: 1e-9})
	for i := range f.Proj.Ptr[1:] {
		if f.Proj.Ptr[i+1] != f.Proj.Ptr[i]+1 {
			t.Fatalf("direction %d has %d entries", i, f.Proj.Ptr[i+1]-f.Proj.Ptr[i])
		}
	}
}

// kd splits one of the Candidates coordinates of highest variance among
// Subsample points of the node, evenly spread, and draws all of them.
func TestKDSplitsHighVariance(t *testing.T) {
	rng := newRand(2)
	rows := gaussian(rng, 900, 20)
	for _, x := range rows {
		for j := range x {
			// Close variances about large means, in no order.
			x[j] = x[j]*(1+0.05*float32((j*7)%20)) + 1000*float32(j)
		}
	}
	for _, c := range []struct{ candidates, subsample, wantC, wantS int }{
		{0, 0, 5, 101}, {2, 30, 2, 30}, {1, 900, 1, 900},
	} {
		f := learn(t, rows, nil, Params{
			Kind: KD, Trees: 8, Depth: 5, Members: true, Candidates: c.candidates, Subsample: c.subsample,
		})
		ranks := make([]int, c.wantC)
		eachSplit(f, rows, func(tree, node, _ int, n Node, points []uint32) {
			sample := points
			if len(points) > c.wantS {
				sample = nil
				for i := range c.wantS {
					sample = append(sample, points[i*len(points)/c.wantS])
				}
			}
			variance := make([]float64, 20)
			for j := range variance {
				var column []float64
				for _, i := range sample {
					column = append(column, float64(rows[i][j]))
				}
				variance[j] = stat.Variance(column, nil)
			}
			rank := 0
			for _, v := range variance {
				if v > variance[n.Dim] {
					rank++
				}
			}
			if rank >= c.wantC {
				t.Errorf("tree %d node %d splits the coordinate of rank %d", tree, node, rank)
				return
			}
			ranks[rank]++
		})
		for rank, n := range ranks {
			// 248 draws: each rank is due 248/candidates, half of it for sure.
			if n < 124/c.wantC {
				t.Errorf("ranks are drawn %v times, rank %d too seldom", ranks, rank)
			}
		}
	}
}

// Rows that come sorted by class are split like the same rows in any order: the
// coordinate is one in which the classes lie apart, not one in which the first
// class is wide.
func TestKDSortedRows(t *testing.T) {
	rng := newRand(5)
	rows := gaussian(rng, 2000, 4)
	for i, x := range rows {
		x[0] += float32(i / 100 * 10)
		x[1] *= 3
	}
	f := learn(t, rows, nil, Params{Kind: KD, Trees: 4, Depth: 3, Members: true, Candidates: 1})
	eachSplit(f, rows, func(tree, node, _ int, n Node, _ []uint32) {
		if n.Dim != 0 {
			t.Errorf("tree %d node %d splits coordinate %d", tree, node, n.Dim)
		}
	})
}

// Section 7.2: the coordinate is the level modulo the dimension.
func TestChronologicalTreeCyclesCoordinates(t *testing.T) {
	rows := gaussian(newRand(3), 300, 3)
	f := learn(t, rows, labelled(rows, 1), Params{Kind: KDChrono, Trees: 2, Depth: 7})
	splits := 0
	eachSplit(f, rows, func(_, node, level int, n Node, _ []uint32) {
		splits++
		if int(n.Dim) != level%3 {
			t.Errorf("node %d at level %d splits coordinate %d", node, level, n.Dim)
		}
	})
	if splits != 2*127 {
		t.Errorf("%d nodes split", splits)
	}
}

// factored draws rows of d coordinates that depend on six factors.
func factored(rng *rand.Rand, n, d int) table {
	loadings := gaussian(rng, 6, d)
	rows := gaussian(rng, n, d)
	for i, f := range gaussian(rng, n, 6) {
		for j := range rows[i] {
			rows[i][j] *= 0.5
			for k, load := range loadings {
				rows[i][j] += f[k] * load[j]
			}
		}
	}
	return rows
}

// The directions of pca trees have unit length and the variance of the first principal component,
// at any scale of the data and far from the origin, and differ from tree to tree.
func TestPCAFollowsTheFirstComponent(t *testing.T) {
	const d, trees, depth = 128, 6, 3
	raw := factored(newRand(5), 1000, d)
	scaled := func(scale func(x []float32) float32) table {
		rows := make(table, len(raw))
		for i, x := range raw {
			rows[i] = make([]float32, d)
			for j, v := range x {
				rows[i][j] = v * scale(x)
			}
		}
		return rows
	}
	far := scaled(func([]float32) float32 { return 1 })
	for _, x := range far {
		for j := range x {
			x[j] += 2000 * float32(j%3)
		}
	}
	for name, rows := range map[string]table{
		"raw": raw, "far": far,
		"unit":   scaled(func(x []float32) float32 { return vector.InverseNorm(x) }),
		"tiny":   scaled(func([]float32) float32 { return 1e-6 }),
		"huge":   scaled(func([]float32) float32 { return 1e6 }),
		"lowest": scaled(func([]float32) float32 { return 1e-37 }),
	} {
		t.Run(name, func(t *testing.T) {
			f := learn(t, rows, nil, Params{Kind: PCATree, Trees: trees, Depth: depth, Members: true})
			w := f.DirWidth
			drawn := map[string]bool{}
			eachSplit(f, rows, func(tree, node, _ int, _ Node, points []uint32) {
				slot := tree<<depth + node
				idx, val := f.DirIdx[slot*w:(slot+1)*w], f.DirVal[slot*w:(slot+1)*w]
				drawn[fmt.Sprint(idx)] = true
				if length := vector.Dot(val, val); math.Abs(float64(length)-1) > 1e-5 {
					t.Errorf("direction of squared length %v", length)
				}
				var square, sum float64
				x := mat.NewDense(len(points), w, nil)
				for r, i := range points {
					value := 0.0
					for c, j := range idx {
						x.Set(r, c, float64(rows[i][j]))
						value += float64(rows[i][j]) * float64(val[c])
					}
					sum += value
					square += value * value
				}
				n := float64(len(points))
				got := (square - sum*sum/n) / (n - 1)
				var pc stat.PC
				if !pc.PrincipalComponents(x, nil) {
					t.Fatal("no principal components")
				}
				if most := pc.VarsTo(nil)[0]; !(got >= 0.95*most) {
					t.Errorf("tree %d node %d: variance %g, the first component has %g", tree, node, got, most)
				}
			})
			if want := trees * (1<<depth - 1); len(drawn) != want {
				t.Errorf("%d different draws of coordinates for %d nodes", len(drawn), want)
			}
		})
	}
}

// logLikelihood is that of the multinomial model of section 4 under the
// pick-all-labels reduction: every label of every point is an observation, its
// probability the label's share of the observations of the node.
func logLikelihood(lab *labels.Neighbors, k int, points []uint32) float64 {
	counts := map[uint32]float64{}
	total := 0.0
	for _, i := range points {
		for _, l := range lab.Row(int(i))[:k] {
			counts[l]++
			total++
		}
	}
	sum := 0.0
	for _, c := range counts {
		sum += c * math.Log2(c/total)
	}
	return sum
}

// bestSplit is the largest gain in log-likelihood per point over all cuts of
// all coordinates of the points.
func bestSplit(rows table, lab *labels.Neighbors, k int, points []uint32) float64 {
	best := 0.0
	for dim := range rows.Dim() {
		order := slices.SortedFunc(slices.Values(points), func(a, b uint32) int {
			return cmp.Compare(rows[a][dim], rows[b][dim])
		})
		for i := 1; i < len(order); i++ {
			if rows[order[i-1]][dim] < rows[order[i]][dim] {
				best = max(best, gain(lab, k, order[:i], order[i:]))
			}
		}
	}
	return best
}

func gain(lab *labels.Neighbors, k int, left, right []uint32) float64 {
	all := slices.Concat(left, right)
	sides := logLikelihood(lab, k, left) + logLikelihood(lab, k, right)
	return (sides - logLikelihood(lab, k, all)) / float64(len(all))
}

// With all coordinates competing and no sampling, rf takes a cut of the
// highest likelihood, half way between two values.
func TestRFTakesTheMostLikelySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		d := rapid.IntRange(1, 4).Draw(t, "d")
		k := rapid.IntRange(1, 5).Draw(t, "k")
		rng := newRand(rapid.Uint64().Draw(t, "data"))
		rows := gaussian(rng, n, d)
		if rapid.Bool().Draw(t, "ties") {
			rows = levelled(rng, n, d, 4)
		}
		lab := labelled(rows, k)
		used := rapid.IntRange(1, lab.K).Draw(t, "used")
		p := Params{Kind: RF, Trees: 1, Depth: 4, Candidates: d, LabelsK: used}
		f, err := Learn(context.Background(), rows, n, lab, p, 1, nil)
		must(t, err)
		at := nodePoints(f, 0, rows)
		for node := 1; node < 1<<f.Depth; node++ {
			best := bestSplit(rows, lab, used, at[node])
			threshold := f.Nodes[node].Threshold
			if math.IsInf(float64(threshold), 1) {
				if best > 1e-9 {
					t.Fatalf("node %d is not split, the best cut gains %v", node, best)
				}
				continue
			}
			left, right := at[2*node], at[2*node+1]
			if len(left) == 0 || len(right) == 0 {
				t.Fatalf("node %d splits %d and %d points", node, len(left), len(right))
			}
			if got := gain(lab, used, left, right); got < best-minGain-1e-9 {
				t.Fatalf("node %d gains %v, the best cut %v", node, got, best)
			}
			v := nodeValues(f, rows, 0, node, at[node])
			if a, b := v[len(left)-1], v[len(left)]; math.Abs(float64(threshold)-(float64(a)+float64(b))/2) > 1e-6 {
				t.Fatalf("node %d: threshold %v between %v and %v", node, threshold, a, b)
			}
		}
	})
}

// √d coordinates compete, the same in all nodes of a level, others in the next.
func TestRFDrawsCoordinatesPerLevel(t *testing.T) {
	const d, trees, depth = 36, 5, 5
	rows := gaussian(newRand(6), 800, d)
	f := learn(t, rows, labelled(rows, 5), Params{Kind: RF, Trees: trees, Depth: depth})
	levels := map[[2]int]map[uint32]bool{}
	all := map[uint32]bool{}
	eachSplit(f, rows, func(tree, _, level int, n Node, _ []uint32) {
		key := [2]int{tree, level}
		if levels[key] == nil {
			levels[key] = map[uint32]bool{}
		}
		levels[key][n.Dim] = true
		all[n.Dim] = true
	})
	for key, dims := range levels {
		if len(dims) > 6 {
			t.Errorf("tree %d level %d splits %d coordinates", key[0], key[1], len(dims))
		}
	}
	if last := len(levels[[2]int{0, depth - 1}]); last < 3 || len(all) < d/2 {
		t.Errorf("%d coordinates in the last level of a tree, %d in all", last, len(all))
	}
}

// A sample is drawn without replacement, evenly, from either side of the size
// at which the method changes.
func TestRFSample(t *testing.T) {
	const subsample, rounds = 20, 3000
	for _, n := range []int{5, 20, 21, 79, 80, 200} {
		points := make([]uint32, n)
		for i := range points {
			points[i] = uint32(1000 + i)
		}
		g := &grower{f: &Forest{Params: Params{Subsample: subsample}}, rng: newRand(uint64(n))}
		s := newSplitSearch(1, subsample)
		hits := make([]float64, n)
		for range rounds {
			s.draw(g, points)
			if len(s.sample) != min(n, subsample) {
				t.Fatalf("%d of %d points drawn", len(s.sample), n)
			}
			if sorted := slices.Sorted(slices.Values(s.sample)); len(slices.Compact(sorted)) != len(s.sample) {
				t.Fatalf("a point is drawn twice of %d", n)
			}
			for _, p := range s.sample {
				hits[p-1000]++
			}
		}
		share := min(1, subsample/float64(n))
		for i, h := range hits {
			if sd := math.Sqrt(rounds * share * (1 - share)); math.Abs(h-rounds*share) > 5*sd {
				t.Errorf("point %d of %d drawn %v times, due %v", i, n, h, rounds*share)
			}
		}
		for i, p := range points {
			if p != uint32(1000+i) {
				t.Fatal("drawing reorders the node's points")
			}
		}
	}
}
