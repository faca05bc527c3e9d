package db

import (
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/autolabels"
	"github.com/anndb/anndb/db/internal/kind/forestindex"
	"github.com/anndb/anndb/db/internal/kind/labeltreeindex"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/db/internal/kind/postingsindex"
	"github.com/anndb/anndb/db/internal/kind/treeindex"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/trees/forest"
)

// kinds holds all kinds of indexes by name. A new kind is an entry here.
var kinds = map[string]kind.Kind{
	string(forest.RP):       forestindex.Kind{},
	string(forest.KD):       forestindex.Kind{},
	string(forest.KDChrono): forestindex.Kind{},
	string(forest.PCATree):  forestindex.Kind{},
	string(forest.RF):       forestindex.Kind{},
	postingsindex.Name:      postingsindex.Kind{},
	lcifindex.Name:          lcifindex.Kind{},
	labeltreeindex.Name:     labeltreeindex.Kind{},
	autolabels.Name:         autolabels.Kind{},
	string(budget.SBT):      treeindex.Kind{},
	string(budget.PT):       treeindex.Kind{},
	string(budget.AT):       treeindex.Kind{},
}

// kindOf returns the kind with a name, nil if there is none.
func kindOf(name string) kind.Kind { return kinds[name] }
