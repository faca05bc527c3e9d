package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/where"
)

// Filter selects rows by attributes, labels and keys; nil and the zero value select all. Calls refuse
// one that does not fit the collection (*FilterError); one without rows refuses no attribute.
type Filter struct{ expr where.Expr }

// And selects the rows that all filters select; without filters, all rows.
func And(filters ...*Filter) *Filter { return &Filter{where.And(trees(filters)...)} }

// Or selects the rows that at least one filter selects; without filters, none.
func Or(filters ...*Filter) *Filter { return &Filter{where.Or(trees(filters)...)} }

// Not selects the rows that the filter does not select.
func Not(f *Filter) *Filter { return &Filter{where.Negate(f.tree())} }

// Eq selects the rows whose attribute equals a value: an integer or float, which are equal if their
// numbers are, a string, a bool, or a time.Time.
func Eq(name string, value any) *Filter { return &Filter{where.MakeCompare(name, where.Equal, value)} }

// In selects the rows whose attribute equals one of the values, see Eq.
func In(name string, values ...any) *Filter { return &Filter{where.MakeIn(name, values)} }

// Range selects the rows whose attribute is at least low and below high; nil is no bound, and
// without bounds it is Exists. Numbers, strings (bytewise), times and bools are ordered.
func Range(name string, low, high any) *Filter { return &Filter{where.MakeRange(name, low, high)} }

// Prefix selects the rows whose attribute is a string with the prefix.
func Prefix(name, prefix string) *Filter { return &Filter{where.MakePrefix(name, prefix)} }

// Exists selects the rows that have the attribute.
func Exists(name string) *Filter { return &Filter{where.MakeExists(name)} }

// HasLabel selects the rows that have at least one of the labels.
func HasLabel(labels ...string) *Filter {
	return &Filter{&where.HasLabel{Labels: append([]string{}, labels...)}}
}

// HasKey selects the rows that have one of the keys.
func HasKey(keys ...[]byte) *Filter {
	has := &where.HasKey{Keys: make([]string, len(keys))}
	for i, key := range keys {
		has.Keys[i] = string(key)
	}
	return &Filter{has}
}

// KeyPrefix selects the rows whose key has the prefix.
func KeyPrefix(prefix []byte) *Filter { return &Filter{&where.KeyPrefix{Prefix: string(prefix)}} }

// Func selects the rows whose key satisfies a predicate, which gets a copy of it, possibly from
// several goroutines at once. It is called only for rows that the rest of the filter does not decide.
func Func(accept func(key []byte) bool) *Filter {
	if accept == nil {
		return &Filter{&where.Bad{Err: errors.New("the function is nil")}}
	}
	return &Filter{&where.KeyFunc{Accept: func(key []byte) bool { return accept(slices.Clone(key)) }}}
}

// ParseFilter returns the filter of a text such as
//
//	price < 20 and label in (boot, bag) and not brand = "x" or key prefix "user/"
//
// The guide lists the conditions and the forms of values. Errors: *FilterError.
func ParseFilter(text string) (*Filter, error) {
	e, err := where.Parse(text)
	if err != nil {
		var at *where.Error
		if !errors.As(err, &at) {
			return nil, fmt.Errorf("%w: %w", fail.Filter, err)
		}
		return nil, &FilterError{at}
	}
	return &Filter{e}, nil
}

// FilterError says where and why a filter is refused: its text or a value is bad, no row has ever had
// an attribute, the attribute has another type, or rows have other numbers now. It wraps ErrInvalid.
type FilterError struct{ at *where.Error }

// Error returns a message with the column of the wrong part, in the text that was parsed or else
// in that of Filter.String.
func (e *FilterError) Error() string { return fmt.Sprintf("%v: %v", fail.Filter, e.at) }

func (e *FilterError) Unwrap() error { return fail.Filter }

// Caret returns the text around the error and, on a second line, a ^ under it.
func (e *FilterError) Caret() string { return e.at.Caret() }

func init() { where.Refused = func(e *where.Error) error { return &FilterError{e} } }

// String returns the filter as text, of which ParseFilter makes the same one, except for parts made
// by Func and Collection.RowFilter, which it describes in angle brackets.
func (f *Filter) String() string { return where.Text(f.tree()) }

// tree returns the conditions of a filter.
func (f *Filter) tree() where.Expr {
	if f == nil || f.expr == nil {
		return where.Every(true)
	}
	return f.expr
}

func trees(filters []*Filter) []where.Expr {
	out := make([]where.Expr, len(filters))
	for i, f := range filters {
		out[i] = f.tree()
	}
	return out
}

// RowFilter returns a filter for the rows whose numbers are in the bitmap, which is not copied; nil
// means no rows. With the result of Matching it is a filter that is evaluated already, for many
// searches. Once rows have been renumbered (Compact, opening again, maintenance
// in the background unless Maintenance.Space is 1), it is a *FilterError.
func (c Collection) RowFilter(rows *roaring.Bitmap) (f *Filter, err error) {
	if rows == nil {
		rows = roaring.New()
	}
	err = c.read(context.Background(), func(st *state.Collection) error {
		f = &Filter{&where.Rows{Set: rows, Collection: st.Entry.Name, Numbering: st.Numbering}}
		return nil
	})
	return f, err
}

// Matching returns the numbers of the rows that a filter selects.
func (c Collection) Matching(ctx context.Context, filter *Filter) (rows *roaring.Bitmap, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		rows, err = st.Matching(ctx, filter.tree())
		return err
	})
	return rows, err
}

// Count returns the number of rows that a filter selects, as Matching; nil selects all.
func (c Collection) Count(ctx context.Context, filter *Filter) (n int, err error) {
	err = c.read(ctx, func(st *state.Collection) error {
		if filter.tree() == where.Every(true) && st.Entry.Attribute(attribute.Expiry) == nil {
			n = int(st.Entry.Live)
			return nil
		}
		rows, err := st.Matching(ctx, filter.tree())
		if err == nil {
			n = int(rows.GetCardinality())
		}
		return err
	})
	return n, err
}

// passingRows returns the rows that a search with a filter may find. Functions of dense searches are
// called later, for the rows that are compared.
func passingRows(ctx context.Context, st *state.Collection, f *Filter) (p where.Passing, err error) {
	if !st.Entry.Sparse {
		return st.Passing(ctx, f.tree())
	}
	p.Set, err = decidedRows(ctx, st, f)
	return p, err
}

// decidedRows is like passingRows and calls the functions of the filter; nil means all rows.
func decidedRows(ctx context.Context, st *state.Collection, f *Filter) (*roaring.Bitmap, error) {
	p, err := st.Passing(ctx, f.tree())
	if err != nil || p.Accept == nil {
		return p.Set, err
	}
	return st.Decided(ctx, p)
}
