package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/vector"
)

// Fusion selects how a search by a vector and by a text or features ranks the rows that it finds by either:
// by a convex combination of their scores (Bruch, Gai, Ingber 2023, section 4), scaled so that the best
// row of a part has 1 and a row without that part 0, or by reciprocal ranks (Cormack, Clarke,
// Buettcher 2009).
type Fusion struct {
	// Weight is the weight of the vector, above 0 and below 1; that of the text is the rest.
	// DefaultWeight when zero.
	Weight float64
	// Ranks selects reciprocal ranks: the sum of 1/(60 + rank) over the parts. Weight must be zero.
	Ranks bool
	// Depth is the number of rows that are found by each part, twice K and at least 100 when zero.
	Depth int
}

// DefaultWeight is the weight of the vector in a search by vector and text: words find what the vectors
// of most encoders find less well, names and rare terms, and a wrong vector cannot outweigh them.
const DefaultWeight = 0.3

const (
	rankOffset   = 60 // of reciprocal ranks
	leastDepth   = 100
	depthOfParts = 2
)

// Places tells where a hit is in each part of a query with a vector and a text or features. A rank
// counts from 1, and is 0 if the part did not find the row among its first (Fusion.Depth).
type Places struct {
	VectorRank, TextRank int
	Distance             float32 // of the vector, as Hit.Distance; 0 without a vector
	Score                float32 // of BM25, or the cosine
}

func (f *Fusion) check() error {
	switch {
	case f == nil:
		return nil
	case !(f.Weight >= 0 && f.Weight < 1):
		return fmt.Errorf("%w: weight %g of the vector, want 0 (the default) to less than 1", fail.Option, f.Weight)
	case f.Ranks && f.Weight != 0:
		return fmt.Errorf("%w: a weight, and the fusion is by ranks", fail.Option)
	case f.Depth < 0:
		return fmt.Errorf("%w: depth %d of the parts, want 0 or more", fail.Option, f.Depth)
	}
	return nil
}

// both is a row found by either part.
type both struct {
	row       uint32
	place     Places
	hasVector bool
	score     float64
}

// fused searches by the vector and by the features, and ranks what they find together.
func fused(
	ctx context.Context, st *state.Collection, a *rowAsk, o *SearchOptions, s *kind.Search, res *Result,
) error {
	byTerms := s.Second()
	var f Fusion
	if o.Fusion != nil {
		f = *o.Fusion
	}
	f.Weight = cmp.Or(f.Weight, DefaultWeight)
	depth := max(cmp.Or(f.Depth, max(depthOfParts*a.k, leastDepth)), a.k)
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
		return err
	}
	best, err := searchPart(ctx, st, a, o, byTerms, terms)
	if err != nil {
		return err
	}
	all := a.join(st, s, byTerms)
	f.rank(st, all)
	slices.SortFunc(all, func(x, y both) int {
		return cmp.Or(cmp.Compare(float32(y.score), float32(x.score)), cmp.Compare(x.row, y.row))
	})
	all = all[:min(a.k, len(all))]
	s.Found = s.Found[:0]
	for _, x := range all {
		s.Found = append(s.Found, vector.Neighbor{ID: x.row, Distance: -float32(x.score)})
	}
	res.Index = nearest + ", " + best
	res.Stats.Stats, res.Stats.Postings = s.Stats, byTerms.Postings
	res.Stats.Exact += byTerms.Stats.Exact
	if res.Hits, err = hitsOf(ctx, st, o, s); err != nil {
		return err
	}
	for i := range res.Hits {
		place := all[i].place
		res.Hits[i].Places = &place
		if o.Explain {
			if res.Hits[i].Why, err = reasonOfBoth(st, byTerms, &all[i], f); err != nil {
				return err
			}
		}
	}
	return nil
}

// join returns the rows that either part has found, with what both say of them.
func (a *rowAsk) join(st *state.Collection, byVector, byTerms *kind.Search) []both {
	at := make(map[uint32]int, len(byVector.Found)+len(byTerms.Found))
	var all []both
	of := func(row uint32) *both {
		i, known := at[row]
		if !known {
			i = len(all)
			at[row], all = i, append(all, both{row: row})
		}
		return &all[i]
	}
	for i, f := range leftOut(a, byVector.Found) {
		of(f.ID).place.VectorRank = i + 1
	}
	for i, f := range leftOut(a, byTerms.Found) {
		of(f.ID).place.TextRank = i + 1
	}
	for i := range all {
		x := &all[i]
		if x.hasVector = st.HasVector(x.row); x.hasVector {
			x.place.Distance = externalDistance(st.Entry.Metric, byVector.VectorDistance(x.row))
		}
		x.place.Score = float32(byTerms.FeatureScore(st.SparseRow(x.row)))
	}
	return all
}

// rank sets the score of each row.
func (f *Fusion) rank(st *state.Collection, all []both) {
	if f.Ranks {
		for i := range all {
			for _, rank := range []int{all[i].place.VectorRank, all[i].place.TextRank} {
				if rank > 0 {
					all[i].score += 1 / float64(rankOffset+rank)
				}
			}
		}
		return
	}
	// The lowest similarity that is possible is known for cosines and for texts; for other metrics it is
	// the lowest of the rows.
	low, high, best := 0.0, 0.0, 0.0
	first := true
	for _, x := range all {
		best = max(best, float64(x.place.Score))
		if similarity := -float64(x.place.Distance); x.hasVector {
			if first {
				low, high, first = similarity, similarity, false
			}
			low, high = min(low, similarity), max(high, similarity)
		}
	}
	if st.Entry.Metric == vector.Cosine {
		low = -2
	}
	for i := range all {
		x := &all[i]
		if best > 0 {
			x.score = (1 - f.Weight) * float64(x.place.Score) / best
		}
		switch {
		case !x.hasVector:
		case high > low:
			x.score += f.Weight * (-float64(x.place.Distance) - low) / (high - low)
		default:
			x.score += f.Weight
		}
	}
}

// reasonOfBoth explains the score of a hit by the parts of the query.
func reasonOfBoth(st *state.Collection, byTerms *kind.Search, x *both, f Fusion) (*Reason, error) {
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
	return &Reason{Text: how, Score: x.score, Parts: []Reason{*words, near}}, nil
}

func placeText(rank int) string {
	if rank == 0 {
		return "none"
	}
	return fmt.Sprint(rank)
}
