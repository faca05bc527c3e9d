package db

import (
	"context"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
)

// RowFilter returns a filter for the rows whose numbers are in the bitmap, which is not copied; nil
// means no rows. With the result of Matching it is a filter that is evaluated already, for many
// searches. Once rows have been renumbered (Compact, opening again, maintenance
// in the background unless Policy.Space of maintenance is 1), it is a *filter.Error.
func (c Collection) RowFilter(rows *roaring.Bitmap) (f *filter.Filter, err error) {
	if rows == nil {
		rows = roaring.New()
	}
	err = c.read(context.Background(), func(st *state.Collection) error {
		f = filter.Of(&where.Rows{Set: rows, Collection: st.Entry.Name, Numbering: st.Numbering})
		return nil
	})
	return f, err
}

// Matching returns the numbers of the rows that a filter selects.
func (c Collection) Matching(ctx context.Context, f *filter.Filter) (rows *roaring.Bitmap, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		rows, err = st.Matching(ctx, f.Expr())
		return err
	})
	return rows, err
}

// Count returns the number of rows that a filter selects; nil selects all.
func (c Collection) Count(ctx context.Context, f *filter.Filter) (n int, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		if f.Expr() == where.Every(true) && st.Entry.Attribute(attribute.Expiry) == nil {
			n = int(st.Entry.Live)
			return nil
		}
		rows, err := st.Matching(ctx, f.Expr())
		if err == nil {
			n = int(rows.GetCardinality())
		}
		return err
	})
	return n, err
}

// passingRows returns the rows that a search with a filter may find. Functions of dense searches are
// called later, for the rows that are compared.
func passingRows(ctx context.Context, st *state.Collection, f *filter.Filter) (p where.Passing, err error) {
	if !st.Entry.Sparse {
		return st.Passing(ctx, f.Expr())
	}
	p.Set, err = decidedRows(ctx, st, f)
	return p, err
}

// decidedRows is like passingRows and calls the functions of the filter; nil means all rows.
func decidedRows(ctx context.Context, st *state.Collection, f *filter.Filter) (*roaring.Bitmap, error) {
	p, err := st.Passing(ctx, f.Expr())
	if err != nil || p.Accept == nil {
		return p.Set, err
	}
	return st.Decided(ctx, p)
}
