package forest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// grower is the working memory of a goroutine that grows trees.
type grower struct {
	f     *Forest
	train labels.Rows
	lab   *labels.Neighbors
	rng   *rand.Rand
	t     int

	points []uint32  // in the order of the partition so far
	values []float32 // projection of each point of the node
	sorted []float32
	tmp    []uint32
	row    []float32
	spread []uint32 // the sample of points for estimates of variances

	levelDims []uint32 // rf: candidates of the level
	rf        *splitSearch
}

func newGrower(f *Forest, train labels.Rows, lab *labels.Neighbors) *grower {
	n := train.Len()
	g := &grower{
		f: f, train: train, lab: lab,
		values: make([]float32, n), sorted: make([]float32, n), tmp: make([]uint32, n), row: make([]float32, f.Dim),
	}
	if f.Kind == RF {
		g.rf = newSplitSearch(f.CorpusN, f.Subsample)
	}
	return g
}

// treeRand returns the random number stream of tree t for a purpose.
func treeRand(seed uint64, t int, purpose uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<32|uint64(t)))
}

const (
	streamSplits = iota + 1
	streamProjections
)

// tree grows tree t level by level and returns its partition.
func (g *grower) tree(ctx context.Context, t int) partition {
	f, n := g.f, g.train.Len()
	g.t = t
	g.rng = treeRand(f.Seed, t, streamSplits)
	g.points = make([]uint32, n)
	for i := range g.points {
		g.points[i] = uint32(i)
	}
	bounds := []int{0, n}
	for level := range f.Depth {
		if f.Kind == RF {
			g.drawLevelDims()
		}
		nextBounds := make([]int, 0, 2*len(bounds)-1)
		nextBounds = append(nextBounds, 0)
		for i := range len(bounds) - 1 {
			if ctx.Err() != nil {
				return partition{}
			}
			lo, hi := bounds[i], bounds[i+1]
			mid := g.split(1<<level+i, level, lo, hi)
			nextBounds = append(nextBounds, mid, hi)
		}
		bounds = nextBounds
	}
	return partition{points: g.points, ends: bounds[1:]}
}

// split chooses the split of a node, reorders its points, and returns the start of the
// right child.
func (g *grower) split(node, level, lo, hi int) int {
	slot := g.t<<g.f.Depth + node
	points := g.points[lo:hi]
	values := g.values[:len(points)]
	leaf := Node{Threshold: float32(math.Inf(1))}
	g.f.Nodes[slot] = leaf
	if len(points) < 2 {
		return hi
	}
	var choice Node
	ok := true
	switch g.f.Kind {
	case KD:
		choice.Dim, ok = g.varianceDim(points)
		g.coordinate(points, int(choice.Dim), values)
	case KDChrono:
		choice.Dim = uint32(level % g.f.Dim)
		g.coordinate(points, int(choice.Dim), values)
	case RP:
		choice.Dim = uint32(g.t*g.f.Depth + level)
		g.project(points, int(choice.Dim), values)
	case PCATree:
		choice.Dim = 0
		g.principal(points, slot)
		g.direction(points, slot, values)
	case RF:
		choice, ok = g.rf.search(g, points)
		if ok {
			g.coordinate(points, int(choice.Dim), values)
		}
	}
	if !ok {
		return hi
	}
	if g.f.Kind != RF {
		copy(g.sorted, values)
		choice.Threshold, ok = median(g.sorted[:len(values)])
		if !ok {
			return hi
		}
	}
	g.f.Nodes[slot] = choice
	return lo + g.divide(points, values, choice.Threshold)
}

// divide moves the points that do not exceed the threshold to the front and keeps the
// order on both sides. NaN goes left, as in Route.
func (g *grower) divide(points []uint32, values []float32, threshold float32) int {
	left, right := 0, 0
	for i, p := range points {
		if values[i] > threshold {
			g.tmp[right] = p
			right++
		} else {
			points[left] = p
			left++
		}
	}
	copy(points[left:], g.tmp[:right])
	return left
}

