package wire

import (
	"encoding/json"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
)

// Files lists the files of a server.
type Files struct {
	Files []string `json:"files"`
}

// NewCollection is a request for a collection.
type NewCollection struct {
	Name string `json:"name"`
	db.Schema
}

// CollectionChange is a request for another name of a collection, or another schema.
type CollectionChange struct {
	Name   string     `json:"name,omitempty"`
	Schema *db.Schema `json:"schema,omitempty"`
}

// Collection describes a collection.
type Collection struct {
	db.CollectionInfo
	Labels map[string]int `json:"labels,omitempty"` // the rows of each; in answers about one collection
}

// Collections lists collections.
type Collections struct {
	Collections []db.CollectionInfo `json:"collections"`
}

// Build is a request for an index. Options are those of its kind in package index, without it those that the
// collection decides.
type Build struct {
	Kind    string          `json:"kind,omitempty"`
	Options json.RawMessage `json:"options,omitempty"`
}

// Get returns the options, nil if the collection decides.
func (b *Build) Get() (index.Options, error) {
	if b.Kind == "" && b.Options == nil {
		return nil, nil
	}
	return options(b.Kind, b.Options)
}

// options returns the options of a kind of index.
func options(kind string, raw json.RawMessage) (index.Options, error) {
	o := index.New(kind)
	if raw != nil {
		if err := Unmarshal(raw, o); err != nil {
			return nil, err
		}
	}
	switch o := o.(type) { // the kind says it
	case *index.Forest:
		o.Learner = kind
	case *index.Trees:
		o.Kind = kind
	}
	return o, o.Check(-1)
}

// IndexChange is a request to make an index the default one.
type IndexChange struct {
	Default bool `json:"default"`
}

// Indexes lists indexes.
type Indexes struct {
	Indexes []index.Info `json:"indexes"`
}

// Stats describes a file.
type Stats struct {
	db.Stats
	Running []Running `json:"running,omitempty"`
}

// Running is the progress of a long call of the server, as db.Run reports it.
type Running struct {
	Call    string  `json:"call"` // its method and path
	Stage   string  `json:"stage"`
	Done    int     `json:"done"`
	Total   int     `json:"total"` // 0 if unknown
	Seconds float64 `json:"seconds"`
}

// Count is a request for the number of rows that a filter selects.
type Count struct {
	Where string `json:"where,omitempty"`
}

// Counted is the answer to Count.
type Counted struct {
	Rows int `json:"rows"`
}

// Loaded is the answer to an import.
type Loaded struct {
	Rows int `json:"rows"`
}

// Maintain is a request to maintain indexes, see db.DB.Maintain.
type Maintain struct {
	Share float64 `json:"share,omitempty"`
}

// Compact is a request to rewrite a file, see db.DB.Compact.
type Compact struct {
	Reorder bool `json:"reorder,omitempty"`
}

// Maintained has the steps of maintenance.
type Maintained struct {
	Steps []maintenance.Step `json:"steps"`
}

// Checked is the answer to a check: every problem of a file.
type Checked struct {
	OK       bool     `json:"ok"`
	Problems []Damage `json:"problems"`
}

// Damage is a db.CorruptError.
type Damage struct {
	db.CorruptError
	Reason string `json:"error"`
}
