package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/trees/budget"
)

// treeReader is a budgeted tree.
type treeReader interface {
	Picture(o budget.PictureOptions, classes []string) (*budget.Picture, error)
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
		model, err := labelModel(context.Background(), st, index)
		if err != nil {
			return err
		}
		t, ok := model.Opened.(treeReader)
		if !ok {
			return fmt.Errorf("%w: index %q of %q is no tree", fail.Kind, model.Manifest.Info.Name,
				st.Entry.Name)
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
