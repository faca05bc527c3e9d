package where

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
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
		e.place = nil
	case *In:
		e.place = nil
	case *Prefix:
		e.place = nil
	case *Exists:
		e.place = nil
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

func TestParse(t *testing.T) {
	day := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]Expr{
		`price < 20 and label in (boot, bag) and not brand = "x"`: And(MakeCompare("price", Less, 20),
			&HasLabel{[]string{"boot", "bag"}}, Negate(MakeCompare("brand", Equal, "x"))),
		"year >= 1990 AND year < 2000":     MakeRange("year", 1990, 2000),
		`name prefix "ab" or exists brand`: Or(MakePrefix("name", "ab"), MakeExists("brand")),
		"a=1 or b=2 and not c=3 or d=4": Or(MakeCompare("a", Equal, 1),
			And(MakeCompare("b", Equal, 2), Negate(MakeCompare("c", Equal, 3))), MakeCompare("d", Equal, 4)),
		"(a=1 or b=2) and c=3": And(Or(MakeCompare("a", Equal, 1), MakeCompare("b", Equal, 2)),
			MakeCompare("c", Equal, 3)),
		`key = 007`:                            &HasKey{[]string{"007"}},
		`key != 'a b'`:                         Negate(&HasKey{[]string{"a b"}}),
		`key not in (a, "\xff")`:               Negate(&HasKey{[]string{"a", "\xff"}}),
		`key prefix 'user/'`:                   &KeyPrefix{"user/"},
		`key prefix "\xff\n\'\""`:              &KeyPrefix{"\xff\n'\""},
		"label = boot":                         &HasLabel{[]string{"boot"}},
		"label != 007":                         Negate(&HasLabel{[]string{"007"}}),
		"Label NOT IN (true, 7)":               Negate(&HasLabel{[]string{"true", "7"}}),
		"label in ()":                          &HasLabel{[]string{}},
		"x not in (1, 2)":                      Negate(MakeIn("x", []any{1, 2})),
		"added > 2024-05-01":                   MakeCompare("added", Greater, day),
		`added = "2024-05-01"`:                 MakeCompare("added", Equal, "2024-05-01"),
		"added <= 2024-05-01T10:00:00Z":        MakeCompare("added", AtMost, day.Add(10*time.Hour)),
		"added <= 2024-05-01T10:00:00.5+02:00": MakeCompare("added", AtMost, day.Add(8*time.Hour+time.Second/2)),
		"added <= 2024-05-01T10:00":            MakeCompare("added", AtMost, day.Add(10*time.Hour)),
		"x = true and y <> false":              And(MakeCompare("x", Equal, true), MakeCompare("y", NotEqual, false)),
		"x == -3 and y>-.5e1":                  And(MakeCompare("x", Equal, -3), MakeCompare("y", Greater, -5.0)),
		"x < +Inf":                             MakeCompare("x", Less, inf),
		"x = 3.0":                              MakeCompare("x", Equal, 3.0),
		"x = some-word.1":                      MakeCompare("x", Equal, "some-word.1"),
		"grün = 'grün'":                        MakeCompare("grün", Equal, "grün"),
		"`label` = 1 and `a``b` = 2":           And(MakeCompare("label", Equal, 1), MakeCompare("a`b", Equal, 2)),
		"true":                                 Every(true),
		"not false\n":                          Negate(Every(false)),
	} {
		if got, err := Parse(text); err != nil || !reflect.DeepEqual(unplaced(got), unplaced(want)) {
			t.Errorf("%s: %v, %v, want %s", text, got, err, Text(want))
		}
	}
}

var inf = func() float64 { f := 1e308; return f * 10 }()

func TestParseErrors(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		want   string
	}{
		{"", 1, "expected a condition, as in price < 20, found the end of the filter"},
		{"price", 6, "expected =, !=, <, <=, >, >=, in or prefix after price, found the end of the filter"},
		{"price < ", 9, "expected a value, found the end of the filter"},
		{"price < 20 brand = 1", 12, `expected "and" or "or", found brand`},
		{"price < 20 and", 15, "expected a condition"},
		{"(price < 20", 12, `the ")" for the "(" in column 1, found the end`},
		{"price < 20)", 11, `expected "and" or "or", found )`},
		{"20 > price", 1, "expected a condition, as in price < 20, found 20"},
		{"price < 20x", 9, "20x: neither a number nor a date"},
		{"price < 2024-13-01", 9, "neither a number nor a date"},
		{"price < 99999999999999999999", 9, "at most 64 bits"},
		{"price < 1e999", 9, "too large for a float"},
		{"price = 0x10", 9, "neither a number"},
		{"price < +nan", 9, "neither a number"},
		{"added < 0001-01-01", 9, "not within the years"},
		{"grün < 1 und x = 1", 10, `expected "and" or "or", found und`},
		{"in = 3", 1, `found the keyword "in": a name like this is in backquotes`},
		{"x = and", 5, `found the keyword "and": a text like this is in quotes`},
		{"x in 3", 6, `expected "(" after "in", found 3`},
		{"x in (1 2)", 9, `expected "," or ")", found 2`},
		{"x in (1,", 9, "expected a value, found the end"},
		{"x in (1,)", 9, "expected a value, found )"},
		{"x not 3", 7, "expected =, !=, <"},
		{"x prefix 3", 0, ""},
		{"label < boot", 7, "labels have no order"},
		{"label", 6, `expected =, != or in after "label"`},
		{"label prefix x", 7, `expected =, != or in after "label"`},
		{"key < x", 5, "keys have no order"},
		{"key x", 5, "expected =, !=, in or prefix after \"key\""},
		{"x = 'abc", 5, "string without a closing '"},
		{`x = "a\qb"`, 7, "unknown escape"},
		{"`x = 3", 1, "name without a closing backquote"},
		{"`` = 3", 1, `name "" (want`},
		{"x = #", 5, `unexpected character '#'`},
		{"x = \xff", 5, "not UTF-8"},
		{"x ! 3", 3, "expected =, !="},
		{`x = "` + strings.Repeat("y", 513) + `"`, 5, "string of 513 bytes"},
		{strings.Repeat("(", 1000), 102, "more than 100 nested"},
		{strings.Repeat("not ", 1000), 405, "more than 100 nested"},
		{strings.Repeat(" ", maxText+1), 1, "at most 1048576"},
	} {
		_, err := Parse(c.text)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.text, err)
			}
			continue
		}
		var at *Error
		if !errors.As(err, &at) || at.Column() != c.column || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want column %d: %s", c.text, err, c.column, c.want)
		}
	}
}

func TestCaret(t *testing.T) {
	for text, want := range map[string]string{
		"grün < 1\tund": "grün < 1 und\n         ^",
		"x = 3 and":     "x = 3 and\n         ^",
		"x in (" + strings.Repeat("1,", 30) + "=" + strings.Repeat(",1", 30) + ")": "…" + strings.Repeat("1,", 25) +
			"=" + strings.Repeat(",1", 24) + ",…\n" + strings.Repeat(" ", 51) + "^",
	} {
		var at *Error
		if _, err := Parse(text); !errors.As(err, &at) || at.Caret() != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", text, err, at.Caret(), want)
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
