package db

import (
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
)

// IndexOptions are the options of a kind of index, with which Build makes one: *Auto, *Forest,
// *Postings, *LCIF or *Trees. The zero value of each is a good default.
type IndexOptions interface {
	// request returns the stored form of the options for a sparse or dense collection, and refuses
	// values that contradict each other.
	request(sparse bool) (kind.Options, error)
}

// Auto finds rows: over dense rows it is a Forest, over sparse ones Postings.
type Auto struct {
	// Seed makes the build reproducible: equal rows, options and seed give equal trees, tables, sketches
	// and neighbor lists. The tuner chooses settings by measured times, so these may differ, and with
	// them the answers of searches that are not exact.
	Seed uint64
}

func (o *Auto) request(sparse bool) (kind.Options, error) {
	if o == nil {
		o = &Auto{}
	}
	if sparse {
		return (*Postings)(nil).request(sparse)
	}
	return (&Forest{Seed: o.Seed}).request(sparse)
}

// registered is a kind of index, and the function that returns the public form of its stored
// options.
type registered struct {
	kind   kind.Kind
	public func(o kind.Options) IndexOptions
}

// kinds holds all kinds of indexes by name. A new kind is an entry here.
var kinds = map[string]registered{
	string(forest.RP):              {forestindex.Kind{}, publicForest},
	string(forest.KD):              {forestindex.Kind{}, publicForest},
	string(forest.KDChrono):        {forestindex.Kind{}, publicForest},
	string(forest.PCATree):         {forestindex.Kind{}, publicForest},
	string(forest.RF):              {forestindex.Kind{}, publicForest},
	string(forestindex.AnyLearner): {forestindex.Kind{}, publicForest},
	postingsindex.Name:             {postingsindex.Kind{}, publicPostings},
	lcifindex.Name:                 {lcifindex.Kind{}, publicLCIF},
	string(budget.SBT):             {treeindex.Kind{}, publicTrees},
	string(budget.PT):              {treeindex.Kind{}, publicTrees},
	string(budget.AT):              {treeindex.Kind{}, publicTrees},
}

// kindOf returns the kind with a name, nil if there is none.
func kindOf(name string) kind.Kind { return kinds[name].kind }
