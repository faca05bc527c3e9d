package segment

import "github.com/anndb/anndb/db/internal/kind"

// An index has one large segment, the first, and at most two small ones with later rows. Fresh rows
// become a small segment, together with small ones that are not much larger. All rows become one segment
// when more than kind.Drift of those of the large one have changed: are of small segments, fresh,
// deleted or relabelled; or when the collection has not been written for a while. Searches leave deleted rows
// out, but the sums of label models count the rows of a segment until it is built again.

// mergeRatio is the largest ratio of the rows of a small segment to those that it is merged with.
const mergeRatio = 2

// Effort selects the steps of maintenance that are due.
type Effort struct {
	// Share is the least number of changed rows for a step, as a share of the large segment, 0 for any
	// change. Fresh, if not zero, is a number of fresh rows that is enough as well.
	Share float64
	Fresh int
	// Exact selects the segments of label models that count rows which were deleted or relabelled since, too.
	Exact bool
	// Resting reports whether a collection has not been written for a while: its indexes then get
	// one segment. nil means none.
	Resting func(coll uint64) bool
	Once    bool // selects only the first step
}

// plan is the step that an index needs: its segments [from, to), and fresh rows, become one.
type plan struct{ from, to int }

// all reports whether the step builds all rows.
func (p plan) all() bool { return p.from == 0 }

// planOf returns the step that an index over a collection with so many rows needs, if any is due.
// changed counts the rows of a segment that were deleted or relabelled since it was built.
func planOf(
	m *kind.Manifest, rows int, changed func(g *kind.Segment) int, e Effort, resting bool,
) (plan, bool) {
	segments := m.Segments
	large, n := &segments[0], len(segments)
	fresh := rows - m.Info.Rows
	total, first := rows-large.Rows, n // first is the first segment with changed rows
	for i := n - 1; i >= 0; i-- {
		if c := changed(&segments[i]); c > 0 {
			total, first = total+c, i
		}
	}
	least := e.Share * float64(large.Rows)
	due := float64(total) >= least
	exact := due && e.Exact && first < n && m.Of.Traits().Predicts
	switch {
	case total == 0:
	case due && (float64(total) > kind.Drift*float64(large.Rows-large.Dead) ||
		resting && m.Of.Traits().Composes):
		return plan{0, n}, true
	case !m.Of.Traits().Composes:
	case exact || fresh > 0 && (float64(fresh) >= least || e.Fresh > 0 && fresh >= e.Fresh):
		from, size := n, fresh
		for from > 1 && (from == kind.MaxSegments || live(&segments[from-1]) <= mergeRatio*size) {
			from--
			size += live(&segments[from])
		}
		if exact {
			from = min(from, first)
		}
		return plan{from, n}, true
	}
	return plan{}, false
}

// live returns the number of rows that a segment was built of.
func live(g *kind.Segment) int { return g.Rows - g.Dead }
