package db

import (
	"context"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/internal/par"
	"github.com/anndb/anndb/trees/budget"
	"github.com/anndb/anndb/vector"
)

// treeReader is a budgeted tree, which has decisions to count and to draw.
type treeReader interface {
	// Decisions returns the number of decisions that a row takes in all trees.
	Decisions(x vector.Sparse) int
	Picture(o budget.PictureOptions, classes []string) (*budget.Picture, error)
}

// Model returns the budgeted tree that the index name selects.
func treeModel(ctx context.Context, st *state.Collection, index string) (treeReader, error) {
	model, err := labelModel(ctx, st, index)
	if err != nil {
		return nil, err
	}
	t, ok := model.Opened.(treeReader)
	if !ok {
		return nil, fmt.Errorf("%w: index %q of %q is no tree", fail.Kind, model.Manifest.Info.Name, st.Entry.Name)
	}
	return t, nil
}

// TreePicture returns a picture of a stored tree, with the names of its features and labels. nil
// options are the defaults; Names is ignored. classes selects trees if there is one per class.
func (c Collection) TreePicture(
	index string, o *budget.PictureOptions, classes ...string,
) (picture *budget.Picture, err error) {
	if o == nil {
		o = &budget.PictureOptions{}
	}
	err = c.read(context.Background(), func(st *state.Collection) error {
		t, err := treeModel(context.Background(), st, index)
		if err != nil {
			return err
		}
		picture, err = t.Picture(*o, classes)
		return err
	})
	return picture, err
}

// LeafSizes returns the number of training points in each leaf of all trees of an index, largest
// first. Errors: ErrInvalid for an index without trees.
func (c Collection) LeafSizes(ctx context.Context, index string) (sizes []int, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		opened, err := st.OpenNamed(ctx, index)
		if err != nil {
			return err
		}
		t, ok := opened.(interface{ LeafSizes() []int })
		if !ok {
			return fmt.Errorf("%w: index %q of %q has no trees", fail.Kind, index, st.Entry.Name)
		}
		sizes = t.LeafSizes()
		return nil
	})
	slices.SortFunc(sizes, func(a, b int) int { return b - a })
	return sizes, err
}

// TreeDecisions returns the mean number of decisions that the queries take in the trees of an
// index, the collection's default label model if empty. IndexInfo.Tree has the same number for the
// training rows.
func (c Collection) TreeDecisions(
	ctx context.Context, queries []Query, index string,
) (mean float64, err error) {
	s, err := c.hold(ctx)
	if err != nil {
		return 0, err
	}
	defer c.letGo(s)
	if len(queries) == 0 {
		return 0, nil
	}
	counts := make([]int, len(queries))
	work := par.Work{N: len(queries), Grain: 8}
	err = par.Each(ctx, work, func(i int) error {
		return atQuery(i, s.read(c.name, func(st *state.Collection) (err error) {
			counts[i], err = decisions(ctx, st, queries[i], index)
			return err
		}))
	})
	if err != nil {
		return 0, fmt.Errorf("db: %w", err)
	}
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return float64(sum) / float64(len(queries)), nil
}

// decisions returns the number of decisions for one row.
func decisions(ctx context.Context, st *state.Collection, q Query, index string) (n int, err error) {
	resolved, err := labelQuery(ctx, st, q)
	if err != nil {
		return 0, err
	}
	t, err := treeModel(ctx, st, index)
	if err != nil {
		return 0, err
	}
	return t.Decisions(resolved.features), nil
}
