package db

import (
	"github.com/anndb/anndb/db/explain"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/rank"
	"github.com/anndb/anndb/db/trace"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// Query is what a search or a prediction is asked about: a vector, features (numbered, named, or the terms of
// a text) or, in a collection of both, both; or the key of a row. A sparse query may be empty. Features that
// no row has ever had count in its length, so they lessen all similarities.
type Query struct {
	Vector   []float32
	Sparse   vector.Sparse
	Features []vector.Feature
	Text     string // as text.ParseQuery reads it: words, "a phrase", +required and -excluded ones
	Key      []byte // the key of a stored row to search like, which is not among the hits itself
}

// SearchOptions selects how a search finds rows; the zero value finds 10, dense ones with recall
// 0.95.
type SearchOptions struct {
	K int `json:"k,omitempty"` // the number of rows to find, 10 when zero
	// Index names the index to search; Flat selects the exact scan. Empty means the default index of the
	// collection (Collection.SetDefault), or Flat if there is none that finds rows.
	Index string `json:"index,omitempty"`
	// Recall is the target, 0.95 when zero, for any K and under filters; 1 selects an exact scan. Below
	// 0.8 it is the same as 0.8, for which the fastest setting is tuned. Sparse searches are exact.
	Recall float64 `json:"recall,omitempty"`
	// Where restricts the search to the rows that pass a filter. The functions of a filter (filter.Func)
	// are called at most once per row, by SearchBatch for each query, and not after the context has ended.
	Where *filter.Filter `json:"where,omitempty"`
	// Radius, if not nil, finds only rows within this distance (see Hit.Distance): at most the nearest
	// K, or all if K is zero, with the recall that is asked for. 0 finds equal rows; below 0 it is for
	// InnerProduct. Distances of Cosine and of sparse rows below 1e-6 are rounding errors and within
	// every radius.
	Radius  *float64     `json:"radius,omitempty"`
	Include Content      `json:"include,omitempty"` // what is copied into hits besides the key
	Explain bool         `json:"explain,omitempty"` // fill in Hit.Why; searches by vector and by text only
	Rank    rank.Options `json:"rank,omitzero"`     // how hits are ranked, by distance when zero
	// After has the hits of all pages before this one, which has the K after them: the answer for so
	// many more hits, without rows of their keys. They must not be in the memory of Reuse. The pages of a
	// snapshot are of one state.
	After []Hit `json:"after,omitempty"`
	// Reuse is the memory of an earlier result to overwrite. A dense search with enough of it, and
	// without a filter that needs evaluation (Collection.RowFilter), allocates nothing in steady state
	// but the snapshot, one small object, if the Collection is not one of a Snapshot.
	Reuse []Hit `json:"-"`
	// Params replace Recall, except for K. Dense collections only; their Filter must be nil.
	Params  *query.Params `json:"params,omitempty"`
	Workers int           `json:"-"` // the number of goroutines of SearchBatch; below 1, all processors
}

// Content is a set of the parts of a row.
type Content uint8

// The parts of a row that a search can include in its hits.
const (
	Labels Content = 1 << iota
	Payload
	Attributes
	Text
)

// Flat is the index name that selects an exact scan of all rows.
const Flat = "flat"

// Hit is one result of a search. Its memory belongs to the caller.
type Hit struct {
	Key []byte
	Row uint32 // the row's number
	// Distance is Euclidean for L2, 1 - cosine for Cosine and sparse rows, and the negated dot
	// product for InnerProduct, the negated score for texts and for queries of two parts: smaller is nearer.
	Distance   float32
	Score      float32      // by which Boosts, Diversity and PerGroup of SearchOptions.Rank order hits
	Places     *rank.Places // in each part of a query of two parts
	Labels     []string     // Labels to Attributes are set if SearchOptions.Include selects them
	Text       string
	Payload    []byte
	Attributes map[string]any
	Why        *explain.Reason // how the row was found, with SearchOptions.Explain
}

// Result is the answer to a search.
type Result struct {
	Hits  []Hit             // nearest first
	Index string            // the index that was searched, Flat for an exact scan
	Stats trace.SearchStats // the way of the search, the recall to expect, what was compared
}
