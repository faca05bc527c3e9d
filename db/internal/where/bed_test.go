package where

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"pgregory.net/rapid"

	"github.com/anndb/anndb/db/internal/attribute"
)

// row is a row of a bed, with deleted ones, which every set of the source has.
type row struct {
	key        string
	labels     []string
	attributes map[string]any
	deleted    bool
}

// bed is a Source over rows in memory.
type bed []row

func (b bed) where(pass func(r *row) bool) *roaring.Bitmap {
	out := roaring.New()
	for i := range b {
		if pass(&b[i]) {
			out.Add(uint32(i))
		}
	}
	return out
}

func (b bed) Live(context.Context) (*roaring.Bitmap, error) {
	return b.where(func(r *row) bool { return !r.deleted }), nil
}

func (b bed) Label(_ context.Context, label string) (*roaring.Bitmap, error) {
	out := b.where(func(r *row) bool { return slices.Contains(r.labels, label) })
	if out.IsEmpty() {
		return nil, nil
	}
	return out, nil
}

func (b bed) Attribute(_ context.Context, name string, in []attribute.Range) (*roaring.Bitmap, error) {
	if len(in) == 0 {
		return nil, errors.New("no ranges")
	}
	for i, r := range in {
		if r.To != nil && bytes.Compare(r.From, r.To) >= 0 ||
			i > 0 && (in[i-1].To == nil || bytes.Compare(in[i-1].To, r.From) >= 0) {
			return nil, fmt.Errorf("ranges %v", in)
		}
	}
	return b.where(func(r *row) bool {
		v, ok := r.attributes[name]
		return ok && slices.ContainsFunc(in, func(x attribute.Range) bool {
			return x.Contains(attribute.AppendKey(nil, v))
		})
	}), nil
}

func (b bed) Keys(_ context.Context, keys []string) (*roaring.Bitmap, error) {
	return b.where(func(r *row) bool { return slices.Contains(keys, r.key) }), nil
}

func (b bed) KeyPrefix(_ context.Context, prefix string) (*roaring.Bitmap, error) {
	return b.where(func(r *row) bool { return strings.HasPrefix(r.key, prefix) }), nil
}

func (b bed) Comparable(string, attribute.Type) error { return nil }

func (b bed) Numbered(r *Rows) error {
	if r.Collection != "bed" {
		return errors.New("rows of another collection")
	}
	return nil
}

var (
	names  = []string{"price", "brand", "added", "label", "a b`c", "grün"}
	tags   = []string{"boot", "bag", "7", "and", "x y", "\xff", ""}
	keys   = []string{"", "a", "ab", "b\x00", "\xff"}
	values = []any{
		int64(3), 3.0, 2.5, int64(-7), math.Inf(1), int64(math.MaxInt64), 1e300, true, false,
		"", "ab", "abc", "it's \"x\"\n\\", "\u00ad", "2024-05-01",
		time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 123).UTC(),
	}
)

// rows draws the rows of a bed.
func rows() *rapid.Generator[bed] {
	attributes := rapid.MapOfN(rapid.SampledFrom(names[:3]), rapid.SampledFrom(values), 0, 3)
	return rapid.Map(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) row {
		return row{
			key:        rapid.SampledFrom(keys).Draw(t, "key"),
			labels:     rapid.SliceOfN(rapid.SampledFrom(tags), 0, 3).Draw(t, "labels"),
			attributes: attributes.Draw(t, "attributes"),
			deleted:    rapid.IntRange(0, 4).Draw(t, "deleted") == 0,
		}
	}), 0, 30), func(r []row) bed { return r })
}

