package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/trees/budget"
)

// treeReader is a budgeted tree.
type treeReader interface {
	Picture(o budget.PictureOptions, classes []string) (*budget.Picture, error)
}

// treeModel returns the budgeted tree that the index name selects.
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
		named := *o
		var failed error
		named.Names = budget.Names{}
		if st.Entry.Named || st.Entry.Numbering.First() > 0 {
			named.Names.Feature = func(f uint32) string {
				name, err := st.FeatureName(f)
				failed = errors.Join(failed, err)
				return name
			}
		}
		picture, err = t.Picture(named, classes)
		return errors.Join(err, failed)
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
