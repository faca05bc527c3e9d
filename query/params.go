package query

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// Errors of the package; they are wrapped with the details.
var (
	// ErrParams is returned for invalid parameters, such as k < 1.
	ErrParams = errors.New("query: bad parameters")
	// ErrDimension is returned for a query whose dimension differs from the view's.
	ErrDimension = errors.New("query: wrong dimension")
	// ErrNotFinite is returned for a query with NaN or infinities.
	ErrNotFinite = errors.New("query: vector is not finite")
	// ErrNorm is returned for a query whose squared length overflows a float32.
	ErrNorm = errors.New("query: vector is too long")
	// ErrMethod is returned when the view lacks what a method needs: a forest,
	// label tables, member lists.
	ErrMethod = errors.New("query: the view does not support the method")
	// ErrView is returned by View.Validate for inconsistent parts.
	ErrView = errors.New("query: invalid view")
	// ErrCurve is returned by Curve.Validate, and by searches with a setting of an invalid curve.
	ErrCurve = errors.New("query: invalid curve")
)

// Method selects how candidates are chosen.
type Method uint8

const (
	// Natural elects rows whose mean label proportion over the query's leaves
	// exceeds Tau: the natural classifier (equations 4, 5 and 8).
	Natural Method = iota
	// NaturalZero is Natural with Tau zero: every label of the leaves.
	NaturalZero
	// Voting elects rows that are in the query's leaf in at least Votes trees: the naive
	// classifier with free threshold (equation 9).
	Voting
	// Lookup is Voting with one vote: the union of the leaves (equation 9 with
	// threshold zero).
	Lookup
	// Flat scans all rows: exactly, or by their sketches with Sketch, where the best R get exact
	// distances, and more for as long as these change the answer. A range search is exact.
	Flat
)

var methodNames = [...]string{"natural", "natural-zero", "voting", "lookup", "flat"}

// String returns the method's name.
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return fmt.Sprintf("method(%d)", uint8(m))
}

// MarshalText writes the method's name. Errors: ErrParams.
func (m Method) MarshalText() ([]byte, error) {
	if int(m) >= len(methodNames) {
		return nil, fmt.Errorf("%w: %v", ErrParams, m)
	}
	return []byte(methodNames[m]), nil
}

// UnmarshalText reads a method's name. Errors: ErrParams.
func (m *Method) UnmarshalText(name []byte) error {
	i := slices.Index(methodNames[:], string(name))
	if i < 0 {
		return fmt.Errorf("%w: unknown method %q, want one of %s", ErrParams, name,
			strings.Join(methodNames[:], ", "))
	}
	*m = Method(i)
	return nil
}

// Params are the parameters of one search. The zero value of every field but K is useful: the
// natural classifier with all trees and threshold zero, exact distances of all candidates.
type Params struct {
	// K is the number of requested neighbours, at least 1. In a range search it is the maximum
	// number of results; no limit when below 1.
	K int `json:"-"`
	// Method selects candidates.
	Method Method `json:"method"`
	// Trees uses only the first Trees trees; zero means all.
	Trees int `json:"trees,omitempty"`
	// Tau is the threshold of Natural on the estimated proportion, 0 to 1.
	Tau float64 `json:"tau,omitempty"`
	// Votes is the threshold of Voting, at least 1 (zero means 1).
	Votes int `json:"votes,omitempty"`
	// Extra is the number of leaves visited in addition to one per tree: those nearest to the
	// query (priority search). The leaves of one tree count as one element of its partition:
	// their points and votes are summed before the mean over the trees is computed (Hyvönen
	// 2022, footnote 3).
	Extra int `json:"extra,omitempty"`
	// Sketch ranks candidates by sketch and keeps the best R (zero: the larger of 50 and 3K;
	// never fewer than K). It has no effect if the view has no sketches.
	Sketch bool `json:"sketch,omitempty"`
	R      int  `json:"r,omitempty"`
	// Beam, if positive, follows neighbor lists as a graph: the best Beam rows by sketch (never fewer than
	// R) contribute their lists until all of them have contributed, and the best R of them get exact
	// distances. It needs Sketch, and has no effect if the view has no sketches or no neighbor lists.
	Beam int `json:"beam,omitempty"`
	// Gap, if positive, limits a beam to rows near enough: those whose squared distance, by sketch,
	// exceeds that of the K-th best row, at least the tenth, by at most the share Gap, of GapFloor if
	// that is more: where rows are much nearer than to most queries, the errors of sketches are more
	// than a share of their distances. It needs Beam, and has no effect on range searches.
	Gap      float32 `json:"gap,omitempty"`
	GapFloor float32 `json:"gap_floor,omitempty"`
	// Filter and Accept restrict the answers to rows of the bitmap and rows the function
	// accepts. Both apply before any distance is computed. A search calls Accept at most once
	// per row, and not after its context has ended.
	Filter *roaring.Bitmap       `json:"-"`
	Accept func(row uint32) bool `json:"-"`
	// Range returns all rows found within Radius (internal distance) instead of the nearest K.
	Range  bool    `json:"-"`
	Radius float32 `json:"-"`
	// NoWiden returns the rows found even if there are fewer than K. Otherwise a search widens
	// until it has min(K, live rows that pass the filters), in the last step by an exact scan.
	NoWiden bool `json:"-"`

	// curve and recall are those of Curve.Setting, which has the beams of other depths; expected is
	// the measured recall of the setting.
	curve    *Curve
	recall   float64
	expected float64
	// share is the measured time of the setting as a share of an exact scan's, 0 if it is unknown.
	share float64
}

