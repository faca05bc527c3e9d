// Package rank has the options by which searches of package db rank the rows that they find.
package rank

import "github.com/anndb/anndb/db/filter"

// Options selects how a search ranks rows; the zero value ranks by distance or, in a search by a vector
// and a text or features, by a convex combination of the scores of both parts (Bruch, Gai, Ingber 2023,
// section 4), scaled so that the best row of a part has 1 and a row without that part 0. The guide has the
// formulas.
type Options struct {
	// Weight is the weight of the vector in the combination, above 0 and below 1; that of the text or
	// features is the rest. When zero it is that of the collection (db.Schema.Weight).
	Weight float64 `json:"weight,omitempty"`
	// Reciprocal replaces the combination by reciprocal ranks (Cormack, Clarke, Buettcher 2009): the sum
	// of 1/(60 + rank) over the parts. Weight must be zero.
	Reciprocal bool    `json:"reciprocal,omitempty"`
	Boosts     []Boost `json:"boosts,omitempty"` // change the scores of rows, one after the other
	// Diversity is the weight by which a hit is unlike the hits before it, above 0 and below 1.
	Diversity float64 `json:"diversity,omitempty"`
	// PerGroup is the most hits with the same value of the attribute GroupBy; rows without it are in no
	// group.
	PerGroup int    `json:"per_group,omitempty"`
	GroupBy  string `json:"group_by,omitempty"`
	// Depth is the number of rows that each part of a query finds before they are ranked by both, or by
	// Boosts, Diversity and PerGroup; twice K and at least 100 when zero. If groups leave less than K
	// hits, it is four times as deep, as often as there are more rows.
	Depth int `json:"depth,omitempty"`
}

// DefaultWeight is the weight of the vector in a search by vector and text: words find what the vectors
// of most encoders find less well, names and rare terms, and a wrong vector cannot outweigh them.
const DefaultWeight = 0.3

// Boost changes the scores of rows: of those that pass a filter by a factor or a summand, or of those that
// have an attribute by how far its value is from another one, such as their age. Others keep their scores.
type Boost struct {
	Where *filter.Filter `json:"where,omitempty"` // the rows; nil for all
	// Factor multiplies the score, 1 when zero; a score below 0, as of distances, is divided by it, so
	// that factors above 1 always raise. Then Add is added.
	Factor float64 `json:"factor,omitempty"`
	Add    float64 `json:"add,omitempty"`
	// Attribute is that of a decay: Factor is 2^(-|value - Origin|/Half) or, if Linear is set,
	// 1 - |value - Origin|/(2·Half) and at least 0. Times count in seconds.
	Attribute string  `json:"attribute,omitempty"`
	Origin    any     `json:"origin,omitempty"` // a number or time, 0 or now when nil
	Half      float64 `json:"half,omitempty"`
	Linear    bool    `json:"linear,omitempty"`
}

// Places has the places of a hit in each part of a query with a vector and a text or features. A rank
// counts from 1, and is 0 if the part did not find the row among its first (Options.Depth).
type Places struct {
	VectorRank int     `json:"by_vector"`
	TextRank   int     `json:"by_text"`
	Distance   float32 `json:"distance"`   // of the vector, as db.Hit.Distance; 0 without a vector
	Score      float32 `json:"text_score"` // of BM25, or the cosine
}

// Tuning is what db.Collection.TuneFusion has measured: mean reciprocal ranks of the rows that belong to
// the queries, where only ranks up to 10 count.
type Tuning struct {
	// Weight is that of the vector which searches use from now on, and Kept why it is that of before, or
	// DefaultWeight; empty if it was chosen.
	Weight float64
	Kept   string
	// Found is the number of pairs whose row a part finds.
	Found int
	// Text and Vector are those of the parts alone, Ranks and Default those of reciprocal ranks and of
	// DefaultWeight. Tuned is that of weights which were chosen on other pairs: what to expect of the best
	// one.
	Text, Vector, Ranks, Default, Tuned float64
}
