package index

import (
	"reflect"
	"slices"

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
	Weight string `flag:"weight" enum:"none,tfidf,standard"`
	// Params, if not nil, are used as they are; without Thresholds and Cut, each row then gets its
	// best label only. If nil, the tuner chooses them.
	Params *lcif.Params `group:"Label models, lcif without tuning:"`
	// Cut, with Params without Thresholds, computes the thresholds from the scores of a
	// cross-validation, which transfers a setting from one collection (lcif.Point.Cut) to another.
	Cut        *lcif.Cut `json:",omitempty" group:"Label models, lcif without tuning:"`
	AllowEmpty bool      `json:",omitempty" flag:"allow-empty"` // else rows have at least their best label
	// Paper tunes as the paper does (lcif.TuneOptions.Paper), with unweighed values unless Weight is
	// given.
	Paper bool `json:",omitempty" flag:"paper" without:"lambda"`
	// Objective is the measure by which the tuner chooses, micro F1 when empty.
	Objective lcif.Objective `flag:"objective" without:"lambda"`
	// Folds is the number of folds, 10 when zero and at most 1,000. TuneRows is the largest number
	// of rows scored over all folds, 10,000 when zero, as in the paper.
	Folds    int `flag:"folds" min:"0" max:"1000"`
	TuneRows int `flag:"tune-rows" min:"0"`
	// FeatureShares are the shares of the features, those of highest entropy, that the tuner
	// chooses from; empty means all features. Sparse collections only.
	FeatureShares []float64 `flag:"feature-shares" without:"lambda" above:"0" max:"1"`
	// Neighbors names the index that finds neighbors in a dense collection, with recall 0.95: a tuned
	// forest, or db.Flat. Empty means the first tuned forest by name, or Flat, also if it is dropped.
	// In a collection of features and vectors neighbors are the nearest rows by "text" (or empty: the cosine
	// of the features), by "vector" with that forest, or by "both": among the nearest hundred, or K if that
	// is more, by either, those of the largest weighted sum of the two cosines. VectorWeight is the weight of
	// the vectors', 0.5 when zero.
	Neighbors    string  `json:",omitempty" flag:"neighbors"`
	VectorWeight float64 `json:",omitempty" flag:"vector-weight" min:"0" max:"0.99"`
	// SecondOrders are the weights of second-order scores, 0 to 1, that the tuner tries. With a weight
	// above zero a prediction searches for the 10 nearest rows of each neighbor.
	SecondOrders []float64 `json:",omitempty" flag:"second-orders" without:"lambda" min:"0" max:"1"`
	Postings     Postings  `json:",omitzero"`              // of its inverted index, in sparse collections
	Seed         uint64    `json:",omitempty" flag:"seed"` // equal rows, options and seed give an equal model
}

// The weightings.
const (
	weightTFIDF    = "tfidf"
	weightStandard = "standard"
)

// Name returns "lcif".
func (*LCIF) Name() string { return "lcif" }

// Check refuses options that no model can be built with.
func (o *LCIF) Check(dim int) error {
	if err := checkTags(reflect.ValueOf(*o), ""); err != nil {
		return err
	}
	p, c := o.Params, o.Cut
	switch {
	case o.Folds == 1:
		return refuse("{Folds} 1 (want 0 or at least 2)")
	case p != nil && p.K < 1 && p.Lambda > 0:
		return refuse("{Params.K} %d (want at least 1)", p.K)
	case c != nil && p == nil:
		return refuse("{Cut} goes with {Params.Lambda} and other parameters that are given")
	case c != nil && p.Thresholds != nil:
		return refuse("{Cut} and {Params.Thresholds} exclude each other")
	case c != nil && !c.PerLabel && c.Share == 0:
		return refuse("{Cut.Share} 0 (want above 0)")
	case o.AllowEmpty && p != nil && p.Thresholds == nil && c == nil:
		return refuse("{AllowEmpty} with given parameters goes with {Params.Thresholds} or {Cut}")
	case dim < 0:
		return nil
	case dim == 0:
		return o.checkSparse()
	}
	return o.checkDense()
}

// checkSparse refuses options of dense collections.
func (o *LCIF) checkSparse() error {
	switch {
	case o.Weight == weightStandard:
		return refuse("{Weight} standard is for dense rows, the collection is sparse")
	case !slices.Contains([]string{"", "text", "vector", "both"}, o.Neighbors):
		return refuse("{Neighbors} %q: a label model of sparse rows finds neighbors itself, by text or, "+
			"next to vectors, by vector or both", o.Neighbors)
	case o.VectorWeight > 0 && o.Neighbors != "both":
		return refuse("{VectorWeight} goes with {Neighbors} both")
	}
	return nil
}

// checkDense refuses options of sparse collections.
func (o *LCIF) checkDense() error {
	switch {
	case o.VectorWeight > 0:
		return refuse("{VectorWeight} is for collections with features next to the vectors")
	case o.Weight == weightTFIDF:
		return refuse("{Weight} tfidf is for counts of terms, the collection is dense")
	case o.Weight == weightStandard && o.Neighbors != "" && o.Neighbors != "flat":
		return refuse("{Weight} standard scans the rows for neighbors, {Neighbors} %q finds them", o.Neighbors)
	case len(o.FeatureShares) > 0:
		return refuse("{FeatureShares} select features of a sparse collection, this one is dense")
	case o.Params != nil && o.Params.Features > 0:
		return refuse("{Params.Features} selects features of a sparse collection, this one is dense")
	}
	return nil
}
