package query

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// LabelSets is the label matrix of the training rows, N × L, as predictions
// read it: row i's labels, ascending, each below Labels(). A *labels.Matrix is
// one, and so is a [LabelRows].
type LabelSets interface {
	Rows() int
	Labels() int
	Row(i int) []uint32
}

// LabelRows makes a label matrix of a CSR without values, such as a view over
// mapped memory.
type LabelRows struct{ CSR *vector.CSR }

// Rows is N.
func (l LabelRows) Rows() int { return l.CSR.Rows() }

// Labels is L.
func (l LabelRows) Labels() int { return l.CSR.Cols }

// Row is the labels of row i.
func (l LabelRows) Row(i int) []uint32 { return l.CSR.Index[l.CSR.Ptr[i]:l.CSR.Ptr[i+1]] }

// NeighborScratch is the memory that neighbour searches work in. A source uses
// what it needs of it. One goroutine at a time; the zero value is ready.
type NeighborScratch struct {
	Postings postings.Searcher
	Dense    Searcher
	// Strategy is how sources search inverted indexes; all strategies find the
	// same rows. Auto leaves it to the source.
	Strategy postings.Strategy
	// Stats is what the last search did, where the source counts that.
	Stats postings.Stats

	params Params
	coords []float32
	found  []vector.Neighbor
	row    []float32
	scaled []float32
	scan   vector.TopK
}

// NeighborQuery is a query as it came and as instance scores compare it: without
// zeros and features that the view does not know or keep, and scaled by a length
// that unknown features are part of.
type NeighborQuery struct {
	Raw, Unit vector.Sparse
}

// NeighborSource finds the rows that instance scores are made of. Its methods
// may be called by many goroutines, each with its own scratch.
type NeighborSource interface {
	// Neighbors appends the k training rows nearest to q to dst, nearest first,
	// with cosine similarities in 0…1 (definition 5), clipped at zero; fewer
	// where there are fewer. Where it is exact, the first j of them are what a
	// search for j finds. q.Unit is never empty.
	Neighbors(ctx context.Context, s *NeighborScratch, q NeighborQuery, k int, dst []postings.Hit) ([]postings.Hit, error)
}

// BatchNeighborSource is a source that finds the neighbours of many queries
// faster than one by one. Batches of predictions use it where a source is one.
type BatchNeighborSource interface {
	NeighborSource
	// NeighborsBatch calls each with what Neighbors finds for every query, in
	// their order; the hits hold until each returns, whose error ends the
	// batch. Row i of units is NeighborQuery.Unit of query i, which may be empty
	// here: such a query has no neighbours.
	NeighborsBatch(ctx context.Context, s *NeighborScratch, units *vector.CSR, k int, each func(i int, hits []postings.Hit) error) error
}

// LCIFView is everything a label prediction needs (Feremans et al. 2020, LCIF).
// Nothing in it changes while it is in use; many predictors may share it.
type LCIFView struct {
	// Features is M. Features of a query from there on are unknown and left
	// out.
	Features int
	// Keep, if set, has a bit for each feature that was selected; others are
	// left out of queries as they were left out of the training rows.
	Keep []uint64
	// Labels has the labels of the training rows.
	Labels LabelSets
	// Neighbors finds training rows; nil leaves only feature scores.
	Neighbors NeighborSource
	// Graph lists for each training row its nearest other training rows with
	// their similarities, N × N: what second-order scores need. May be nil.
	Graph *vector.CSR
	// Powers holds S for one or more powers; none leaves only instance scores.
	// For a power that is not among them the first is raised entry by entry,
	// which is right but slow.
	Powers []labels.Powers
	// Prior is the share of the training rows that have each label, what a query
	// without any evidence is predicted by. It may be shorter than the labels,
	// which then have none; nil leaves such queries without labels.
	Prior []float32
	// Before settles ties of scores: whether label a comes before label b. nil
	// means by number.
	Before labels.Before
}

// AddPower computes S to the power beta from its counts, unless it is there
// already. O(entries of S). Errors: labels.ErrInput unless beta is above 0 and
// finite.
func (v *LCIFView) AddPower(counts *labels.FeatureLabels, beta float64) error {
	for _, p := range v.Powers {
		if p.Beta == labels.StoredPower(beta) {
			return nil
		}
	}
	p, err := counts.Powers(beta)
	if err != nil {
		return err
	}
	v.Powers = append(v.Powers, *p)
	return nil
}

