package lcif

import (
	"fmt"
	"math"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
)

// Params are the hyperparameters of LCIF (Feremans et al. 2020, Algorithm 6).
type Params struct {
	// K is the number of neighbors, at least 1 unless Lambda is 0.
	K int `json:"k" flag:"k" min:"0"`
	// Alpha is the power of instance similarities (definition 6), Beta that of
	// feature–label similarities (definition 8); above 0, zero means 1.
	Alpha float64 `json:"alpha" flag:"alpha" min:"0"`
	Beta  float64 `json:"beta" flag:"beta" min:"0"`
	// Lambda is the weight of the instance score, 0 to 1; the feature score has the remaining
	// weight (definition 9). A score of weight zero is not computed.
	Lambda float64 `json:"lambda" flag:"lambda" min:"0" max:"1" needed:""`
	// SecondOrder is the weight, 0 to 1, of the second-order score in the instance score:
	// labels that a neighbour does not have but its own neighbours have. Above zero it needs
	// View.Row and costs a search for each of the K neighbors.
	SecondOrder float64 `json:"second_order,omitempty" flag:"second-order" min:"0" max:"1"`
	// Features is the number of features of highest entropy in the index; zero means all. Only
	// builders of views read it: View.Keep decides.
	Features int `json:"features,omitempty" flag:"keep-features" min:"0"`
	// Top, if above zero, requests the Top best labels instead of a set.
	Top int `json:"top,omitempty" min:"0"`
	// Thresholds turn scores into sets (definitions 10 and 11). nil means the best label only.
	Thresholds *labels.Thresholds `json:"thresholds,omitempty"`
}

// Stats counts the work of one prediction.
type Stats struct {
	Neighbors  int  // neighbours found
	Features   int  // features of the query that are known and kept
	Instance   int  // labels with an instance score
	Feature    int  // labels with a feature score
	Candidates int  // labels with any score (definition 9)
	NoEvidence bool // no label has any score
	NoVector   bool // with NoEvidence: the model uses vectors, and the query has none
	// Search describes the search for the neighbours, if its source counts that.
	Search postings.Stats
}

// filled returns the parameters with defaults in place of zeros.
func (p *Params) filled() Params {
	f := *p
	if f.Alpha == 0 {
		f.Alpha = 1
	}
	if f.Beta == 0 {
		f.Beta = 1
	}
	return f
}

// Validate returns an error for parameters that no model of so many labels supports. Errors: query.ErrParams.
func (p *Params) Validate(labels int) error {
	filled := p.filled()
	return filled.checkValues(labels)
}

// checkValues returns an error if the filled parameters are invalid for all views of so many labels.
func (p *Params) checkValues(labels int) error {
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
	share := func(x float64) bool { return x >= 0 && x <= 1 }
	switch {
	case !positive(p.Alpha) || !positive(p.Beta):
		return fmt.Errorf("%w: powers %g and %g, want more than zero", query.ErrParams, p.Alpha, p.Beta)
	case !share(p.Lambda) || !share(p.SecondOrder):
		return fmt.Errorf("%w: lambda %g, second order %g, want 0 to 1", query.ErrParams, p.Lambda, p.SecondOrder)
	case p.K < 1 && p.Lambda > 0:
		return fmt.Errorf("%w: k is %d, want at least 1", query.ErrParams, p.K)
	case p.Top < 0 || p.Features < 0:
		return fmt.Errorf("%w: top of %d labels and %d features", query.ErrParams, p.Top, p.Features)
	}
	if t := p.Thresholds; t != nil && t.PerLabel != nil && len(t.PerLabel) < labels {
		return fmt.Errorf("%w: %d thresholds for %d labels", query.ErrParams, len(t.PerLabel), labels)
	}
	return nil
}

// check returns an error if the filled parameters are invalid for the view.
func (p *Params) check(v *View) error {
	if err := p.checkValues(v.Labels.Labels()); err != nil {
		return err
	}
	switch {
	case p.Lambda > 0 && v.Neighbors == nil:
		return fmt.Errorf("%w: lambda %g needs neighbours", query.ErrMethod, p.Lambda)
	case p.Lambda < 1 && v.Powers == nil:
		return fmt.Errorf("%w: lambda %g needs feature–label similarities", query.ErrMethod, p.Lambda)
	case p.Lambda > 0 && p.SecondOrder > 0 && v.Row == nil:
		return fmt.Errorf("%w: second-order scores need the features of the rows", query.ErrMethod)
	}
	return nil
}
