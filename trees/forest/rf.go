package forest

import (
	"cmp"
	"math"
	"slices"
)

// minGain is the margin by which a later cut must beat the best so far. It prevents
// rounding errors from deciding between equal splits.
const minGain = 0.001

// splitSearch finds the split of highest multinomial log-likelihood under the
// pick-all-labels reduction: every label of a point is one training instance
// of a multiclass problem (Hyvönen 2022, section 2.2). For n points with k
// labels each and label counts v the impurity is
//
//	k·log₂ n − (1/n)·Σ v·log₂ v
//
// which is k times the entropy of the label proportions minus the constant k·log₂ k.
// The impurity minus its mean over the children is therefore the gain of the
// log-likelihood per point. Labels are numbered densely per node and x·log₂ x comes
// from a table, so a cut costs k table look-ups instead of an array over all rows.
type splitSearch struct {
	dense   []int32   // row number → dense label of this node + 1
	touched []uint32  // row numbers to reset in dense
	labels  []int32   // sample × k dense labels
	left    []int32   // counts left of the cut
	total   []int32   // counts of the sample
	xlogx   []float64 // xlogx[i] = i·log₂ i
	sample  []uint32
	order   []pointValue
}

type pointValue struct {
	value float32
	at    int32 // position in the sample
}

// newSplitSearch returns a search for samples of at most points points, which is also
// the largest count of a label.
func newSplitSearch(corpusN, points int) *splitSearch {
	s := &splitSearch{dense: make([]int32, corpusN), xlogx: make([]float64, points+1)}
	for i := 2; i < len(s.xlogx); i++ {
		s.xlogx[i] = float64(i) * math.Log2(float64(i))
	}
	return s
}

// drawLevelDims draws the coordinates that compete at one level of a tree.
func (g *grower) drawLevelDims() {
	d := g.f.Dim
	g.levelDims = g.levelDims[:0]
	for len(g.levelDims) < g.f.Candidates {
		j := uint32(g.rng.IntN(d))
		if !slices.Contains(g.levelDims, j) {
			g.levelDims = append(g.levelDims, j)
		}
	}
}

// search returns the best split of the node over a sample of its points.
func (s *splitSearch) search(g *grower, points []uint32) (Node, bool) {
	s.draw(g, points)
	s.number(g)
	n := len(s.sample)
	k := g.f.LabelsK
	var parentSum float64
	for _, c := range s.total {
		parentSum += s.xlogx[c]
	}
	parent := s.impurity(n, k, parentSum)
	best, found := Node{Threshold: float32(math.Inf(1))}, false
	bestGain := 0.0
	for _, dim := range g.levelDims {
		s.order = s.order[:0]
		for at, p := range s.sample {
			s.order = append(s.order, pointValue{g.train.Row(int(p), g.row)[dim], int32(at)})
		}
		slices.SortFunc(s.order, func(a, b pointValue) int {
			if c := cmp.Compare(a.value, b.value); c != 0 {
				return c
			}
			return cmp.Compare(a.at, b.at)
		})
		if s.order[0].value == s.order[n-1].value {
			continue
		}
		clear(s.left)
		leftSum, rightSum := 0.0, parentSum
		for i := range n - 1 {
			at := int(s.order[i].at)
			for _, l := range s.labels[at*k : (at+1)*k] {
				lc := s.left[l]
				rc := s.total[l] - lc
				leftSum += s.xlogx[lc+1] - s.xlogx[lc]
				rightSum += s.xlogx[rc-1] - s.xlogx[rc]
				s.left[l] = lc + 1
			}
			a, b := s.order[i].value, s.order[i+1].value
			if a == b {
				continue
			}
			nl, nr := float64(i+1), float64(n-i-1)
			gain := parent - (nl*s.impurity(i+1, k, leftSum)+nr*s.impurity(n-i-1, k, rightSum))/float64(n)
			if gain > bestGain+minGain || !found && gain > 0 {
				best, bestGain, found = Node{Threshold: between(a, b), Dim: dim}, gain, true
			}
		}
	}
	return best, found
}

func (s *splitSearch) impurity(n, k int, sum float64) float64 {
	return float64(k)*math.Log2(float64(n)) - sum/float64(n)
}

// draw samples at most Subsample of the points without replacement.
func (s *splitSearch) draw(g *grower, points []uint32) {
	if len(points) <= g.f.Subsample {
		s.sample = append(s.sample[:0], points...)
		return
	}
	// Floyd's method needs a set too; with few draws from many points, drawing again
	// after a duplicate is as fast.
	s.sample = s.sample[:0]
	if len(points) < 4*g.f.Subsample {
		s.sample = append(s.sample, points...)
		for i := range g.f.Subsample {
			j := i + g.rng.IntN(len(s.sample)-i)
			s.sample[i], s.sample[j] = s.sample[j], s.sample[i]
		}
		s.sample = s.sample[:g.f.Subsample]
		return
	}
	seen := make(map[uint32]struct{}, g.f.Subsample)
	for len(s.sample) < g.f.Subsample {
		p := points[g.rng.IntN(len(points))]
		if _, dup := seen[p]; !dup {
			seen[p] = struct{}{}
			s.sample = append(s.sample, p)
		}
	}
}

// number assigns dense numbers to the sample's labels and counts the labels.
func (s *splitSearch) number(g *grower) {
	k := g.f.LabelsK
	s.labels, s.total, s.touched = s.labels[:0], s.total[:0], s.touched[:0]
	for _, p := range s.sample {
		for _, l := range g.lab.Row(int(p))[:k] {
			if s.dense[l] == 0 {
				s.touched = append(s.touched, l)
				s.total = append(s.total, 0)
				s.dense[l] = int32(len(s.total))
			}
			d := s.dense[l] - 1
			s.total[d]++
			s.labels = append(s.labels, d)
		}
	}
	for _, l := range s.touched {
		s.dense[l] = 0
	}
	s.left = slices.Grow(s.left[:0], len(s.total))[:len(s.total)]
}
