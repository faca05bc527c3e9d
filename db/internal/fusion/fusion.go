// Package fusion scores rows by both parts of a query: a vector, and a text or features.
package fusion

import (
	"cmp"
	"fmt"
	"math"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/vector"
)

// Row is what both parts of a query say of a row, whichever has found it.
type Row struct {
	rank.Places
	HasVector     bool
	vector, terms float64 // the scaled scores of the parts, 0 to 1
}

// By is how a search ranks rows by both parts.
type By struct {
	Weight     float64 // of the vector
	Reciprocal bool
}

const (
	rankOffset   = 60 // of reciprocal ranks
	leastDepth   = 100
	depthOfParts = 2
)

// Of returns the fusion of a search in a collection with a weight, which may be 0.
func Of(o *rank.Options, weight float64) By {
	return By{cmp.Or(o.Weight, weight, rank.DefaultWeight), o.Reciprocal}
}

// Depth returns the number of rows that each part finds for k hits.
func Depth(o *rank.Options, k int) int {
	return max(k, cmp.Or(o.Depth, max(depthOfParts*k, leastDepth)))
}

// Scale sets the scaled scores of the parts of n rows.
func Scale(metric vector.Metric, n int, at func(i int) *Row) {
	// The lowest similarity that is possible is known for cosines and for texts; for other metrics it is
	// the lowest of the rows.
	low, high, best := math.Inf(1), math.Inf(-1), 0.0
	for i := range n {
		x := at(i)
		best = max(best, float64(x.Score))
		if similarity := -float64(x.Distance); x.HasVector {
			low, high = min(low, similarity), max(high, similarity)
		}
	}
	if metric == vector.Cosine {
		low = -2
	}
	for i := range n {
		x := at(i)
		if best > 0 {
			x.terms = float64(x.Score) / best
		}
		switch {
		case !x.HasVector:
		case high > low:
			x.vector = (-float64(x.Distance) - low) / (high - low)
		default:
			x.vector = 1
		}
	}
}

// Score returns the score of a scaled row.
func (b By) Score(x *Row) float64 {
	if b.Reciprocal {
		return Reciprocal(x.VectorRank, rankOffset) + Reciprocal(x.TextRank, rankOffset)
	}
	return (1-b.Weight)*x.terms + b.Weight*x.vector
}

// Reciprocal returns 1/(offset + rank), 0 without a rank.
func Reciprocal(rank, offset int) float64 {
	if rank == 0 {
		return 0
	}
	return 1 / float64(offset+rank)
}

// Reason explains the score of a row, words being what its features add.
func (b By) Reason(words *explain.Reason, x *Row, score float64) *explain.Reason {
	if words == nil {
		return nil
	}
	terms := *words
	terms.Text = fmt.Sprintf("%s, place %s", words.Text, placeText(x.TextRank))
	near := explain.Reason{
		Text:  fmt.Sprintf("vector, place %s", placeText(x.VectorRank)),
		Score: float64(x.Distance),
	}
	how := fmt.Sprintf("%.2g of the vector, %.2g of the text", b.Weight, 1-b.Weight)
	if b.Reciprocal {
		how = "reciprocal ranks"
	}
	return &explain.Reason{Text: how, Score: score, Parts: []explain.Reason{terms, near}}
}

func placeText(rank int) string {
	if rank == 0 {
		return "none"
	}
	return fmt.Sprint(rank)
}
