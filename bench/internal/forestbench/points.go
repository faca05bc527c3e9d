package forestbench

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

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
	Front      bool    // no setting of the same forest and method is both faster and better
}

// Threshold is the method's threshold as text, empty where it has none.
func (p Point) Threshold() string {
	switch p.Method {
	case query.Natural.String():
		return fmt.Sprintf("%.3g", p.Tau)
	case query.Voting.String():
		return strconv.Itoa(p.Votes)
	}
	return ""
}

// MarkFronts sets Front of all points.
func MarkFronts(points []Point) {
	byCurve := map[[2]string][]int{}
	for i, p := range points {
		key := [2]string{p.Forest, p.Method}
		byCurve[key] = append(byCurve[key], i)
	}
	for _, ids := range byCurve {
		slices.SortFunc(ids, func(i, j int) int {
			a, b := points[i], points[j]
			return cmp.Or(cmp.Compare(b.Recall, a.Recall), cmp.Compare(a.Micros, b.Micros))
		})
		fastest := math.Inf(1)
		for _, i := range ids {
			points[i].Front = points[i].Micros < fastest
			fastest = min(fastest, points[i].Micros)
		}
	}
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
	// Ratio is the time of the fastest other method over natural's; 0 where
	// either is missing.
	Ratio float64
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
			if !math.IsInf(natural, 1) && !math.IsInf(other, 1) {
				v.Ratio = other / natural
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

var header = []string{
	"forest", "method", "depth", "trees", "tau", "votes", "recall", "micros", "candidates", "front",
}

// WriteCSV writes the points, a line each below a line of names.
func WriteCSV(w io.Writer, points []Point) error {
	c := csv.NewWriter(w)
	if err := c.Write(header); err != nil {
		return err
	}
	float := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for _, p := range points {
		err := c.Write([]string{
			p.Forest, p.Method, strconv.Itoa(p.Depth), strconv.Itoa(p.Trees), float(p.Tau), strconv.Itoa(p.Votes),
			float(p.Recall), float(p.Micros), float(p.Candidates), strconv.FormatBool(p.Front),
		})
		if err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