// Way is the way in which a search has found its rows.
type Way uint8

const (
	// Unsearched is the way of a search that had no rows to find.
	Unsearched Way = iota
	// ByLeaves ranks the rows that the leaves elect.
	ByLeaves
	// ByBeam follows neighbor lists by sketch.
	ByBeam
	// BySketches compares the sketches of all rows that pass the filters.
	BySketches
	// ByScan computes the exact distances of all rows that pass the filters.
	ByScan
	// ByPostings adds up the inverted lists of the query's features; Searcher has no such way.
	ByPostings
)

var wayNames = [...]string{"none", "leaves", "beam", "sketch scan", "exact scan", "inverted lists"}

// String returns the name of the way.
func (w Way) String() string {
	if int(w) < len(wayNames) {
		return wayNames[w]
	}
	return fmt.Sprintf("way(%d)", uint8(w))
}

// Stats describes the work of one search.
type Stats struct {
	Way   Way // how the rows were found
	Width int // places of the beam, 0 without one
	// Passing is the number of rows of Params.Filter, 0 without one. Rows that are deleted or that
	// Params.Accept rejects may count.
	Passing int
	// Recall is the expected recall: 1 if the answer is exact, the one that was measured for a setting
	// from a curve, 0 if it is unknown.
	Recall float64
	// OfScan is the time of the setting as a share of that of an exact scan, as they were measured for a
	// setting from a curve; 0 if it is unknown.
	OfScan float64
	// Far reports that the answer is farther away than those of all queries by which the recall was
	// measured (Curve.Reach), so that the recall may not apply. It is not determined for
	// restricted searches.
	Far bool

	Leaves     int // leaves visited
	Labels     int // label entries summed
	Candidates int // rows elected, before filters
	Sketched   int // sketches scored
	Exact      int // exact distances, including fresh rows
	Hopped     int // rows contributed only by neighbor lists
	Fresh      int // scanned rows that the index does not cover
	Widened    int // number of times the search was widened
}

// check returns an error if the parameters are invalid for the view. It does not check the
// query's values.
func (p *Params) check(v *View, q []float32) error {
	if len(q) != v.Dim {
		return fmt.Errorf("%w: query has %d coordinates, want %d", ErrDimension, len(q), v.Dim)
	}
	if p.K < 1 && !p.Range {
		return fmt.Errorf("%w: k is %d, want at least 1", ErrParams, p.K)
	}
	if p.Range && p.Radius != p.Radius {
		return fmt.Errorf("%w: radius is not a number", ErrParams)
	}
	return p.checkSetting(&v.Segment)
}

// checkSetting returns an error if the parameters that a curve stores are invalid for a segment.
func (p *Params) checkSetting(g *Segment) error {
	if err := p.checkValues(); err != nil {
		return fmt.Errorf("%w: %w", ErrParams, err)
	}
	f := g.Forest
	if f == nil && p.Method != Flat {
		return fmt.Errorf("%w: %v needs a forest", ErrMethod, p.Method)
	}
	if f == nil {
		return nil
	}
	if err := p.checkMethod(len(f.LeafDir) > 0, len(f.MemberDir) > 0); err != nil {
		return fmt.Errorf("%w: %w", ErrMethod, err)
	}
	return nil
}

// checkValues returns an error for values that are invalid for every view.
func (p *Params) checkValues() error {
	if min(p.Trees, p.Votes, p.Extra, p.R, p.Beam) < 0 {
		return p.negative()
	}
	if !(p.Gap >= 0 && p.GapFloor >= 0) {
		return fmt.Errorf("gap is %g, of at least %g, want at least 0", p.Gap, p.GapFloor)
	}
	if p.Method > Flat {
		return errors.New(p.Method.String())
	}
	if p.Method == Natural && !(p.Tau >= 0 && p.Tau <= 1) {
		return fmt.Errorf("tau is %g, want 0 to 1", p.Tau)
	}
	return nil
}

// negative returns an error that names a negative count.
func (p *Params) negative() error {
	for _, c := range []struct {
		name string
		n    int
	}{
		{"trees", p.Trees}, {"votes", p.Votes}, {"extra", p.Extra}, {"r", p.R},
		{"beam", p.Beam},
	} {
		if c.n < 0 {
			return fmt.Errorf("negative count: %s is %d", c.name, c.n)
		}
	}
	return nil
}

// checkMethod returns an error if the method needs what the forest lacks: label tables or member lists.
func (p *Params) checkMethod(tables, members bool) error {
	switch {
	case p.Method == Flat:
	case p.members() && !members:
		return fmt.Errorf("%v needs member lists, which the build leaves out unless told to keep members", p.Method)
	case !p.members() && !tables:
		return fmt.Errorf("%v needs label tables", p.Method)
	}
	return nil
}

// members reports whether the method reads member lists instead of label tables.
func (p *Params) members() bool { return p.Method == Voting || p.Method == Lookup }

// trees returns the number of trees used.
func (p *Params) trees(all int) int {
	if p.Trees == 0 {
		return all
	}
	return min(p.Trees, all)
}

// Defaults of counts that are zero in Params.

func (p *Params) sketchKeep() int {
	if p.R == 0 {
		return max(50, 3*p.K)
	}
	return max(p.R, p.K)
}
