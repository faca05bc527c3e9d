// Package filter has the filters of searches, reads and predictions: conditions on attributes, labels
// and keys, made by functions or parsed from a text.
package filter

import (
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/where"
)

// Filter selects rows by attributes, labels and keys; nil and the zero value select all. Calls refuse
// one that does not fit the collection (*Error); one without rows refuses no attribute.
type Filter struct{ expr where.Expr }

// And selects the rows that all filters select; without filters, all rows.
func And(filters ...*Filter) *Filter { return &Filter{where.And(expressions(filters)...)} }

// Or selects the rows that at least one filter selects; without filters, none.
func Or(filters ...*Filter) *Filter { return &Filter{where.Or(expressions(filters)...)} }

// Not selects the rows that the filter does not select.
func Not(f *Filter) *Filter { return &Filter{where.Negate(f.Expr())} }

// Eq selects the rows whose attribute equals a value: an integer or float, which are equal if their
// numbers are, a string, a bool, or a time.Time.
func Eq(name string, value any) *Filter { return &Filter{where.MakeCompare(name, where.Equal, value)} }

// In selects the rows whose attribute equals one of the values, see Eq.
func In(name string, values ...any) *Filter {
	return &Filter{where.MakeCompare(name, where.OneOf, values...)}
}

// Range selects the rows whose attribute is at least low and below high; nil is no bound, and
// without bounds it is Exists. Numbers, strings (bytewise), times and bools are ordered.
func Range(name string, low, high any) *Filter { return &Filter{where.MakeRange(name, low, high)} }

// Prefix selects the rows whose attribute is a string with the prefix.
func Prefix(name, prefix string) *Filter {
	return &Filter{where.MakeCompare(name, where.HasPrefix, prefix)}
}

// Exists selects the rows that have the attribute.
func Exists(name string) *Filter { return &Filter{where.MakeCompare(name, where.Present)} }

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

// Parse returns the filter of a text such as
//
//	price < 20 and label in (boot, bag) and not brand = "x" or key prefix "user/"
//
// The guide lists the conditions and the forms of values. Errors: *Error.
func Parse(text string) (*Filter, error) {
	e, err := where.Parse(text)
	if err != nil {
		var at *where.Error
		if !errors.As(err, &at) {
			return nil, fmt.Errorf("%w: %w", fail.Filter, err)
		}
		return nil, &Error{at}
	}
	return &Filter{e}, nil
}

// Error says where and why a filter is refused: its text or a value is bad, no row has ever had
// an attribute, the attribute has another type, or rows have other numbers now. It wraps db.ErrInvalid.
type Error struct{ at *where.Error }

// Error returns a message with the column of the wrong part, in the text that was parsed or else
// in that of Filter.String.
func (e *Error) Error() string { return fmt.Sprintf("%v: %v", fail.Filter, e.at) }

// Unwrap returns the reason, which wraps db.ErrInvalid.
func (e *Error) Unwrap() error { return fail.Filter }

// Caret returns the text around the error and, on a second line, a ^ under it.
func (e *Error) Caret() string { return e.at.Caret() }

func init() { where.Refused = func(e *where.Error) error { return &Error{e} } }

// String returns the filter as text, of which Parse makes the same one, except for parts made
// by Func and db.Collection.RowFilter, which it describes in angle brackets.
func (f *Filter) String() string { return where.Text(f.Expr()) }

// MarshalText returns the filter as text, as String does.
func (f *Filter) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText is Parse; an empty text selects all rows.
func (f *Filter) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	parsed, err := Parse(string(text))
	if err == nil {
		*f = *parsed
	}
	return err
}

// Of returns the filter of an expression. Package db makes filters of rows with it.
func Of(e where.Expr) *Filter { return &Filter{e} }

// Expr returns the expression that package db evaluates.
func (f *Filter) Expr() where.Expr {
	if f == nil || f.expr == nil {
		return where.Every(true)
	}
	return f.expr
}

func expressions(filters []*Filter) []where.Expr {
	out := make([]where.Expr, len(filters))
	for i, f := range filters {
		out[i] = f.Expr()
	}
	return out
}
