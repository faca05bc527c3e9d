package where

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
)

// typed is a bed whose attributes have types.
type typed struct {
	bed
	types map[string]attribute.Type
}

func (s typed) Comparable(name string, with attribute.Type) error {
	if has := s.types[name]; has == attribute.NoType || with != attribute.NoType && with != has {
		return fmt.Errorf("%s is %q, not %q", name, has, with)
	}
	return nil
}

// TestRefused: a condition that does not suit the types of attributes is refused with its column in
// the text that was parsed, also in a combination with other filters, or in the filter's own text.
func TestRefused(t *testing.T) {
	src := typed{nil, map[string]attribute.Type{"price": "number", "brand": "string", "added": "time"}}
	for text, column := range map[string]int{
		`price < 3 and brand in (x, y) and exists added and brand prefix x`: 0,
		`price   <   20 and sold = true`:                                    20,
		`label = x or not price = "3"`:                                      18,
		`brand = x and (price=1 or brand in (x, 7))`:                        27,
		`true and exists none`:                                              10,
		`price prefix "1"`:                                                  1,
		`added > 2024-05-01 and added < "2024-06-01"`:                       24,
		`false and not (true or added = 3)`:                                 24,
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range []Expr{parsed, Or(MakeCompare("price", Present), Negate(parsed))} {
			_, err := Evaluate(t.Context(), e, src)
			if column == 0 {
				if err != nil {
					t.Errorf("%s: %v", text, err)
				}
				continue
			}
			at, ok := errors.AsType[*Error](err)
			if !ok || !errors.Is(err, fail.Filter) || at.Text != text || at.Column() != column {
				t.Errorf("%s: %v, want column %d", text, err, column)
			}
		}
	}
	for want, e := range map[string]Expr{
		`column 19: none > 3: none is "", not ""`: And(&HasLabel{[]string{"a"}},
			Negate(MakeCompare("none", Greater, 3))),
		`column 1: <0 rows by number>: rows of another`: &Rows{Set: roaring.New()},
		`column 17: brand = true: brand is "string"`: Or(MakeCompare("price", Present),
			MakeCompare("brand", Equal, true)),
		`column 1: price in (1, "` + strings.Repeat("x", 46) + "…: price": MakeCompare("price", OneOf, 1,
			strings.Repeat("x", 60)),
	} {
		if _, err := Evaluate(t.Context(), e, src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
