package postingsindex

import (
	"slices"
	"testing"
)

// TestPlanSegments writes rows in portions of many sizes: segments stay few,
// and a row is written a number of times that grows like a logarithm.
func TestPlanSegments(t *testing.T) {
	for _, portion := range []int{1, 7, 100} {
		var segments []Segment
		written, rows := 0, 0
		for range 3000 {
			rows += portion
			for {
				from, to, end, ok := PlanSegments(segments, rows, func(*Segment) int { return 0 })
				if !ok {
					break
				}
				first := 0
				if from > 0 {
					first = segments[from-1].First + segments[from-1].Rows
				}
				written += end - first
				segments = slices.Replace(segments, from, to, Segment{First: first, Rows: end - first})
			}
			if len(segments) > 12 {
				t.Fatalf("%d segments of %d rows", len(segments), rows)
			}
		}
		if times := float64(written) / float64(rows); times > 24 {
			t.Errorf("in portions of %d a row is written %.1f times", portion, times)
		}
	}
}

// TestPlanSegmentsDeleted plans steps for segments that have lost rows: fresh rows
// come first, and a segment is rewritten once more than a quarter of it is deleted.
func TestPlanSegmentsDeleted(t *testing.T) {
	type seg struct{ rows, dead, deleted int } // left out when written, deleted since
	for _, c := range []struct {
		name     string
		segments []seg
		fresh    int
		want     [3]int // from, to, end
		ok       bool
	}{
		{"nothing", []seg{{1000, 0, 0}}, 0, [3]int{}, false},
		{"a quarter", []seg{{1000, 0, 250}}, 0, [3]int{}, false},
		{"more than a quarter", []seg{{1000, 0, 251}}, 0, [3]int{0, 1, 1000}, true},
		{"left out before", []seg{{1000, 600, 0}}, 0, [3]int{}, false},
		{"more than a quarter of the rest", []seg{{1000, 600, 101}}, 0, [3]int{0, 1, 1000}, true},
		{"all rows", []seg{{1000, 0, 1000}, {100, 0, 0}}, 0, [3]int{0, 1, 1000}, true},
		{"the one in the middle", []seg{{1000, 0, 30}, {100, 0, 30}, {10, 0, 2}}, 0, [3]int{1, 2, 1100}, true},
		{"the first that is due", []seg{{1000, 0, 30}, {100, 0, 30}, {10, 0, 9}}, 0, [3]int{1, 2, 1100}, true},
		{"fresh rows first", []seg{{1000, 0, 400}}, 10, [3]int{1, 1, 1010}, true},
		{"merged with what is left", []seg{{1000, 0, 980}}, 10, [3]int{0, 1, 1010}, true},
		{"merged up to a large one", []seg{{1000, 0, 400}, {100, 0, 80}}, 10, [3]int{1, 2, 1110}, true},
	} {
		var segments []Segment
		deleted := map[int]int{} // by first row
		rows := 0
		for _, s := range c.segments {
			deleted[rows] = s.deleted
			segments = append(segments, Segment{First: rows, Rows: s.rows, Dead: s.dead})
			rows += s.rows
		}
		from, to, end, ok := PlanSegments(segments, rows+c.fresh, func(g *Segment) int { return deleted[g.First] })
		if got := [3]int{from, to, end}; got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, got, ok, c.want, c.ok)
		}
	}
}

// TestCheckSegments: segments cover all rows in sequence, each in an object of its own.
func TestCheckSegments(t *testing.T) {
	many := func(n int) (out []Segment) {
		for i := range n {
			out = append(out, Segment{Object: uint64(i), First: i, Rows: 1})
		}
		return out
	}
	for _, c := range []struct {
		name     string
		segments []Segment
		rows     int
		ok       bool
	}{
		{"one", []Segment{{Object: 1, Rows: 10}}, 10, true},
		{"two", []Segment{{Object: 1, Rows: 10}, {Object: 2, First: 10, Rows: 5, Dead: 5}}, 15, true},
		{"none", nil, 0, false},
		{"one object twice", []Segment{{Object: 1, Rows: 10}, {Object: 1, First: 10, Rows: 5}}, 15, false},
		{"a gap", []Segment{{Object: 1, Rows: 10}, {Object: 2, First: 11, Rows: 5}}, 15, false},
		{"an overlap", []Segment{{Object: 1, Rows: 10}, {Object: 2, First: 9, Rows: 6}}, 15, false},
		{"no rows", []Segment{{Object: 1, Rows: 10}, {Object: 2, First: 10}}, 10, false},
		{"a negative number of deleted rows", []Segment{{Object: 1, Rows: 10, Dead: -1}}, 10, false},
		{"more deleted rows than rows", []Segment{{Object: 1, Rows: 10, Dead: 11}}, 10, false},
		{"fewer rows than the index", []Segment{{Object: 1, Rows: 9}}, 10, false},
		{"more rows than the index", []Segment{{Object: 1, Rows: 11}}, 10, false},
		{"an inverted index of a label model of dense rows", []Segment{{Object: 1, Rows: 10, Index: &scalars{}}}, 10, false},
		{"the most segments", many(maxSegments), maxSegments, true},
		{"too many segments", many(maxSegments + 1), maxSegments + 1, false},
	} {
		if ok := CheckSegments(c.segments, c.rows, false) == nil; ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
	}
	if CheckSegments([]Segment{{Object: 1, Rows: 10}}, 10, true) == nil {
		t.Error("a segment without its inverted index is valid")
	}
}
