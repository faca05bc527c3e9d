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

// Part returns what a kind of index sees of the collection: the features, if it is for them, or else the
// vectors. Rows without a vector are deleted ones there.
func (st *Collection) Part(ctx context.Context, k kind.Kind) (kind.Source, error) {
	if !st.Entry.Both() {
		return st, nil
	}
	return st.part(ctx, k.Traits().Suits(true))
}

// part returns the features or the vectors of a collection of both.
func (st *Collection) part(ctx context.Context, features bool) (kind.Source, error) {
	p := &onePart{st, st.Entry.Describe(features)}
	p.describe.Sampled = st.Sampled()
	if !p.describe.Sparse {
		view, err := st.Rows(ctx)
		if err != nil {
			return nil, err
		}
		p.describe.Live = uint32(view.LiveCount)
	}
	return p, nil
}

func (p *onePart) Collection() *kind.Collection { return &p.describe }
