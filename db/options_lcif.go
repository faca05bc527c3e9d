package db

import (
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/kind/lcifindex"
	"github.com/anndb/anndb/query/lcif"
)

// LCIF are the options of a label model that predicts the labels of rows from nearest rows and from
// features (Feremans et al. 2020); the zero value tunes it by cross-validation. In a sparse
// collection the model has an inverted index of its own. In a dense one it finds neighbors by cosine
// with a forest of the collection or a scan, and coordinates above zero are features.
type LCIF struct {
	// Weight selects how values are weighed before rows are scaled to unit length: "none", "tfidf"
	// (values are counts of terms), in dense collections also "standard" (columns of mean 0 and
	// deviation 1, neighbors by a scan); the guide has the formulas. Empty lets the tuner choose.
	Weight string
	// Params, if not nil, are used as they are; without Thresholds and Cut, each row then gets its
	// best label only. If nil, the tuner chooses them.
	Params *lcif.Params
	// Cut, with Params without Thresholds, computes the thresholds from the scores of a
	// cross-validation, which transfers a setting from one collection (lcif.Point.Cut) to another.
	Cut        *lcif.Cut `json:",omitempty"`
	AllowEmpty bool      `json:",omitempty"` // rows may have no label; otherwise they get their best one
	// Paper tunes as the paper does (lcif.TuneOptions.Paper), with unweighed values unless Weight is
	// given.
	Paper     bool           `json:",omitempty"`
	Objective lcif.Objective // the measure the tuner chooses by, micro F1 when empty
	// Folds is the number of folds, 10 when zero and at most 1,000. TuneRows is the largest number
	// of rows scored over all folds, 10,000 when zero, as in the paper.
	Folds, TuneRows int
	// FeatureShares are the shares of the features, those of highest entropy, that the tuner
	// chooses from; empty means all features. Sparse collections only.
	FeatureShares []float64
	// Neighbors names the index that finds neighbors in a dense collection, with recall 0.95: a tuned
	// forest, or Flat. Empty means the first tuned forest by name, or Flat, also if it is dropped.
	Neighbors string `json:",omitempty"`
	// SecondOrders are the weights of second-order scores, 0 to 1, that the tuner tries.
	SecondOrders []float64 `json:",omitempty"`
	// Graph is the number of nearest other rows that second-order scores use for each row, at most
	// 1,000; zero means 10 if a weight above zero asks for them. The model then stores a neighbor list
	// for each row, which maintenance rebuilds with one search per row.
	Graph int    `json:",omitempty"`
	Seed  uint64 `json:",omitempty"` // equal rows, options and seed give an equal model
}

func (o *LCIF) request(bool) (kind.Options, error) {
	if o == nil {
		o = &LCIF{}
	}
	b := &lcifindex.Options{
		Weight: o.Weight, Params: o.Params, Cut: o.Cut, AllowEmpty: o.AllowEmpty, Paper: o.Paper,
		Objective: o.Objective, Folds: o.Folds, TuneRows: o.TuneRows, FeatureShares: o.FeatureShares,
		Neighbors: o.Neighbors, SecondOrders: o.SecondOrders, Graph: o.Graph, Seed: o.Seed,
	}
	return b, nil
}

// publicLCIF returns the options of a model that its stored ones stand for.
func publicLCIF(stored kind.Options) IndexOptions {
	b := stored.(*lcifindex.Options)
	return &LCIF{
		Weight: b.Weight, Params: b.Params, Cut: b.Cut, AllowEmpty: b.AllowEmpty, Paper: b.Paper,
		Objective: b.Objective, Folds: b.Folds, TuneRows: b.TuneRows, FeatureShares: b.FeatureShares,
		Neighbors: b.Neighbors, SecondOrders: b.SecondOrders, Graph: b.Graph, Seed: b.Seed,
	}
}
