package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/vector"
)

// fusion is how a search by a vector and by a text or features ranks the rows that it finds by either.
type fusion struct {
	weight     float64 // of the vector
	reciprocal bool
}

const (
	rankOffset   = 60 // of reciprocal ranks
	leastDepth   = 100
	depthOfParts = 2
	moreDepth    = 4 // times as deep if groups leave too few hits
)

// fusionOf returns the fusion of a search.
func fusionOf(st *state.Collection, o *rank.Options) fusion {
	return fusion{cmp.Or(o.Weight, st.Entry.Weight, rank.DefaultWeight), o.Reciprocal}
}

// byParts searches for so many rows by the vector, in s, and by the features, in its second search. It
// returns the rows that either has found, without scores, and the names of the indexes.
func byParts(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, s *kind.Search, depth int,
) (all []candidate, index string, err error) {
	vectors, terms := part{k: depth, index: o.Index}, part{k: depth, index: o.Index, features: true}
	if r := st.Entry.Index(o.Index); r != nil { // the other part takes its default
		if r.Features {
			vectors.index = ""
		} else {
			terms.index = ""
		}
	}
	nearest, err := searchPart(ctx, st, a, o, s, vectors)
	if err != nil {
		return nil, "", err
	}
	best, err := searchPart(ctx, st, a, o, s.Second(), terms)
	if err != nil {
		return nil, "", err
	}
	return a.join(st, s, s.Second()), nearest + ", " + best, nil
}

// join returns the rows that either part has found, with what both say of them.
func (a *rowAsk) join(st *state.Collection, byVector, byTerms *kind.Search) []candidate {
	near, best := leftOut(a, byVector.Found), leftOut(a, byTerms.Found)
	all := make([]candidate, 0, len(near)+len(best))
	for i, f := range near {
		all = append(all, candidate{row: f.ID, hasVector: true, place: rank.Places{VectorRank: i + 1,
			Distance: externalDistance(st.Entry.Metric, f.Distance)}})
	}
	byRow := func(x candidate, row uint32) int { return cmp.Compare(x.row, row) }
	slices.SortFunc(all, func(x, y candidate) int { return byRow(x, y.row) })
	var others []vector.Neighbor // with vectors that are not among the nearest
	for i, f := range best {
		at, known := slices.BinarySearchFunc(all[:len(near)], f.ID, byRow)
		if !known {
			at = len(all)
			all = append(all, candidate{row: f.ID, hasVector: st.HasVector(f.ID)})
			if all[at].hasVector {
				others = append(others, vector.Neighbor{ID: f.ID})
			}
		}
		all[at].place.TextRank = i + 1
	}
	byVector.VectorDistances(others)
	for i := range all {
		x := &all[i]
		if x.place.VectorRank == 0 && x.hasVector {
			x.place.Distance = externalDistance(st.Entry.Metric, others[0].Distance)
			others = others[1:]
		}
		if x.place.TextRank > 0 && st.Entry.Text != nil {
			x.place.Score = -best[x.place.TextRank-1].Distance
		} else {
			x.place.Score = float32(byTerms.FeatureScore(st.SparseRow(x.row)))
		}
	}
	scale(st, all)
	return all
}

// scale sets the scaled scores of the parts.
func scale(st *state.Collection, all []candidate) {
	// The lowest similarity that is possible is known for cosines and for texts; for other metrics it is
	// the lowest of the rows.
	low, high, best := math.Inf(1), math.Inf(-1), 0.0
	for _, x := range all {
		best = max(best, float64(x.place.Score))
		if similarity := -float64(x.place.Distance); x.hasVector {
			low, high = min(low, similarity), max(high, similarity)
		}
	}
	if st.Entry.Metric == vector.Cosine {
		low = -2
	}
	for i := range all {
		x := &all[i]
		if best > 0 {
			x.terms = float64(x.place.Score) / best
		}
		switch {
		case !x.hasVector:
		case high > low:
			x.vector = (-float64(x.place.Distance) - low) / (high - low)
		default:
			x.vector = 1
		}
	}
}

// score returns the score of a row.
func (f fusion) score(x *candidate) float64 {
	if f.reciprocal {
		return reciprocal(x.place.VectorRank, rankOffset) + reciprocal(x.place.TextRank, rankOffset)
	}
	return (1-f.weight)*x.terms + f.weight*x.vector
}

// reciprocal returns 1/(offset + rank), 0 without a rank.
func reciprocal(rank, offset int) float64 {
	if rank == 0 {
		return 0
	}
	return 1 / float64(offset+rank)
}

// reasonOfBoth explains the score of a hit by the parts of the query.
func reasonOfBoth(
	st *state.Collection, byTerms *kind.Search, x *candidate, f fusion,
) (*explain.Reason, error) {
	words := &explain.Reason{Text: "features", Score: float64(x.place.Score)}
	if st.Entry.Text != nil {
		var err error
		if words, err = reasonOfTerms(st, byTerms, x.row); err != nil {
			return nil, err
		}
	}
	words.Text = fmt.Sprintf("%s, place %s", words.Text, placeText(x.place.TextRank))
	near := explain.Reason{
		Text:  fmt.Sprintf("vector, place %s", placeText(x.place.VectorRank)),
		Score: float64(x.place.Distance),
	}
	how := fmt.Sprintf("%.2g of the vector, %.2g of the text", f.weight, 1-f.weight)
	if f.reciprocal {
		how = "reciprocal ranks"
	}
	return &explain.Reason{Text: how, Score: -float64(x.distance), Parts: []explain.Reason{*words, near}}, nil
}

func placeText(rank int) string {
	if rank == 0 {
		return "none"
	}
	return fmt.Sprint(rank)
}
