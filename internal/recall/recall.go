// Package recall counts which hits of searches are right.
package recall

import "slices"

// Truth has the exact answers of queries, in order.
type Truth struct {
	rows [][]uint32 // ascending
	far  []float32  // distance of the farthest of them
	want int
}

// Add takes the exact answer of the next query: its rows and the distance of
// the farthest. It keeps and sorts rows.
func (t *Truth) Add(rows []uint32, far float32) {
	slices.Sort(rows)
	t.rows = append(t.rows, rows)
	t.far = append(t.far, far)
	t.want += len(rows)
}

// Right reports whether a hit of query i counts: one of the true rows, or one as
// near as the farthest of them, so that ties cost nothing.
func (t *Truth) Right(i int, row uint32, distance float32) bool {
	if distance <= t.far[i] {
		return true
	}
	_, ok := slices.BinarySearch(t.rows[i], row)
	return ok
}

// Recall returns the share of all true rows that the given number of right hits is.
func (t *Truth) Recall(right int) float64 {
	if t.want == 0 {
		return 0
	}
	return float64(right) / float64(t.want)
}
