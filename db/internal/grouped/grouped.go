// Package grouped is the seam between package db and package group: what a search of several
// collections asks of one of them. Everything is plain data, since a part may be elsewhere.
package grouped

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
)

// DefaultK is the number of hits of a search that does not say.
const DefaultK = 10

// Ask is what a search asks of a part besides the query and the options, whose K is how many rows each
// part of the query finds.
type Ask struct {
	// Terms are the statistics of all parts for the terms of the query, in collections of texts.
	Terms *Terms `json:"terms,omitempty"`
	// Stored is set if the query was read from a row: its text is plain, not one as people type it.
	Stored bool `json:"stored,omitempty"`
}

// Terms are what BM25 needs to know of the rows: their number and the sum of their lengths, of those
// that have terms, and how many have each term of a query.
type Terms struct {
	Rows   int            `json:"rows"`
	Length float64        `json:"length"`
	Have   map[string]int `json:"have"`
}

// Add adds the statistics of other rows.
func (t *Terms) Add(o *Terms) {
	t.Rows += o.Rows
	t.Length += o.Length
	if t.Have == nil {
		t.Have = map[string]int{}
	}
	for term, n := range o.Have {
		t.Have[term] += n
	}
}

// Found says where a hit belongs among those of other parts.
type Found struct {
	// Near orders the rows that the vector of the query finds, the nearest first; nil for others. Match
	// does that for the rows that its features find, the best last: the score of BM25, or the cosine.
	Near  *float32 `json:"near,omitempty"`
	Match *float64 `json:"match,omitempty"`
	// HasVector, Distance and Score are those of queries of both: what the two parts of the query say of
	// the row, whichever has found it. The distance is as users see it.
	HasVector bool    `json:"has_vector,omitempty"`
	Distance  float32 `json:"distance,omitempty"`
	Score     float32 `json:"score,omitempty"`
}

// Search searches a db.Collection for a db.Query by *db.SearchOptions, sets a *db.Result to the rows
// that either part of the query finds, in no order, and returns what else there is to know of each hit.
// CountTerms counts the terms of the query. Package db sets both.
var (
	Search     func(ctx context.Context, of, query, options any, ask *Ask, result any) ([]Found, error)
	CountTerms func(ctx context.Context, of, query any, ask *Ask) (Terms, error)
)

// Model is what predictions by several label models need to know of one: its parameters, whose
// thresholds are in the order of Labels, and how many of its rows have each label. Models with the
// same Version are equal, and have the same sums.
type Model struct {
	Version uint64      `json:"version"`
	Params  lcif.Params `json:"params"`
	Labels  []string    `json:"labels,omitempty"`
	Rows    []int       `json:"rows,omitempty"`
	// Alone is set if what the model has learned does not add up with that of others: it predicts by
	// itself. Its Params are the thresholds of probabilities, its Rows unknown, and Learned the number of
	// rows that it has learned from.
	Alone   bool `json:"alone,omitempty"`
	Learned int  `json:"learned,omitempty"`
}

// Evidence is what a label model says of a query, except for the sums of its features.
type Evidence struct {
	// Features are those of the query, in the order of their numbers in the collection.
	Features  []Feature  `json:"features"`
	Neighbors []Neighbor `json:"neighbors"`
	// Search is the work of the search for the neighbors, Unknown the features that no row has ever had.
	Search  postings.Stats `json:"search"`
	Unknown []string       `json:"unknown,omitempty"`
}

// Feature is a feature of a query. Collections whose features have names may number them differently.
type Feature struct {
	Name   string  `json:"name,omitempty"`
	Number uint32  `json:"number"`
	Value  float32 `json:"value"`
	Known  bool    `json:"known,omitempty"` // to the model
}

// Sums are what a label model knows of a feature: integers, so that those of several models add up to
// those of one (labels.FeatureLabels).
type Sums struct {
	Square labels.Uint128 `json:"square"`
	Pairs  []byte         `json:"pairs,omitempty"` // see Add and Each
}

// Add adds the sum of a label, by its number in the Model. A label may have several.
func (s *Sums) Add(label uint32, sum int64) {
	s.Pairs = binary.AppendUvarint(binary.AppendUvarint(s.Pairs, uint64(label)), uint64(sum))
}

// Each calls f with each sum. It returns an error for bytes that no model of so many labels gives.
func (s *Sums) Each(labels int, f func(label uint32, sum int64)) error {
	for rest := s.Pairs; len(rest) > 0; {
		label, n := binary.Uvarint(rest)
		sum, m := binary.Uvarint(rest[max(0, n):])
		if n <= 0 || m <= 0 || label >= uint64(labels) || sum == 0 || sum > math.MaxInt64 {
			return fmt.Errorf("db: %d bytes that are not sums of %d labels", len(s.Pairs), labels)
		}
		f(uint32(label), int64(sum))
		rest = rest[n+m:]
	}
	return nil
}

// Neighbor is one of the nearest rows: the smallest Order first, then the smallest number.
type Neighbor struct {
	Row        uint32   `json:"row"`
	Order      float64  `json:"order"`
	Similarity float64  `json:"similarity"`
	Labels     []string `json:"labels"`
}

// OpenModel returns the named label model of a db.Collection, FindEvidence what the model of the
// *db.PredictOptions, of which Params are set, says of a db.Query, and FindSums what the named model
// knows of features, none of those that it has not met, if it has the version. Predict sets the
// *db.Predictions to those of a model by itself. Package db sets them.
var (
	Predict      func(ctx context.Context, of, query, options any, ask *Ask, out any) error
	OpenModel    func(ctx context.Context, of any, name string) (Model, error)
	FindEvidence func(ctx context.Context, of, query, options any, ask *Ask) (Evidence, error)
	FindSums     func(
		ctx context.Context, of any, name string, version uint64, features []Feature,
	) ([]Sums, error)
)
