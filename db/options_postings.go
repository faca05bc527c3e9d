package db

import (
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
)

// Postings are the options of an inverted index, which finds the exact nearest rows of a sparse
// collection by cosine. The zero value builds only the compact structure, which is the fastest.
type Postings struct {
	// Partition also builds the paper's pair of inverted indexes (Feremans 2020, Algorithm 7)
	// with parameter M; -1 selects plain TAAT.
	Partition bool
	M         int
}

func (o *Postings) request(bool) (kind.Options, error) {
	if o == nil {
		o = &Postings{}
	}
	stored := postingsindex.Options(*o)
	return &stored, stored.Check()
}

// publicPostings returns the options that stored ones stand for.
func publicPostings(stored kind.Options) IndexOptions {
	o := Postings(*stored.(*postingsindex.Options))
	return &o
}
