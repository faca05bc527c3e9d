package query

import (
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Errors of the package; wrapped with what was wrong.
var (
	// ErrParams is returned for parameters that mean nothing, such as k < 1.
	ErrParams = errors.New("query: bad parameters")
	// ErrDimension is returned for a query of another dimension than the view.
	ErrDimension = errors.New("query: wrong dimension")
	// ErrNotFinite is returned for a query with NaN or infinities.
	ErrNotFinite = errors.New("query: vector is not finite")
	// ErrNorm is returned for a query whose squared length is not a float32.
	ErrNorm = errors.New("query: vector is too long")
	// ErrMethod is returned when the view lacks what a method needs: a forest,
	// label tables, member lists.
	ErrMethod = errors.New("query: the view does not support the method")
	// ErrView is returned by View.Validate for parts that contradict each other.
	ErrView = errors.New("query: invalid view")
)

// Method is how candidates are selected.
type Method uint8

const (
	// Natural elects rows whose mean label proportion over the query's leaves
	// exceeds Tau: the natural classifier (equations 4, 5 and 8).
	Natural Method = iota
	// NaturalZero is Natural with Tau zero: every label of the leaves.
	NaturalZero
	// Voting elects rows that lie in the query's leaf in at least Votes trees:
	// the naive classifier with free threshold (equation 9).
	Voting
	// Lookup is Voting with one vote: the union of the leaves (equation 9 with
	// threshold zero).
	Lookup
	// Flat scans all rows exactly.
	Flat
)

var methodNames = [...]string{"natural", "natural-zero", "voting", "lookup", "flat"}

// String is the method's name.
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
		return fmt.Errorf("%w: unknown method %q", ErrParams, name)
	}
	*m = Method(i)
	return nil
}

// Params says how one search runs. The zero value of every field but K is a
// sensible one: the natural classifier with all trees and threshold zero,
// exact distances of all candidates.
type Params struct {
	// K is how many neighbours are wanted, at least 1; in a range search the
	// most that are returned, any number when below 1.
	K int `json:"-"`
	// Method selects candidates.
	Method Method `json:"method"`
	// Trees uses only the first Trees trees; zero means all.
	Trees int `json:"trees,omitempty"`
	// Tau is the threshold of Natural on the estimated proportion, 0 to 1.
	Tau float64 `json:"tau,omitempty"`
	// Votes is the threshold of Voting, at least 1 (zero means 1).
	Votes int `json:"votes,omitempty"`
	// Extra is how many leaves are visited in addition to one per tree, those the
	// query nearly fell into (priority search). The leaves of one tree count as one
	// element of its partition: their points and votes are added up before the mean
	// over the trees is taken (Hyvönen 2022, footnote 3).
	Extra int `json:"extra,omitempty"`
	// Sketch ranks candidates by sketch and keeps the best R (zero: the larger
	// of 50 and 3K; never fewer than K). It does nothing where the view has no
	// sketches.
	Sketch bool `json:"sketch,omitempty"`
	R      int  `json:"r,omitempty"`
	// Hops is how many times the label lists of the best exact hits are
	// followed: in each round the nearest HopFrom hits (zero: 8) that have not
	// done so contribute the first HopWidth rows of their lists (zero: all).
	// With Sketch the best HopKeep new rows of a round are kept (zero: all).
	// Hops do nothing where the view has no label lists.
	Hops     int `json:"hops,omitempty"`
	HopFrom  int `json:"hop_from,omitempty"`
	HopWidth int `json:"hop_width,omitempty"`
	HopKeep  int `json:"hop_keep,omitempty"`
	// Beam, if positive, follows label lists as a graph in place of Hops: the
	// best Beam rows by sketch (never fewer than R) contribute the first
	// HopWidth rows of their lists until none among them has not, and the best
	// R of them get exact distances. It needs Sketch, and does nothing where the
	// view has no sketches or no label lists.
	Beam int `json:"beam,omitempty"`
	// Quant ranks what is left by the 8-bit copy and keeps the best Rerank
	// (zero: the larger of 20 and 2K) for exact distances. It does nothing
	// where the view has no such copy.
	Quant  bool `json:"quant,omitempty"`
	Rerank int  `json:"rerank,omitempty"`
	// Filter and Accept restrict the answers to rows of the bitmap and rows the
	// function accepts. Both apply before any distance. A search asks Accept about
	// a row at most once, and no more once its context has ended.
	Filter *roaring.Bitmap       `json:"-"`
	Accept func(row uint32) bool `json:"-"`
	// Range asks for all rows found within Radius (internal distance) instead
	// of the nearest K.
	Range  bool    `json:"-"`
	Radius float32 `json:"-"`
	// NoWiden returns what was found even when that is fewer than K rows.
	// Otherwise a search widens until it has min(K, live rows that pass the
	// filters) of them, at last to an exact scan.
	NoWiden bool `json:"-"`
}

// Stats counts the work of one search.
type Stats struct {
	Leaves     int // leaves visited
	Labels     int // label entries added up
	Candidates int // rows elected, before filters
	Sketched   int // sketches scored
	Filtered   int // 8-bit distances
	Exact      int // exact distances, fresh rows and hops included
	Hopped     int // rows that only label lists contributed
	Fresh      int // rows scanned that the index does not cover
	Widened    int // times the search was widened to find enough rows
}

const defaultHopFrom = 8

// check says whether the parameters mean something for the view. The query's
// values are not looked at here.
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
	if min(p.Trees, p.Votes, p.Extra, p.R, p.Hops, p.HopFrom, p.HopWidth, p.HopKeep, p.Rerank, p.Beam) < 0 {
		return fmt.Errorf("%w: negative count", ErrParams)
	}
	switch p.Method {
	case Flat:
		return nil
	case Natural:
		if !(p.Tau >= 0 && p.Tau <= 1) {
			return fmt.Errorf("%w: tau is %g, want 0 to 1", ErrParams, p.Tau)
		}
	case NaturalZero, Voting, Lookup:
	default:
		return fmt.Errorf("%w: %v", ErrParams, p.Method)
	}
	f := v.Forest
	if f == nil {
		return fmt.Errorf("%w: %v needs a forest", ErrMethod, p.Method)
	}
	if p.members() {
		if len(f.MemberDir) == 0 {
			return fmt.Errorf("%w: %v needs member lists, which the build leaves out unless told to keep members", ErrMethod, p.Method)
		}
		return nil
	}
	if len(f.LeafDir) == 0 {
		return fmt.Errorf("%w: %v needs label tables", ErrMethod, p.Method)
	}
	return nil
}

// members says whether the method reads member lists instead of label tables.
func (p *Params) members() bool { return p.Method == Voting || p.Method == Lookup }

// trees is how many of all trees are used.
func (p *Params) trees(all int) int {
	if p.Trees == 0 {
		return all
	}
	return min(p.Trees, all)
}

// Counts that are zero in Params stand for these.

func (p *Params) sketchKeep() int {
	if p.R == 0 {
		return max(50, 3*p.K)
	}
	return max(p.R, p.K)
}

func (p *Params) rerank() int {
	if p.Rerank == 0 {
		return max(20, 2*p.K)
	}
	return max(p.Rerank, p.K)
}

func (p *Params) hopFrom() int {
	if p.HopFrom == 0 {
		return defaultHopFrom
	}
	return p.HopFrom
}
