package db

import (
	"fmt"
	"strings"

	"github.com/anndb/anndb/query"
)

// Plan returns what the search did on one line, such as "beam of 24 over index main: 310 sketches,
// 30 exact distances, expected recall 0.991".
func (r *Result) Plan() string {
	s := &r.Stats
	var b strings.Builder
	switch index := " over index " + r.Index; {
	case s.Way == query.ByPostings:
		fmt.Fprintf(&b, "exact search%s: %d rows scored", index, s.Postings.Scored)
	case s.Way == query.Unsearched:
		return "no rows to search"
	case s.Way == query.ByScan && s.Sketched > 0:
		fmt.Fprintf(&b, "%v of all passing rows: %d sketches, %d exact distances", s.Way, s.Sketched, s.Exact)
	case s.Way == query.ByScan && s.Passing > 0:
		fmt.Fprintf(&b, "%v of %d passing rows", s.Way, s.Exact)
	case s.Way == query.ByScan:
		fmt.Fprintf(&b, "%v of %d rows", s.Way, s.Exact)
	default:
		b.WriteString(s.Way.String())
		if s.Way == query.ByBeam {
			fmt.Fprintf(&b, " of %d", s.Width)
		}
		b.WriteString(index)
		if s.Passing > 0 {
			fmt.Fprintf(&b, ", %d passing rows", s.Passing)
		}
		fmt.Fprintf(&b, ": %d sketches, %d exact distances", s.Sketched, s.Exact)
	}
	if r.Index != Flat && s.Fresh > 0 {
		fmt.Fprintf(&b, ", %d rows after the index", s.Fresh)
	}
	if s.Recall > 0 && s.Recall < 1 {
		fmt.Fprintf(&b, ", expected recall %.3f", s.Recall)
	}
	if s.OfScan > query.Dear && s.Way != query.ByScan {
		fmt.Fprintf(&b, ", %.0f %% of the time of an exact scan", 100*s.OfScan)
	}
	if s.Far {
		b.WriteString(", the last rows farther away than those of all queries that were measured")
	}
	return b.String()
}
