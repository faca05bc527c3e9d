package segment

import (
	"slices"
	"testing"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
)

// manifestOf returns the manifest of an index of segments with these numbers of rows.
func manifestOf(of kind.Kind, rows ...int) *kind.Manifest {
	m := &kind.Manifest{Of: of}
	for _, n := range rows {
		m.Segments = append(m.Segments, kind.Segment{First: m.Info.Rows, Rows: n})
		m.Info.Rows += n
	}
	return m
}

// TestPlanGrowth writes rows in portions of many sizes: segments stay few, and a row is built into few of
// them.
func TestPlanGrowth(t *testing.T) {
	for _, portion := range []int{1, 7, 100} {
		m, built := manifestOf(postingsindex.Kind{}, portion), 0
		for rows := portion; rows < 3000*portion; rows += portion {
			for {
				p, ok := planOf(m, rows, func(*kind.Segment) int { return 0 }, Effort{}, false)
				if !ok {
					break
				}
				g := kind.Segment{First: m.Info.Rows, Rows: rows - m.Info.Rows}
				if p.from < p.to {
					g.First, g.Rows = m.Segments[p.from].First, rows-m.Segments[p.from].First
				}
				built += g.Rows
				m.Segments, m.Info.Rows = slices.Replace(m.Segments, p.from, p.to, g), rows
			}
			if len(m.Segments) > kind.MaxSegments || m.Info.Rows != rows {
				t.Fatalf("%d segments of %d rows, want all %d", len(m.Segments), m.Info.Rows, rows)
			}
		}
		if times := float64(built) / float64(m.Info.Rows); times > 40 {
			t.Errorf("in portions of %d a row is built %.1f times", portion, times)
		}
	}
}

// TestPlan: fresh rows become a segment when they are enough, with small ones that are not much larger;
// all rows become one when a fifth has changed, or when a collection rests.
func TestPlan(t *testing.T) {
	several, one, sums := postingsindex.Kind{}, treeindex.Kind{}, lcifindex.Kind{}
	exact := Effort{Exact: true}
	background := Effort{Share: 0.01, Fresh: 1024}
	for _, c := range []struct {
		name     string
		of       kind.Kind
		segments []int
		fresh    int
		changed  int // deleted or relabelled, of segment in
		in       int
		effort   Effort
		resting  bool
		want     plan
		ok       bool
	}{
		{name: "nothing", of: several, segments: []int{1000}},
		{name: "nothing at rest", of: several, segments: []int{1000}, resting: true},
		{name: "a fresh row", of: several, segments: []int{1000}, fresh: 1, want: plan{1, 1}, ok: true},
		{name: "a small share", of: several, segments: []int{1000}, fresh: 9, effort: background},
		{name: "the share", of: several, segments: []int{1000}, fresh: 10, effort: background, want: plan{1, 1}, ok: true},
		{name: "a small share of many", of: several, segments: []int{1e6}, fresh: 1023, effort: background},
		{name: "enough of many", of: several, segments: []int{1e6}, fresh: 1024, effort: background, want: plan{1, 1}, ok: true},
		{name: "merged with a small one", of: several, segments: []int{1000, 20}, fresh: 10, want: plan{1, 2}, ok: true},
		{name: "beside a larger one", of: several, segments: []int{1000, 21}, fresh: 10, want: plan{2, 2}, ok: true},
		{name: "a third small one", of: several, segments: []int{1000, 90, 30}, fresh: 10, want: plan{2, 3}, ok: true},
		{name: "both", of: several, segments: []int{1000, 80, 20}, fresh: 20, want: plan{1, 3}, ok: true},
		{name: "a fifth", of: several, segments: []int{1000, 190}, fresh: 10, want: plan{2, 2}, ok: true},
		{name: "more than a fifth", of: several, segments: []int{1000, 190}, fresh: 11, want: plan{0, 2}, ok: true},
		{name: "deleted", of: several, segments: []int{1000}, changed: 200},
		{name: "a fifth deleted", of: several, segments: []int{1000}, changed: 201, want: plan{0, 1}, ok: true},
		{name: "a fifth in all", of: several, segments: []int{1000, 100}, changed: 101, want: plan{0, 2}, ok: true},
		{name: "less than the share", of: several, segments: []int{1000}, fresh: 300, effort: Effort{Share: 0.5}},
		{name: "deleted, at rest", of: several, segments: []int{1000}, changed: 10, effort: background, resting: true, want: plan{0, 1}, ok: true},
		{name: "small ones at rest", of: several, segments: []int{1000, 10}, effort: background, resting: true, want: plan{0, 2}, ok: true},
		{name: "a smaller share at rest", of: several, segments: []int{1000, 9}, effort: background, resting: true},
		{name: "trees", of: one, segments: []int{1000}, fresh: 200, resting: true},
		{name: "a fifth of trees", of: one, segments: []int{1000}, fresh: 100, changed: 101, want: plan{0, 1}, ok: true},
		{name: "deleted, found by search", of: several, segments: []int{1000}, changed: 10, effort: exact},
		{name: "deleted, counted", of: sums, segments: []int{1000}, changed: 10, effort: exact, want: plan{0, 1}, ok: true},
		{name: "deleted, in the background", of: sums, segments: []int{1000}, changed: 10, effort: background},
		{name: "deleted, less than the share", of: sums, segments: []int{1000}, changed: 10, effort: Effort{Share: 0.1, Exact: true}},
		{name: "of a small one", of: sums, segments: []int{1000, 40, 10}, in: 1, changed: 2, effort: exact, want: plan{1, 3}, ok: true},
		{name: "of a small one, with fresh", of: sums, segments: []int{1000, 40, 10}, in: 2, changed: 2, fresh: 10, effort: exact, want: plan{1, 3}, ok: true},
		{name: "of the smallest", of: sums, segments: []int{1000, 40, 10}, in: 2, changed: 2, effort: exact, want: plan{2, 3}, ok: true},
	} {
		m := manifestOf(c.of, c.segments...)
		p, ok := planOf(m, m.Info.Rows+c.fresh, func(g *kind.Segment) int {
			if g == &m.Segments[c.in] {
				return c.changed
			}
			return 0
		}, c.effort, c.resting)
		if p != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, p, ok, c.want, c.ok)
		}
	}
}