// power is the matrix for beta: one to that power, or the first, whose entries
// must still be raised. There must be one.
func (v *LCIFView) power(beta float64) *labels.Powers {
	for i := range v.Powers {
		if v.Powers[i].Beta == beta {
			return &v.Powers[i]
		}
	}
	return &v.Powers[0]
}

// SelectFeatures restricts the view to the given features, as
// labels.SelectFeatures chooses them. The neighbours and S must be of training
// rows with these features only. O(features).
func (v *LCIFView) SelectFeatures(features []uint32) {
	v.Keep = make([]uint64, (v.Features+63)/64)
	for _, f := range features {
		if int(f) < v.Features {
			v.Keep[f/64] |= 1 << (f % 64)
		}
	}
}

// Validate checks that all parts fit each other and that no label or row number
// leads out of them: predictions rely on it. Call it once for a view over
// memory from outside. O(labels and entries of S and Graph). Errors: ErrView.
func (v *LCIFView) Validate() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrView}, a...)...)
	}
	if v.Features < 0 || v.Labels == nil {
		return fail("%d features, labels %v", v.Features, v.Labels != nil)
	}
	if v.Keep != nil && len(v.Keep) < (v.Features+63)/64 {
		return fail("%d words say which of %d features are kept", len(v.Keep), v.Features)
	}
	if l, ok := v.Labels.(LabelRows); ok {
		if err := l.CSR.Validate(); err != nil {
			return fail("labels: %w", err)
		}
	}
	for i := range v.Labels.Rows() {
		// Ascending, so that the last is the largest.
		if r := v.Labels.Row(i); len(r) > 0 && int(r[len(r)-1]) >= v.Labels.Labels() {
			return fail("row %d has label %d of %d", i, r[len(r)-1], v.Labels.Labels())
		}
	}
	if len(v.Prior) > v.Labels.Labels() {
		return fail("frequencies of %d labels, there are %d", len(v.Prior), v.Labels.Labels())
	}
	for l, x := range v.Prior {
		if !(x >= 0 && x <= 1) {
			return fail("label %d has the frequency %g", l, x)
		}
	}
	if g := v.Graph; g != nil {
		if err := g.Validate(); err != nil {
			return fail("graph: %w", err)
		}
		if g.Rows() > v.Labels.Rows() || g.Cols > v.Labels.Rows() || g.Value == nil && len(g.Index) > 0 {
			return fail("graph of %d×%d rows, %d have labels", g.Rows(), g.Cols, v.Labels.Rows())
		}
	}
	for i := range v.Powers {
		if err := v.checkPowers(&v.Powers[i]); err != nil {
			return fail("feature–label similarities: %w", err)
		}
	}
	return nil
}

// checkPowers is Validate for one matrix.
func (v *LCIFView) checkPowers(p *labels.Powers) error {
	matrices := []*vector.CSR{p.S}
	if p.Patch != nil {
		matrices = append(matrices, p.Patch)
	}
	for _, m := range matrices {
		if err := m.Validate(); err != nil {
			return err
		}
		if m.Rows() > v.Features || m.Cols > v.Labels.Labels() || m.Value == nil && len(m.Index) > 0 {
			return fmt.Errorf("%d features and %d labels, want %d and %d", m.Rows(), m.Cols, v.Features, v.Labels.Labels())
		}
		if p.Feature != nil && len(p.Feature) < m.Rows() || p.Label != nil && len(p.Label) < m.Cols {
			return fmt.Errorf("lengths of %d features and %d labels, want %d and %d", len(p.Feature), len(p.Label), m.Rows(), m.Cols)
		}
	}
	if !(p.Beta > 0) {
		return fmt.Errorf("to the power %g", p.Beta)
	}
	for _, x := range slices.Concat(p.Feature, p.Label) {
		if !(x >= 0) || math.IsInf(x, 1) {
			return fmt.Errorf("a column of the length %g", x)
		}
	}
	return nil
}