// median returns the middle value, for even counts the mean of the two middle ones. It
// returns a lower value if ties would send every point to the left. ok is false if all
// values are equal. It reorders v. A projection that overflowed to NaN counts as -Inf,
// which also goes left.
func median(v []float32) (threshold float32, ok bool) {
	for i, x := range v {
		if x != x {
			v[i] = float32(math.Inf(-1))
		}
	}
	n := len(v)
	least, most := slices.Min(v), slices.Max(v)
	if least == most {
		return 0, false
	}
	vector.SelectNth(v, n/2)
	threshold = v[n/2]
	if n%2 == 0 {
		threshold = between(slices.Max(v[:n/2]), threshold)
	}
	if threshold < most {
		return threshold, true
	}
	// The upper half is one value: cut below it.
	threshold = least
	for _, x := range v {
		if x < most {
			threshold = max(threshold, x)
		}
	}
	return threshold, true
}

// between returns the mean of a ≤ b, or a if float32 has no value between them: the
// threshold must stay below b, so that b goes right.
func between(a, b float32) float32 {
	if mid := float32((float64(a) + float64(b)) / 2); mid < b {
		return mid
	}
	return a
}

func (g *grower) coordinate(points []uint32, dim int, values []float32) {
	for i, p := range points {
		values[i] = g.train.Row(int(p), g.row)[dim]
	}
}

func (g *grower) project(points []uint32, row int, values []float32) {
	p := &g.f.Proj
	lo, hi := p.Ptr[row], p.Ptr[row+1]
	for i, pt := range points {
		values[i] = sparseDot(p.Idx[lo:hi], p.Val[lo:hi], g.train.Row(int(pt), g.row))
	}
}

func (g *grower) direction(points []uint32, slot int, values []float32) {
	w := g.f.DirWidth
	idx, val := g.f.DirIdx[slot*w:(slot+1)*w], g.f.DirVal[slot*w:(slot+1)*w]
	for i, pt := range points {
		values[i] = sparseDot(idx, val, g.train.Row(int(pt), g.row))
	}
}

func sparseDot(idx []uint32, val, x []float32) float32 {
	val = val[:len(idx)]
	var s float32
	for i, j := range idx {
		s += val[i] * x[j]
	}
	return s
}

// varianceDim draws one of the Candidates coordinates of highest variance, estimated
// on Subsample of the node's points, or on all of them if the sampled points are equal.
// ok is false if all points are equal. The sample is evenly spaced, since in a file
// that is sorted by similarity the first points are similar to each other.
func (g *grower) varianceDim(points []uint32) (dim uint32, ok bool) {
	g.spread = spread(g.spread[:0], points, g.f.Subsample)
	top := g.varying(g.spread)
	if len(top) == 0 {
		top = g.varying(points)
	}
	if len(top) == 0 {
		return 0, false
	}
	return top[g.rng.IntN(len(top))], true
}

// spread appends m of the points, evenly spaced, or all if there are no more.
func spread(dst, points []uint32, m int) []uint32 {
	n := len(points)
	if n <= m {
		return append(dst, points...)
	}
	for i := range m {
		dst = append(dst, points[i*n/m])
	}
	return dst
}

// varying returns the at most Candidates coordinates of highest variance among the
// points, highest first, without constant ones. It sums the differences to the first
// point, so that the variance of a constant coordinate is exactly zero, and a large
// mean costs no precision.
func (g *grower) varying(points []uint32) []uint32 {
	d := g.f.Dim
	sum, square := make([]float64, d), make([]float64, d)
	origin := slices.Clone(g.train.Row(int(points[0]), g.row))
	for _, p := range points {
		for j, v := range g.train.Row(int(p), g.row) {
			x := float64(v) - float64(origin[j])
			sum[j] += x
			square[j] += x * x
		}
	}
	n := float64(len(points))
	for j := range square {
		square[j] -= sum[j] * sum[j] / n
	}
	top := make([]uint32, 0, g.f.Candidates+1)
	for j := range d {
		if square[j] <= 0 {
			continue
		}
		at := len(top)
		for at > 0 && square[j] > square[top[at-1]] {
			at--
		}
		if at < g.f.Candidates {
			top = slices.Insert(top, at, uint32(j))
			top = top[:min(len(top), g.f.Candidates)]
		}
	}
	return top
}

