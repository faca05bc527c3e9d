package state

import (
	"context"

	"github.com/anndb/anndb/db/internal/kind"
)

// onePart is what a kind of index sees of a collection with vectors and features: only one of them.
type onePart struct {
	kind.Source
	describe kind.Collection
}

func (p *onePart) Collection() *kind.Collection { return &p.describe }

// Part returns what a kind of index sees of the collection: the features, if it is for them, or else the
// vectors. Rows without a vector are deleted ones there.
func (st *Collection) Part(ctx context.Context, k kind.Kind) (kind.Source, error) {
	if !st.Entry.Both() {
		return st, nil
	}
	// The number of live rows with a vector is known once the rows are loaded.
	return st.part(st.Entry.ByFeatures(k)), st.Load(ctx)
}

// part returns the features or the vectors of a collection of both, and all of other collections.
func (st *Collection) part(features bool) kind.Source {
	switch {
	case !st.Entry.Both():
		return st
	case features:
		return &st.features
	}
	return &st.vectors
}

// makeParts sets the parts of a collection of both, and what scans each.
func (st *Collection) makeParts() {
	if st.Entry.Both() {
		st.vectors = onePart{st, st.Entry.Describe(false)}
		st.features = onePart{st, st.Entry.Describe(true)}
		st.vectors.describe.Sampled, st.features.describe.Sampled = st.Sampled(), st.Sampled()
	}
	st.scanVectors.Source, st.scanFeatures.Source = st.part(false), st.part(true)
}
