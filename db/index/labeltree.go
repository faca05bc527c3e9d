package index

import (
	"reflect"

	"github.com/anndb/anndb/query/lcif"
	"github.com/anndb/anndb/trees/labeltree"
)

// LabelTree are the options of linear classifiers of labels: one against the rest for each label or, for more
// than Params.Flat labels, in a tree over the labels (package trees/labeltree).
type LabelTree struct {
	// Weight selects how values are weighed before rows are scaled to unit length: "none", "tfidf" (values are
	// counts of terms), in dense collections also "standard" (columns of mean 0 and deviation 1). Empty selects
	// "tfidf" for features and texts, "standard" for vectors.
	Weight string `flag:"weight" enum:"none,tfidf,standard"`
	// From selects what a collection of features and vectors learns from: "text", also when empty: the features;
	// "vector", or "both".
	From   string `json:",omitempty" flag:"from" enum:"text,vector,both"`
	Params labeltree.Params
	// Objective is the measure by which the sets that are predicted are chosen, micro F1 when empty, and for
	// measures of rankings; of these, PropensityAt5 orders labels in its own way.
	Objective  lcif.Objective `flag:"objective"`
	AllowEmpty bool           `json:",omitempty" flag:"allow-empty"` // else rows have at least their best label
	Seed       uint64         `json:",omitempty" flag:"seed"`        // equal rows and options give equal models
}

// Name returns "labeltree".
func (*LabelTree) Name() string { return "labeltree" }

// Check refuses options that no model can be learned with.
func (o *LabelTree) Check(dim int) error {
	if err := checkTags(reflect.ValueOf(*o), ""); err != nil {
		return err
	}
	switch {
	case o.Params.Validate() != nil:
		return refuse("{Params} %v", o.Params.Validate())
	case dim == 0 && o.Weight == weightStandard && o.From != "vector":
		return refuse("{Weight} standard is for dense rows, the collection is sparse")
	case dim > 0 && o.Weight == weightTFIDF:
		return refuse("{Weight} tfidf is for counts of terms, the collection is dense")
	case dim > 0 && o.From != "":
		return refuse("{From} is for collections with features next to the vectors")
	}
	return nil
}
