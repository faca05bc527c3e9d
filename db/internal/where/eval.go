package where

import (
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
)

// Source answers what a filter asks about the rows of a collection. Sets of rows may be nil if they
// are empty, may have deleted rows, and are not changed by the caller.
type Source interface {
	// Live returns the rows that are not deleted. The caller may change it.
	Live(ctx context.Context) (*roaring.Bitmap, error)
	// Label returns the rows with a label.
	Label(ctx context.Context, label string) (*roaring.Bitmap, error)
	// Attribute returns the rows whose attribute has a key in one of the ranges, which are
	// disjoint and in ascending order.
	Attribute(ctx context.Context, name string, in []attribute.Range) (*roaring.Bitmap, error)
	// Keys returns the rows with the keys.
	Keys(ctx context.Context, keys []string) (*roaring.Bitmap, error)
	// KeyPrefix returns the rows whose key has a prefix.
	KeyPrefix(ctx context.Context, prefix string) (*roaring.Bitmap, error)
	// Comparable returns an error if no row has ever had an attribute, or if its values are not of
	// a type; no type suits all. If the collection is empty, everything is comparable.
	Comparable(name string, with attribute.Type) error
	// Numbered returns an error unless the rows of a set have these numbers in the collection.
	Numbered(r *Rows) error
}

// Passing is the set of rows that pass a filter, as far as it is known without calling functions.
type Passing struct {
	// Set holds all rows that can pass; nil means all rows. It may have deleted rows and must not
	// be changed.
	Set *roaring.Bitmap
	// Accept, if not nil, reports whether a row of Set passes. It calls each function of the
	// filter at most once.
	Accept func(row uint32, key []byte) bool
}

// Evaluate returns the rows that pass a filter. What does not depend on functions of keys is evaluated
// as sets of rows, one attribute at a time.
//
// Errors: those of Refused; those of the source; the context's.
func Evaluate(ctx context.Context, e Expr, src Source) (Passing, error) {
	if err := check(e, src); err != nil {
		return Passing{}, err
	}
	ev := evaluator{ctx, src}
	if !lazy(e) {
		s, err := ev.set(e)
		return Passing{Set: s.rows}, err
	}
	g, ok := e.(*Group)
	if !ok || g.Any {
		accept, err := ev.function(e)
		return Passing{Accept: accept}, err
	}
	var sets, rest []Expr
	for _, part := range g.Parts() {
		if lazy(part) {
			rest = append(rest, part)
		} else {
			sets = append(sets, part)
		}
	}
	s, err := ev.all(sets)
	if err != nil {
		return Passing{}, err
	}
	accept, err := ev.function(And(rest...))
	return Passing{s.rows, accept}, err
}

// lazy reports whether a filter calls functions.
func lazy(e Expr) bool {
	switch e := e.(type) {
	case *Group:
		return slices.ContainsFunc(e.Parts(), lazy)
	case *Not:
		return lazy(e.Of)
	case *KeyFunc:
		return true
	}
	return false
}

type evaluator struct {
	ctx context.Context
	src Source
}

// set is a set of rows; nil means all rows. An owned one may be changed.
type set struct {
	rows  *roaring.Bitmap
	owned bool
}

// shared returns a set of the source.
func shared(rows *roaring.Bitmap, err error) (set, error) {
	if rows == nil && err == nil {
		return set{roaring.New(), true}, nil
	}
	return set{rows, false}, err
}

// changeable returns the rows of a set, or all live rows, for the caller to change.
func (ev *evaluator) changeable(s set) (*roaring.Bitmap, error) {
	switch {
	case s.rows == nil:
		return ev.src.Live(ev.ctx)
	case s.owned:
		return s.rows, nil
	}
	return s.rows.Clone(), nil
}

// set evaluates a filter without functions.
func (ev *evaluator) set(e Expr) (set, error) {
	if err := ev.ctx.Err(); err != nil {
		return set{}, err
	}
	switch e := e.(type) {
	case Every:
		if e {
			return set{}, nil
		}
	case *Group:
		if e.Any {
			return ev.some(e.Parts())
		}
		return ev.all(e.Parts())
	case *HasLabel:
		return ev.labels(e.Labels)
	case *HasKey:
		return shared(ev.src.Keys(ev.ctx, e.Keys))
	case *KeyPrefix:
		if e.Prefix == "" {
			return set{}, nil
		}
		return shared(ev.src.KeyPrefix(ev.ctx, e.Prefix))
	case *Rows:
		return set{e.Set, false}, nil
	default:
		return ev.all([]Expr{e})
	}
	return set{roaring.New(), true}, nil
}

// all evaluates the rows that pass all parts. Conditions on one attribute are evaluated together,
// and what must not hold is subtracted last.
func (ev *evaluator) all(parts []Expr) (out set, err error) {
	var attributes conditions
	var sets, subtract []Expr
	for _, e := range parts {
		if name, ranges, ok := rangesOf(e); ok {
			attributes.add(name, ranges)
		} else if without := complement(e); without != nil {
			subtract = append(subtract, without)
		} else {
			sets = append(sets, e)
		}
	}
	for _, c := range attributes {
		if out, err = ev.and(out, c); err != nil {
			return set{}, err
		}
	}
	for _, e := range sets {
		if out, err = ev.and(out, e); err != nil {
			return set{}, err
		}
	}
	for _, e := range subtract {
		if out, err = ev.minus(out, e); err != nil {
			return set{}, err
		}
	}
	return out, nil
}

