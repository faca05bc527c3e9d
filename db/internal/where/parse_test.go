package where

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// unplaced returns a filter without the places where its conditions were parsed, and without groups of
// the same kind in each other.
func unplaced(e Expr) Expr {
	switch e := e.(type) {
	case *Group:
		parts := make([]Expr, len(e.Parts()))
		for i, part := range e.Parts() {
			parts[i] = unplaced(part)
		}
		return group(e.Any, parts)
	case *Not:
		return Negate(unplaced(e.Of))
	case *Compare:
		e.text, e.at = "", 0
	}
	return e
}

// TestRoundTrip: a filter's text is parsed to the same filter.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := exprs().Draw(t, "filter")
		got, err := Parse(Text(e))
		if err != nil || !reflect.DeepEqual(unplaced(got), unplaced(e)) {
			t.Fatalf("%s: parsed as %v, %v", Text(e), got, err)
		}
	})
}

// TestParseLimits: texts that are too long or too deep are errors, too.
func TestParseLimits(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		want   string
	}{
		{`x = "` + strings.Repeat("y", 513) + `"`, 5, "string of 513 bytes"},
		{strings.Repeat("(", 1000), 102, "more than 100 nested"},
		{strings.Repeat("not ", 1000), 405, "more than 100 nested"},
		{strings.Repeat(" ", maxText+1), 1, "at most 1048576"},
	} {
		_, err := Parse(c.text)
		var at *Error
		if !errors.As(err, &at) || at.Column() != c.column || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want column %d: %s", c.text, err, c.column, c.want)
		}
	}
}

// FuzzParse: any text is an error with a place in it, or a filter whose text is the same filter.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`price < 20 and label in (boot, bag) and not brand = "x"`,
		"year >= 1990 or (year < 2000 and exists `a``b`)", `name prefix "a\xff\u00e9" or key prefix 'b'`,
		"added > 2024-05-01T10:00:00.5+02:00", "x not in (1, 2.5, true, -inf, w)",
		"label != 7", "not not (true)", "", "x = '", "((", "x = 1e400", "\xff", "grün = é",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) || at.Column() < 1 {
				t.Fatalf("%q: %v", text, err)
			}
			if c := at.Caret(); strings.Count(c, "\n") != 1 || !utf8.ValidString(c) {
				t.Fatalf("%q: caret %q", text, c)
			}
			return
		}
		printed := Text(e)
		if len(printed) > maxText {
			return
		}
		again, err := Parse(printed)
		if err != nil || !reflect.DeepEqual(unplaced(again), unplaced(e)) {
			t.Fatalf("%q: printed as %q, parsed as %v, %v", text, printed, again, err)
		}
	})
}
