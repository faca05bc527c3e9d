// Package grouped is the seam between package db and package group: what a search of several
// collections asks of one of them. Everything is plain data, since a part may be elsewhere.
package grouped

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query/lcif"
)

// Ask is what a search asks of a part besides the query and the options, whose K is how many rows each
// part of the query finds.
type Ask struct {
	// Terms are the statistics of all parts for the terms of the query, in collections of texts.
	Terms *Terms `json:"terms,omitempty"`
	// Stored is set if the query was read from a row: its text is plain, not one as people type it.
	Stored bool `json:"stored,omitempty"`
	// Named asks for Evidence.Names.
	Named bool `json:"named,omitempty"`
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

// Model is what predictions by several label models of kind lcif need to know of one: its parameters,
// whose thresholds are in the order of Labels, and how many of its rows have each label.
type Model struct {
	Params lcif.Params `json:"params"`
	Labels []string    `json:"labels"`
	Rows   []int       `json:"rows"`
}

// Evidence is what a label model says of a query. Labels are numbers of those of its Model or, if there
// are Names, of these: the model may be that of another replica.
type Evidence struct {
	Names []string `json:"names,omitempty"`
	// Features are those of the query, in the order of their numbers in the collection.
	Features  []Feature  `json:"features"`
	Neighbors []Neighbor `json:"neighbors"`
	Packed    []byte     `json:"packed,omitempty"` // see Pack
	// Search is the work of the search for the neighbors, Unknown the features that no row has ever had.
	Search  postings.Stats `json:"search"`
	Unknown []string       `json:"unknown,omitempty"`
}

// Feature is a feature of a query with its sums, which are integers, so that those of several models
// add up to those of one (labels.FeatureLabels). A label may occur several times.
type Feature struct {
	Name   string         `json:"name"`
	Number uint32         `json:"number"`
	Value  float32        `json:"value"`
	Known  bool           `json:"known"` // to the model
	Square labels.Uint128 `json:"square"`
	Labels []uint32       `json:"-"`
	Sums   []int64        `json:"-"`
}

// Pack moves the labels and the sums of the features to Packed, which is short in JSON: there may be 100,000.
func (e *Evidence) Pack() {
	for i := range e.Features {
		f := &e.Features[i]
		e.Packed = binary.AppendUvarint(e.Packed, uint64(len(f.Labels)))
		for at, l := range f.Labels {
			e.Packed = binary.AppendUvarint(e.Packed, uint64(l))
			e.Packed = binary.AppendUvarint(e.Packed, uint64(f.Sums[at]))
		}
		f.Labels, f.Sums = nil, nil
	}
}

// Unpack undoes Pack. Check checks the numbers.
func (e *Evidence) Unpack() error {
	rest, bad := e.Packed, false
	next := func(most uint64) uint64 {
		x, n := binary.Uvarint(rest)
		if bad = bad || n <= 0 || x > most; bad {
			return 0
		}
		rest = rest[n:]
		return x
	}
	for i := range e.Features {
		f := &e.Features[i]
		n := next(uint64(len(rest) / 2)) // of at least two bytes each
		f.Labels, f.Sums = make([]uint32, n), make([]int64, n)
		for at := range f.Labels {
			f.Labels[at], f.Sums[at] = uint32(next(math.MaxUint32)), int64(next(math.MaxInt64))
		}
	}
	if bad || len(rest) > 0 {
		return fmt.Errorf("db: %d packed bytes that are not the labels and sums of %d features", len(e.Packed),
			len(e.Features))
	}
	e.Packed = nil
	return nil
}

// EachSet calls f with all sets of labels.
func (e *Evidence) EachSet(f func(labels []uint32)) {
	for i := range e.Features {
		f(e.Features[i].Labels)
	}
	for i := range e.Neighbors {
		f(e.Neighbors[i].Labels)
	}
}

// Name replaces the labels by places in Names.
func (e *Evidence) Name(name func(label uint32) string) {
	var place []uint32 // of each label in Names, plus one
	e.EachSet(func(set []uint32) {
		for i, l := range set {
			if n := int(l) + 1 - len(place); n > 0 {
				place = append(place, make([]uint32, n)...)
			}
			if place[l] == 0 {
				e.Names = append(e.Names, name(l))
				place[l] = uint32(len(e.Names))
			}
			set[i] = place[l] - 1
		}
	})
}

// Check returns an error for evidence that no model of so many labels gives.
func (e *Evidence) Check(labels int) (err error) {
	if e.Names != nil {
		labels = len(e.Names)
	}
	e.EachSet(func(set []uint32) {
		for _, l := range set {
			if int(l) >= labels {
				err = fmt.Errorf("db: evidence for label %d of %d", l, labels)
			}
		}
	})
	for _, f := range e.Features {
		if len(f.Sums) != len(f.Labels) || slices.ContainsFunc(f.Sums, func(x int64) bool { return x <= 0 }) {
			err = fmt.Errorf("db: feature %d has sums that no model has", f.Number)
		}
	}
	return err
}

// Neighbor is one of the nearest rows: the smallest Order first, then the smallest number.
type Neighbor struct {
	Row        uint32   `json:"row"`
	Order      float64  `json:"order"`
	Similarity float64  `json:"similarity"`
	Labels     []uint32 `json:"labels"`
}

// OpenModel returns the named label model of a db.Collection, and FindEvidence what the model of the
// *db.PredictOptions, of which Params are set, says of a db.Query. Package db sets both.
var (
	OpenModel    func(ctx context.Context, of any, name string) (Model, error)
	FindEvidence func(ctx context.Context, of, query, options any, ask *Ask) (Evidence, error)
)
