// Package grouped is the seam between package db and package group: what a search of several collections
// asks of one of them. Everything is plain data, since a part may be elsewhere.
package grouped

import "context"

// Ask is what a search asks of a part besides the query and the options, whose K is how many rows each part
// of the query finds.
type Ask struct {
	// Terms are the statistics of all parts for the terms of the query, in collections of texts.
	Terms *Terms `json:"terms,omitempty"`
	// Stored is set if the query was read from a row: its text is plain, not one as people type it.
	Stored bool `json:"stored,omitempty"`
}

// Terms are what BM25 needs to know of the rows: their number and the sum of their lengths, of those that have
// terms, and how many have each term of a query.
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
	// Near orders the rows that the vector of the query finds, the nearest first; nil for others. Match does
	// that for the rows that its features find, the best last: the score of BM25, or the cosine.
	Near  *float32 `json:"near,omitempty"`
	Match *float64 `json:"match,omitempty"`
	// HasVector, Distance and Score are those of queries of both: what the two parts of the query say of the
	// row, whichever has found it. The distance is as users see it.
	HasVector bool    `json:"has_vector,omitempty"`
	Distance  float32 `json:"distance,omitempty"`
	Score     float32 `json:"score,omitempty"`
}

// Search searches a db.Collection for a db.Query by *db.SearchOptions, sets a *db.Result to the rows that
// either part of the query finds, in no order, and returns what else there is to know of each hit. CountTerms
// counts the terms of the query. Package db sets both.
var (
	Search     func(ctx context.Context, of, query, options any, ask *Ask, result any) ([]Found, error)
	CountTerms func(ctx context.Context, of, query any, ask *Ask) (Terms, error)
)
