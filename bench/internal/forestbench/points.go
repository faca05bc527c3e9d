package forestbench

import (
	"math"
	"slices"

	"github.com/anndb/anndb/query"
)

// Point is one measured setting.
type Point struct {
	Forest     string  // learner, or the index searched
	Method     string  // how candidates were selected
	Depth      int     // levels of a tree
	Trees      int     // trees used
	Tau        float64 // threshold of natural
	Votes      int     // threshold of voting
	Recall     float64 // share of the true neighbours found
	Micros     float64 // time a query in µs
	Candidates float64 // candidates a query
}

// Best is the cheapest measured setting of a forest and method whose recall
// reaches the target. The choice is made on the measured queries themselves,
// as the paper's tables do it.
func Best(points []Point, forest, method string, target float64) (best Point, ok bool) {
	for _, p := range points {
		if p.Forest == forest && p.Method == method && p.Recall >= target && (!ok || p.Micros < best.Micros) {
			best, ok = p, true
		}
	}
	return best, ok
}

// Forests lists the forests that have points of the paper's methods, in order
// of appearance.
func Forests(points []Point) []string {
	var out []string
	for _, p := range points {
		if slices.Contains(methodNames(), p.Method) && !slices.Contains(out, p.Forest) {
			out = append(out, p.Forest)
		}
	}
	return out
}

// Methods are the ways to select candidates that the paper compares.
func Methods() []query.Method {
	return []query.Method{query.Natural, query.NaturalZero, query.Voting, query.Lookup}
}

func methodNames() []string {
	var out []string
	for _, m := range Methods() {
		out = append(out, m.String())
	}
	return out
}

// Verdict is what the measurements say of the paper's two findings for one
// forest at one recall.
type Verdict struct {
	Forest           string
	Recall           float64
	Fastest, Slowest string // methods; a method that never reaches the recall is slowest
	NaturalFastest   bool
	LookupSlowest    bool
}

// Verdicts tests the findings "the natural classifier is fastest" and "lookup
// is slowest" for every forest at every target. Natural stands for both of its
// thresholds, free and zero, since zero is a choice of the free one; for the
// same reason lookup must be no faster than voting: it is voting with one vote.
// Where no method reaches the target there is no verdict.
func Verdicts(points []Point, targets []float64) []Verdict {
	var out []Verdict
	for _, f := range Forests(points) {
		for _, r := range targets {
			micros := func(m query.Method) float64 {
				if p, ok := Best(points, f, m.String(), r); ok {
					return p.Micros
				}
				return math.Inf(1)
			}
			natural := min(micros(query.Natural), micros(query.NaturalZero))
			voting, lookup := micros(query.Voting), micros(query.Lookup)
			other := min(voting, lookup)
			if math.IsInf(min(natural, other), 1) {
				continue
			}
			v := Verdict{
				Forest: f, Recall: r,
				NaturalFastest: natural <= other, LookupSlowest: lookup >= max(natural, voting),
			}
			fast, slow := math.Inf(1), -1.0
			for _, m := range Methods() {
				t := micros(m)
				if t < fast {
					fast, v.Fastest = t, m.String()
				}
				if t >= slow { // of methods that both never arrive, the later
					slow, v.Slowest = t, m.String()
				}
			}
			out = append(out, v)
		}
	}
	return out
}