// drawProjections draws one sparse Gaussian direction per tree and level.
func (f *Forest) drawProjections() {
	f.Proj.Ptr = append(f.Proj.Ptr, 0)
	for t := range f.Trees {
		rng := treeRand(f.Seed, t, streamProjections)
		for range f.Depth {
			start := len(f.Proj.Idx)
			for j := range f.Dim {
				if rng.Float64() < f.Density {
					f.Proj.Idx = append(f.Proj.Idx, uint32(j))
					f.Proj.Val = append(f.Proj.Val, float32(rng.NormFloat64()))
				}
			}
			if len(f.Proj.Idx) == start { // a direction must not be empty
				f.Proj.Idx = append(f.Proj.Idx, uint32(rng.IntN(f.Dim)))
				f.Proj.Val = append(f.Proj.Val, 1)
			}
			f.Proj.Ptr = append(f.Proj.Ptr, uint32(len(f.Proj.Idx)))
		}
	}
}

// The power iteration ends after powerSteps steps, or when the squared change of a step
// falls below powerEnd.
const (
	powerSteps = 50
	powerEnd   = 1e-6
)

// principal finds the first principal direction of the node's points in DirWidth
// coordinates, drawn with replacement (Jääsaari 2019), by power iteration from a
// Gaussian start. A power step has no step size that depends on the scale of the data.
// The random coordinates make the trees differ.
func (g *grower) principal(points []uint32, slot int) {
	w := g.f.DirWidth
	idx, val := g.f.DirIdx[slot*w:(slot+1)*w], g.f.DirVal[slot*w:(slot+1)*w]
	for i := range idx {
		idx[i] = uint32(g.rng.IntN(g.f.Dim))
	}
	v := make([]float64, w)
	for i := range v {
		v[i] = g.rng.NormFloat64()
	}
	normalise(v)
	cov := g.covariance(points, idx)
	next := make([]float64, w)
	for range powerSteps {
		for i := range w {
			next[i] = dot(cov[i*w:(i+1)*w], v)
		}
		if !normalise(next) {
			break // the points are equal in these coordinates
		}
		var change float64
		for i := range w {
			change += (next[i] - v[i]) * (next[i] - v[i])
		}
		copy(v, next)
		if change < powerEnd {
			break
		}
	}
	for i := range v {
		val[i] = float32(v[i])
	}
}

// covariance returns the w × w covariance of the node's points in the w given
// coordinates.
func (g *grower) covariance(points []uint32, idx []uint32) []float64 {
	w := len(idx)
	mean, x, cov := make([]float64, w), make([]float64, w), make([]float64, w*w)
	for _, p := range points {
		row := g.train.Row(int(p), g.row)
		for i, j := range idx {
			mean[i] += float64(row[j])
		}
	}
	n := float64(len(points))
	for i := range mean {
		mean[i] /= n
	}
	for _, p := range points {
		row := g.train.Row(int(p), g.row)
		for i, j := range idx {
			x[i] = float64(row[j]) - mean[i]
		}
		for i := range w {
			for j := i; j < w; j++ {
				cov[i*w+j] += x[i] * x[j]
			}
		}
	}
	for i := range w {
		for j := i; j < w; j++ {
			cov[i*w+j] /= n
			cov[j*w+i] = cov[i*w+j]
		}
	}
	return cov
}

// normalise scales v to length one and reports whether its length is positive.
func normalise(v []float64) bool {
	length := math.Sqrt(dot(v, v))
	if !(length > 0) {
		return false
	}
	for i := range v {
		v[i] /= length
	}
	return true
}

func dot(a, b []float64) float64 {
	b = b[:len(a)]
	var s float64
	for i, x := range a {
		s += x * b[i]
	}
	return s
}
