package plot

import (
	"cmp"
	"math"
	"slices"
)

// RecallTime returns a chart of recall against time per query in microseconds: a curve further
// down and to the right is better. Recall below minRecall is left out.
func RecallTime(title string, minRecall float64, curves ...Series) *Chart {
	return &Chart{
		Title: title, Series: curves,
		X: Axis{Label: "recall", Scale: Recall, Min: minRecall},
		Y: Axis{Label: "time per query (µs)", Scale: Log},
	}
}

// Front returns the Pareto front of points of recall (X) and time (Y), by recall ascending: the
// points that no other point beats in both. O(n log n).
func Front(points []Point) []Point {
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b Point) int {
		return cmp.Or(cmp.Compare(b.X, a.X), cmp.Compare(a.Y, b.Y))
	})
	best := math.Inf(1)
	front := p[:0]
	for _, x := range p {
		if x.Y < best {
			best = x.Y
			front = append(front, x)
		}
	}
	slices.Reverse(front)
	return front
}
