package db

import (
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
)

// Postings builds an inverted index, which finds the exact nearest rows of a sparse collection by
// cosine. It has no options.
type Postings struct{}

func (*Postings) request(bool) (kind.Options, error) { return &postingsindex.Options{}, nil }

// publicPostings returns the options that stored ones stand for.
func publicPostings(kind.Options) IndexOptions { return &Postings{} }
