package labeltree

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/vector"
)

const (
	// meanFeatures is the number of the largest coordinates of a label's mean row that clusters are made by.
	meanFeatures = 1000
	// meanRounds bounds the rounds of k-means.
	meanRounds = 20
)

// clusterer divides labels into groups of similar rows.
type clusterer struct {
	means []vector.Sparse // by label, of unit length
	cols  int
	rng   *rand.Rand
}

// newClusterer computes the means of the labels of a job.
func newClusterer(j *Job, rows [][]int32) *clusterer {
	c := &clusterer{cols: j.X.Cols, rng: rand.New(rand.NewPCG(j.Params.Seed, 0x6b6d))}
	sum := make([]float32, j.X.Cols)
	for _, list := range rows {
		var touched []uint32
		for _, r := range list {
			x := j.X.Row(int(r))
			for i, f := range x.Index {
				if sum[f] == 0 {
					touched = append(touched, f)
				}
				sum[f] += x.Value[i]
			}
		}
		slices.SortFunc(touched, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(math.Abs(float64(sum[b])), math.Abs(float64(sum[a]))), cmp.Compare(a, b))
		})
		touched = slices.Compact(touched)
		for _, f := range touched[min(len(touched), meanFeatures):] {
			sum[f] = 0
		}
		touched = touched[:min(len(touched), meanFeatures)]
		slices.Sort(touched)
		mean, square := vector.Sparse{Index: slices.Clone(touched)}, 0.
		for _, f := range touched {
			mean.Value = append(mean.Value, sum[f])
			square += float64(sum[f]) * float64(sum[f])
			sum[f] = 0
		}
		if square > 0 {
			for i := range mean.Value {
				mean.Value[i] /= float32(math.Sqrt(square))
			}
		}
		c.means = append(c.means, mean)
	}
	return c
}

// groups divides labels into n groups, whose sizes differ by at most one.
func (c *clusterer) groups(list []uint32, n int) [][]uint32 {
	if n == 1 {
		slices.Sort(list)
		return [][]uint32{list}
	}
	at := len(list) * (n / 2) / n
	c.halve(list, at)
	return append(c.groups(list[:at:at], n/2), c.groups(list[at:], n-n/2)...)
}

// halve moves similar labels to the first at places, by 2-means on the unit sphere with fixed sizes.
func (c *clusterer) halve(list []uint32, at int) {
	// difference is the first center less the second one: a label's product with it decides the half.
	difference := make([]float32, c.cols)
	first := c.rng.IntN(len(list))
	second := (first + 1 + c.rng.IntN(len(list)-1)) % len(list)
	c.addTo(difference, list[first], 1)
	c.addTo(difference, list[second], -1)
	score := make(map[uint32]float32, len(list))
	for range meanRounds {
		before := slices.Clone(list[:at])
		for _, l := range list {
			score[l] = dot(difference, c.means[l])
		}
		slices.SortFunc(list, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(score[b], score[a]), cmp.Compare(a, b))
		})
		slices.Sort(list[:at])
		if slices.Equal(before, list[:at]) {
			return
		}
		clear(difference)
		center := make([]float32, c.cols)
		for half, part := range [][]uint32{list[:at], list[at:]} {
			clear(center)
			for _, l := range part {
				c.addTo(center, l, 1)
			}
			square := 0.
			for _, x := range center {
				square += float64(x) * float64(x)
			}
			scale := float32(1 / math.Sqrt(max(square, math.SmallestNonzeroFloat32)))
			if half == 1 {
				scale = -scale
			}
			for f, x := range center {
				difference[f] += scale * x
			}
		}
	}
}

// addTo adds the mean of a label times a factor.
func (c *clusterer) addTo(to []float32, label uint32, factor float32) {
	m := c.means[label]
	for i, f := range m.Index {
		to[f] += factor * m.Value[i]
	}
}

func dot(dense []float32, x vector.Sparse) (sum float32) {
	for i, f := range x.Index {
		sum += dense[f] * x.Value[i]
	}
	return sum
}