// and returns the rows of s that pass e.
func (ev *evaluator) and(s set, e Expr) (set, error) {
	if s.rows != nil && s.rows.IsEmpty() {
		return s, nil
	}
	other, err := ev.operand(e)
	switch {
	case err != nil || other.rows == nil:
		return s, err
	case s.rows == nil:
		return other, nil
	case s.owned:
		s.rows.And(other.rows)
		return s, nil
	case other.owned:
		other.rows.And(s.rows)
		return other, nil
	}
	return set{roaring.And(s.rows, other.rows), true}, nil
}

// minus returns the rows of s that do not pass e.
func (ev *evaluator) minus(s set, e Expr) (set, error) {
	if s.rows != nil && s.rows.IsEmpty() {
		return s, nil
	}
	other, err := ev.operand(e)
	if err != nil {
		return s, err
	}
	if other.rows == nil {
		return set{roaring.New(), true}, nil
	}
	rows, err := ev.changeable(s)
	if err != nil {
		return s, err
	}
	rows.AndNot(other.rows)
	return set{rows, true}, nil
}

// some evaluates the rows that pass at least one part.
func (ev *evaluator) some(parts []Expr) (set, error) {
	out := roaring.New()
	for _, e := range parts {
		s, err := ev.set(e)
		if err != nil || s.rows == nil {
			return s, err
		}
		out.Or(s.rows)
	}
	return set{out, true}, nil
}

func (ev *evaluator) labels(labels []string) (set, error) {
	out := roaring.New()
	for _, label := range labels {
		if err := ev.ctx.Err(); err != nil {
			return set{}, err
		}
		s, err := shared(ev.src.Label(ev.ctx, label))
		if err != nil {
			return set{}, err
		}
		if len(labels) == 1 {
			return s, nil
		}
		out.Or(s.rows)
	}
	return set{out, true}, nil
}

// attributeRanges is the condition that a row's attribute is in one of the ranges.
type attributeRanges struct {
	name string
	in   []attribute.Range
}

func (*attributeRanges) levels() int { return 0 }

// operand evaluates a part of a conjunction.
func (ev *evaluator) operand(e Expr) (set, error) {
	c, ok := e.(*attributeRanges)
	switch {
	case !ok:
		return ev.set(e)
	case len(c.in) == 0:
		return set{roaring.New(), true}, nil
	}
	if err := ev.ctx.Err(); err != nil {
		return set{}, err
	}
	return shared(ev.src.Attribute(ev.ctx, c.name, c.in))
}

// conditions are what must hold of attributes, one entry each.
type conditions []*attributeRanges

// add intersects the condition on an attribute with another one.
func (c *conditions) add(name string, in []attribute.Range) {
	for _, have := range *c {
		if have.name == name {
			have.in = attribute.Intersect(have.in, in)
			return
		}
	}
	*c = append(*c, &attributeRanges{name, in})
}

// rangesOf returns the keys of the values with which a row passes; false if the filter is no
// condition on an attribute that it must have.
func rangesOf(e Expr) (name string, in []attribute.Range, ok bool) {
	c, ok := e.(*Compare)
	if !ok || c.Op == NotEqual {
		return "", nil, false
	}
	if c.Op == Present {
		in = append(in, attribute.All())
	}
	for _, v := range c.Values {
		in = append(in, comparisons[c.Op].of(v))
	}
	return c.Name, attribute.Union(in), true
}

// complement returns the filter whose rows a negative condition excludes; nil for others.
func complement(e Expr) Expr {
	switch e := e.(type) {
	case *Not:
		return e.Of
	case *Compare:
		if e.Op == NotEqual {
			return &Compare{Name: e.Name, Op: Equal, Values: e.Values}
		}
	}
	return nil
}

// function returns a filter as a function of a row; the parts without functions are evaluated.
func (ev *evaluator) function(e Expr) (func(row uint32, key []byte) bool, error) {
	if !lazy(e) {
		s, err := ev.set(e)
		if s.rows == nil || err != nil {
			return func(uint32, []byte) bool { return true }, err
		}
		return func(row uint32, _ []byte) bool { return s.rows.Contains(row) }, nil
	}
	switch e := e.(type) {
	case *Not:
		f, err := ev.function(e.Of)
		return func(row uint32, key []byte) bool { return !f(row, key) }, err
	case *Group:
		// Sets are cheaper than functions of the caller.
		of := slices.Clone(e.Parts())
		slices.SortStableFunc(of, func(a, b Expr) int { return cost(a) - cost(b) })
		parts := make([]func(uint32, []byte) bool, len(of))
		for i, part := range of {
			var err error
			if parts[i], err = ev.function(part); err != nil {
				return nil, err
			}
		}
		return func(row uint32, key []byte) bool {
			for _, part := range parts {
				if part(row, key) == e.Any {
					return e.Any
				}
			}
			return !e.Any
		}, nil
	}
	f := e.(*KeyFunc)
	return func(_ uint32, key []byte) bool { return f.Accept(key) }, nil
}

func cost(e Expr) int {
	if lazy(e) {
		return 1
	}
	return 0
}
