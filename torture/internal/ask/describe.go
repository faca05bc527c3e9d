// Package ask asks a database everything: every row in several ways, every
// index by every method, every label model and tree. Two databases that hold
// the same give the same answers, to the bit.
//
// What there is to ask is listed while the database is sound (Describe), so
// that a question does not vanish together with what it asks for.
package ask

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/vector"
)

// Collection is what there is to ask about a collection. It can be stored as
// JSON.
type Collection struct {
	Name          string
	Sparse, Named bool // rows of features, with names
	Texts         bool // rows of texts, which are sparse and named, too
	Dim           int  // of vectors, 0 for none
	Metric        vector.Metric
	Live          int
	Keys          [][]byte
	Labels        []string
	Queries       []db.Query
	Indexes       []Index
}

// Index is what there is to ask about an index.
type Index struct {
	Name    string
	Kind    string
	Members bool
	Tuned   bool // a forest with measured settings
}

// Predicts reports whether indexes of a kind predict labels; the others find rows.
func Predicts(kind string) bool {
	switch index.New(kind).(type) {
	case *index.Forest, *index.Postings:
		return false
	}
	return true
}

// Asked are the parts of the queries that suit an index of the collection, of the kind.
func (c *Collection) Asked(kind string) []db.Query {
	var out []db.Query
	for _, q := range c.Queries {
		out = append(out, c.asked(q, kind))
	}
	return out
}

func describe(i index.Info) Index {
	x := Index{Name: i.Name, Kind: i.Kind, Tuned: i.Curve != nil}
	if o, ok := i.Options.(*index.Forest); ok {
		x.Members = o.Members
	}
	return x
}

// Describe lists what there is to ask: up to keys rows of every collection one
// by one, up to labels labels, and the given number of queries, which are rows
// with small changes. Which ones depends on the seed and the rows.
func Describe(s *db.Snapshot, seed uint64, keys, labels, queries int) ([]Collection, error) {
	var out []Collection
	for i, info := range s.Collections() {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		c := Collection{Name: info.Name, Sparse: info.Sparse, Named: info.Named, Texts: info.Text != nil,
			Dim: info.Dim, Metric: info.Metric, Live: info.Live}
		all, err := s.Collection(info.Name).Labels()
		if err != nil {
			return nil, err
		}
		names := slices.Sorted(maps.Keys(all))
		for _, j := range rng.Perm(len(names))[:min(labels, len(names))] {
			c.Labels = append(c.Labels, names[j])
		}
		var rows []db.Row
		for r, err := range s.Collection(info.Name).Rows(context.Background(), nil) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		for _, j := range rng.Perm(len(rows))[:min(keys, len(rows))] {
			c.Keys = append(c.Keys, rows[j].Key)
		}
		if c.Texts { // queries have all parts
			rows = slices.DeleteFunc(rows, func(r db.Row) bool {
				return r.Text == "" || c.Dim > 0 && r.Vector == nil
			})
		}
		for range min(queries, len(rows)) {
			r := rows[rng.IntN(len(rows))]
			for d := range r.Vector {
				r.Vector[d] += 0.25 * float32(rng.NormFloat64())
			}
			for f := range r.Sparse.Value {
				r.Sparse.Value[f] += rng.Float32()
			}
			for f := range r.Features {
				r.Features[f].Value += rng.Float32()
			}
			c.Queries = append(c.Queries,
				db.Query{Vector: r.Vector, Sparse: r.Sparse, Features: r.Features, Text: r.Text})
		}
		indexes, err := s.Collection(info.Name).Indexes()
		if err != nil {
			return nil, err
		}
		for _, x := range indexes {
			c.Indexes = append(c.Indexes, describe(x))
		}
		out = append(out, c)
	}
	return out, nil
}
