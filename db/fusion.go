package db

import (
	"cmp"
	"context"
	"slices"

	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/internal/fusion"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/vector"
)

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
		places := rank.Places{VectorRank: i + 1, Distance: externalDistance(st.Entry.Metric, f.Distance)}
		all = append(all, candidate{row: f.ID, Row: fusion.Row{Places: places, HasVector: true}})
	}
	byRow := func(x candidate, row uint32) int { return cmp.Compare(x.row, row) }
	slices.SortFunc(all, func(x, y candidate) int { return byRow(x, y.row) })
	var others []vector.Neighbor // with vectors that are not among the nearest
	for i, f := range best {
		at, known := slices.BinarySearchFunc(all[:len(near)], f.ID, byRow)
		if !known {
			at = len(all)
			all = append(all, candidate{row: f.ID, Row: fusion.Row{HasVector: st.HasVector(f.ID)}})
			if all[at].HasVector {
				others = append(others, vector.Neighbor{ID: f.ID})
			}
		}
		all[at].TextRank = i + 1
	}
	byVector.VectorDistances(others)
	for i := range all {
		x := &all[i]
		if x.VectorRank == 0 && x.HasVector {
			x.Distance = externalDistance(st.Entry.Metric, others[0].Distance)
			others = others[1:]
		}
		if x.TextRank > 0 && st.Entry.Text != nil {
			x.Score = -best[x.TextRank-1].Distance
		} else {
			x.Score = float32(byTerms.FeatureScore(st.SparseRow(x.row)))
		}
	}
	fusion.Scale(st.Entry.Metric, len(all), func(i int) *fusion.Row { return &all[i].Row })
	return all
}

// reasonOfBoth explains the score of a hit by the parts of the query.
func reasonOfBoth(
	st *state.Collection, byTerms *kind.Search, x *candidate, f fusion.By,
) (*explain.Reason, error) {
	words, err := reasonOfFeatures(st, byTerms, x)
	return f.Reason(words, &x.Row, -float64(x.distance)), err
}

// reasonOfFeatures explains what the features add to a hit.
func reasonOfFeatures(st *state.Collection, s *kind.Search, x *candidate) (*explain.Reason, error) {
	if st.Entry.Text != nil {
		return reasonOfTerms(st, s, x.row)
	}
	return &explain.Reason{Text: "features", Score: float64(x.Score)}, nil
}
