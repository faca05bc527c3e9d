package db

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// Fusion selects how a search by a vector and by a text or features ranks the rows that it finds by either:
// by a convex combination of their scores (Bruch, Gai, Ingber 2023, section 4), scaled so that the best
// row of a part has 1 and a row without that part 0, or by reciprocal ranks (Cormack, Clarke,
// Buettcher 2009).
type Fusion struct {
	// Weight is the weight of the vector, above 0 and below 1; that of the text is the rest. When zero
	// it is that of the collection (Schema.Weight).
	Weight float64
	// Ranks selects reciprocal ranks: the sum of 1/(60 + rank) over the parts. Weight must be zero.
	Ranks bool
}

// DefaultWeight is the weight of the vector in a search by vector and text: words find what the vectors
// of most encoders find less well, names and rare terms, and a wrong vector cannot outweigh them.
const DefaultWeight = 0.3

const (
	rankOffset   = 60 // of reciprocal ranks
	leastDepth   = 100
	depthOfParts = 2
	moreDepth    = 4 // times as deep if groups leave too few hits
)

// Places tells where a hit is in each part of a query with a vector and a text or features. A rank
// counts from 1, and is 0 if the part did not find the row among its first (SearchOptions.Depth).
type Places struct {
	VectorRank, TextRank int
	Distance             float32 // of the vector, as Hit.Distance; 0 without a vector
	Score                float32 // of BM25, or the cosine
}

func (f *Fusion) check() error {
	switch {
	case f == nil:
		return nil
	case f.Ranks && f.Weight != 0:
		return fmt.Errorf("%w: a weight, and the fusion is by ranks", fail.Option)
	}
	return layout.CheckWeight(f.Weight)
}

// fusionOf returns the fusion of a search.
func fusionOf(st *state.Collection, o *SearchOptions) (f Fusion) {
	if o.Fusion != nil {
		f = *o.Fusion
	}
	f.Weight = cmp.Or(f.Weight, st.Entry.Weight, DefaultWeight)
	return f
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
		all = append(all, candidate{row: f.ID, hasVector: true, place: Places{VectorRank: i + 1,
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
func (f *Fusion) score(x *candidate) float64 {
	if f.Ranks {
		return reciprocal(x.place.VectorRank, rankOffset) + reciprocal(x.place.TextRank, rankOffset)
	}
	return (1-f.Weight)*x.terms + f.Weight*x.vector
}

// reciprocal returns 1/(offset + rank), 0 without a rank.
func reciprocal(rank, offset int) float64 {
	if rank == 0 {
		return 0
	}
	return 1 / float64(offset+rank)
}

// reasonOfBoth explains the score of a hit by the parts of the query.
func reasonOfBoth(st *state.Collection, byTerms *kind.Search, x *candidate, f Fusion) (*Reason, error) {
	words := &Reason{Text: "features", Score: float64(x.place.Score)}
	if st.Entry.Text != nil {
		var err error
		if words, err = reasonOfTerms(st, byTerms, x.row); err != nil {
			return nil, err
		}
	}
	words.Text = fmt.Sprintf("%s, place %s", words.Text, placeText(x.place.TextRank))
	near := Reason{
		Text:  fmt.Sprintf("vector, place %s", placeText(x.place.VectorRank)),
		Score: float64(x.place.Distance),
	}
	how := fmt.Sprintf("%.2g of the vector, %.2g of the text", f.Weight, 1-f.Weight)
	if f.Ranks {
		how = "reciprocal ranks"
	}
	return &Reason{Text: how, Score: -float64(x.distance), Parts: []Reason{*words, near}}, nil
}

func placeText(rank int) string {
	if rank == 0 {
		return "none"
	}
	return fmt.Sprint(rank)
}
