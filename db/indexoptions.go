package db

import "github.com/anndb/anndb/trees/forest"

// IndexOptions are the options of a kind of index, with which Build makes one: *Auto, *Forest,
// *Postings, *LCIF, *SBT, *PT or *AT. The zero value of each is a good default.
type IndexOptions interface {
	// request returns the stored form of the options, and refuses values that contradict each
	// other.
	request() (buildOptions, error)
}

// Auto builds the index that suits the collection: over dense rows a forest with the defaults of
// Forest, over sparse rows an inverted index. Both find rows.
type Auto struct {
	// Seed makes the build reproducible: equal rows, options and seed give an equal index.
	Seed uint64
}

func (o *Auto) request() (buildOptions, error) {
	if o == nil {
		return buildOptions{}, nil
	}
	return buildOptions{Seed: o.Seed}, nil
}

// buildOptions are the options of an index of any kind, as a manifest stores them. A kind uses
// Kind, Seed and its own fields.
type buildOptions struct {
	// Kind is the kind of index, for forests the learner. Empty means the collection's default.
	Kind forest.Kind
	Seed uint64
	forestOptions
	Postings Postings    `json:",omitzero"`
	LCIF     lcifOptions `json:",omitzero"`
	Budget   TreeOptions `json:",omitzero"`
}
