package db

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
)

// RowFilter is a set of rows of one collection, by number, to which searches can be restricted.
// Collection.RowFilter makes it. Row numbers stay valid until the collection is renumbered: by
// Reorder, by a Compact that leaves out deleted rows, or by opening the database again. After
// that, searches refuse the filter with ErrInvalid.
type RowFilter struct {
	rows      *roaring.Bitmap
	coll      string
	numbering *state.Numbering
}

// RowFilter returns a filter for the rows whose numbers are in the bitmap; nil means no rows.
// The numbers must be those of the state that the handle sees, or of another one without a
// renumbering in between. The bitmap is not copied: it must not be changed while a
// search uses it.
//
// Errors: ErrNotFound.
func (c Collection) RowFilter(rows *roaring.Bitmap) (f *RowFilter, err error) {
	if rows == nil {
		rows = roaring.New()
	}
	err = c.read(func(st *state.Collection) error {
		f = &RowFilter{rows: rows, coll: st.Entry.Name, numbering: st.Numbering}
		return nil
	})
	return f, err
}

// filteredRows returns the rows of a filter for this collection; nil means all rows.
func filteredRows(st *state.Collection, f *RowFilter) (*roaring.Bitmap, error) {
	switch {
	case f == nil:
		return nil, nil
	case f.numbering == nil:
		return nil, fmt.Errorf("%w: empty value in a search of %q: make one with Collection.RowFilter",
			fail.Filter, st.Entry.Name)
	case f.numbering == st.Numbering:
		return f.rows, nil
	case f.coll != st.Entry.Name:
		return nil, fmt.Errorf("%w: of %q in a search of %q", fail.Filter, f.coll, st.Entry.Name)
	}
	return nil, fmt.Errorf("%w: the rows of %q have other numbers than in the snapshot that it was made from: "+
		"make one from the snapshot that is searched", fail.Filter, st.Entry.Name)
}