// exprs draws filters that have a text form.
func exprs() *rapid.Generator[Expr] {
	value := rapid.SampledFrom(values)
	name, text := rapid.SampledFrom(names), rapid.SampledFrom(tags)
	leaf := rapid.Custom(func(t *rapid.T) Expr {
		n := name.Draw(t, "name")
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return Every(rapid.Bool().Draw(t, "every"))
		case 1:
			return MakeCompare(n, OneOf, rapid.SliceOfN(value, 0, 3).Draw(t, "values")...)
		case 2:
			return MakeCompare(n, HasPrefix, rapid.SampledFrom([]string{"", "a", "it's"}).Draw(t, "prefix"))
		case 3:
			return MakeCompare(n, Present)
		case 4:
			return &HasLabel{rapid.SliceOfN(text, 0, 3).Draw(t, "labels")}
		case 5:
			return &KeyPrefix{rapid.SampledFrom(keys).Draw(t, "prefix")}
		case 6:
			return &HasKey{rapid.SliceOfN(rapid.SampledFrom(keys), 0, 3).Draw(t, "keys")}
		case 7:
			low := rapid.SampledFrom([]any{nil, 2, 3.0}).Draw(t, "low")
			return MakeRange(n, low, rapid.SampledFrom([]any{nil, 5}).Draw(t, "high"))
		}
		return MakeCompare(n, Op(rapid.IntRange(0, 5).Draw(t, "op")), value.Draw(t, "value"))
	})
	var tree func(depth int) *rapid.Generator[Expr]
	tree = func(depth int) *rapid.Generator[Expr] {
		if depth == 0 {
			return leaf
		}
		part := tree(depth - 1)
		parts := rapid.SliceOfN(part, 0, 4)
		return rapid.OneOf(leaf, part, rapid.Map(part, Negate),
			rapid.Map(parts, func(of []Expr) Expr { return And(of...) }),
			rapid.Map(parts, func(of []Expr) Expr { return Or(of...) }))
	}
	return tree(4)
}

// passes reports whether a row passes a filter, by the definition of each condition.
func passes(e Expr, number uint32, r *row) bool {
	switch e := e.(type) {
	case Every:
		return bool(e)
	case *Group:
		pass := func(part Expr) bool { return passes(part, number, r) == e.Any }
		return slices.ContainsFunc(e.Parts(), pass) == e.Any
	case *Not:
		return !passes(e.Of, number, r)
	case *HasLabel:
		return slices.ContainsFunc(e.Labels, func(l string) bool { return slices.Contains(r.labels, l) })
	case *HasKey:
		return slices.Contains(e.Keys, r.key)
	case *KeyPrefix:
		return strings.HasPrefix(r.key, e.Prefix)
	case *KeyFunc:
		return e.Accept([]byte(r.key))
	case *Rows:
		return e.Set.Contains(number)
	case *Compare:
		have := r.attributes[e.Name]
		switch e.Op {
		case Present:
			return have != nil
		case HasPrefix:
			s, ok := have.(string)
			return ok && strings.HasPrefix(s, e.Values[0].(string))
		case OneOf:
			return have != nil &&
				slices.ContainsFunc(e.Values, func(v any) bool { return holds(Equal, have, v) })
		}
		return have != nil && holds(e.Op, have, e.Values[0]) || have == nil && e.Op == NotEqual
	}
	panic(fmt.Sprintf("%T", e))
}

// holds compares two values.
func holds(o Op, a, b any) bool {
	sign := 2 // of different classes
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			sign = strings.Compare(x, y)
		}
	case time.Time:
		if y, ok := b.(time.Time); ok {
			sign = x.Compare(y)
		}
	case bool:
		if y, ok := b.(bool); ok {
			sign = bytes.Compare(fmt.Append(nil, x), fmt.Append(nil, y)) // false is before true
		}
	default:
		switch b.(type) {
		case int64, float64:
			sign = bytes.Compare(attribute.AppendKey(nil, a), attribute.AppendKey(nil, b))
		}
	}
	return o == NotEqual && sign != 0 ||
		sign != 2 && (o == Equal && sign == 0 || o == Less && sign < 0 || o == AtMost && sign <= 0 ||
			o == Greater && sign > 0 || o == AtLeast && sign >= 0)
}
