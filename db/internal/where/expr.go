// Package where has filters: which rows pass, as a tree of conditions on attributes, labels and
// keys, with a text form and its evaluation to a set of rows.
package where

import (
	"fmt"
	"slices"
	"sync"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
)

// maxDepth is the largest number of nested groups and negations.
const maxDepth = 100

// Expr is a filter: a condition, or a combination of others. It does not change once made.
type Expr interface {
	// levels returns the number of nested groups and negations.
	levels() int
}

// Every passes all rows if it is true, none if it is false.
type Every bool

// Group passes the rows that pass all of its parts, or with Any set at least one of them. It has
// two parts or more. [And] and [Or] make it.
type Group struct {
	Any   bool
	of    []Expr // as given, also groups of the same kind
	depth int
	once  sync.Once
	parts []Expr // see Parts
}

// Not passes the rows that its part does not pass. [Negate] makes it.
type Not struct {
	Of    Expr
	depth int
}

// Compare passes the rows whose attribute compares with values, which are normalized: if it is equal to
// one, or if it is of the same class and below or above it, or begins with it. Rows without the attribute
// pass only NotEqual. [MakeCompare] makes it.
type Compare struct {
	Name   string
	Op     Op
	Values []any // any number for OneOf, none for Present, else one
	// A condition that was parsed begins at an offset of this text.
	text string
	at   int
}

// HasLabel passes the rows that have at least one of the labels.
type HasLabel struct{ Labels []string }

// HasKey passes the rows whose key is one of the keys.
type HasKey struct{ Keys []string }

// KeyPrefix passes the rows whose key begins so.
type KeyPrefix struct{ Prefix string }

// KeyFunc passes the rows whose key the function accepts. The key is valid during the call.
type KeyFunc struct{ Accept func(key []byte) bool }

// Rows passes the rows of a set, by number. Collection and Numbering say whose numbers these are.
type Rows struct {
	Set        *roaring.Bitmap
	Collection string
	Numbering  any
}

// Bad is a condition that was made with a bad value, or a combination of too many nested ones. Its
// use is an error.
type Bad struct{ Err error }

// Op is a comparison.
type Op uint8

// The comparisons.
const (
	Equal Op = iota
	NotEqual
	Less
	AtMost
	Greater
	AtLeast
	OneOf
	HasPrefix // of a string
	Present   // any value
)

// comparisons are the texts of comparisons and the ranges of keys of values that pass, which NotEqual and
// Present lack.
var comparisons = [...]struct {
	text, also string
	of         func(v any) attribute.Range
}{
	Equal:    {"=", "==", attribute.Equal},
	NotEqual: {"!=", "<>", nil},
	Less:     {"<", "", attribute.Less}, AtMost: {"<=", "", attribute.AtMost},
	Greater: {">", "", attribute.Greater}, AtLeast: {">=", "", attribute.AtLeast},
	OneOf:     {"in", "", attribute.Equal},
	HasPrefix: {"prefix", "", func(v any) attribute.Range { return attribute.Prefix(v.(string)) }},
}

func (Every) levels() int      { return 0 }
func (g *Group) levels() int   { return g.depth }
func (n *Not) levels() int     { return n.depth }
func (*Compare) levels() int   { return 0 }
func (*HasLabel) levels() int  { return 0 }
func (*HasKey) levels() int    { return 0 }
func (*KeyPrefix) levels() int { return 0 }
func (*KeyFunc) levels() int   { return 0 }
func (*Rows) levels() int      { return 0 }
func (*Bad) levels() int       { return 0 }

// And returns a filter that passes the rows that pass all parts; all rows without parts.
func And(parts ...Expr) Expr { return group(false, parts) }

// Or returns a filter that passes the rows that pass some part; no row without parts.
func Or(parts ...Expr) Expr { return group(true, parts) }

func group(anyOf bool, parts []Expr) Expr {
	switch len(parts) {
	case 0:
		return Every(!anyOf)
	case 1:
		return parts[0]
	}
	g := &Group{Any: anyOf, of: slices.Clone(parts)}
	for _, p := range parts {
		levels := p.levels()
		if inner, ok := p.(*Group); !ok || inner.Any != anyOf {
			levels++
		}
		g.depth = max(g.depth, levels)
	}
	return bounded(g)
}

// Parts returns the parts of the group, none of which is a group of the same kind: those of such groups
// are in their place. They are collected when they are first used, because a filter that a loop extends
// by one part at a time would otherwise be copied each time.
func (g *Group) Parts() []Expr {
	g.once.Do(func() {
		seen := map[*Group]bool{}
		for todo := []Expr{g}; len(todo) > 0; {
			e := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			inner, ok := e.(*Group)
			switch {
			case !ok || inner.Any != g.Any:
				g.parts = append(g.parts, e)
			case !seen[inner]: // again it would change nothing
				seen[inner] = true
				for _, p := range slices.Backward(inner.of) {
					todo = append(todo, p)
				}
			}
		}
	})
	return g.parts
}

// Negate returns a filter that passes the rows that e does not pass.
func Negate(e Expr) Expr { return bounded(&Not{e, e.levels() + 1}) }

// errDeep says that a filter has too many nested conditions.
var errDeep = fmt.Errorf("more than %d nested conditions", maxDepth)

// bounded returns a filter that does not have too many levels.
func bounded(e Expr) Expr {
	if e.levels() > maxDepth {
		return &Bad{errDeep}
	}
	return e
}

// MakeCompare returns a comparison of an attribute with values, which are normalized.
func MakeCompare(name string, op Op, values ...any) Expr {
	c := &Compare{Name: name, Op: op, Values: make([]any, len(values))}
	err := attribute.CheckName(name)
	for i := 0; i < len(values) && err == nil; i++ {
		c.Values[i], err = attribute.Normalize(values[i])
	}
	if err != nil {
		return &Bad{fmt.Errorf("attribute %q: %w", name, err)}
	}
	return c
}

// MakeRange returns a filter for the rows whose attribute is at least low and below high; nil is
// no bound.
func MakeRange(name string, low, high any) Expr {
	var parts []Expr
	if low != nil {
		parts = append(parts, MakeCompare(name, AtLeast, low))
	}
	if high != nil {
		parts = append(parts, MakeCompare(name, Less, high))
	}
	if parts == nil {
		return MakeCompare(name, Present)
	}
	return And(parts...)
}
