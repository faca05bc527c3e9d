package where

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/fail"
)

// Error says where and why a filter is refused.
type Error struct {
	Text   string // of the filter
	Offset int    // of the wrong part, in bytes
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("column %d: %s", e.Column(), e.Reason) }

// Column is the number of the character at which the error is, from 1 on.
func (e *Error) Column() int { return utf8.RuneCountInString(e.Text[:e.Offset]) + 1 }

// caretWidth is the number of characters that Caret shows on each side of the error.
const caretWidth = 50

// Caret returns the text around the error, with a ^ under its column on a second line.
func (e *Error) Caret() string {
	left, right := []rune(e.Text[:e.Offset]), []rune(e.Text[e.Offset:])
	if len(left) > caretWidth {
		left = append([]rune("…"), left[len(left)-caretWidth:]...)
	}
	if len(right) > caretWidth {
		right = append(right[:caretWidth:caretWidth], '…')
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, string(left)+string(right))
	return line + "\n" + strings.Repeat(" ", len(left)) + "^"
}

// Refused returns the error for a filter that a collection refuses. Package filter replaces it by
// a function that returns a *filter.Error, which wraps fail.Filter, too.
var Refused = func(e *Error) error { return fmt.Errorf("%w: %w", fail.Filter, e) }

// place is where a condition begins in the text that was parsed; conditions that were not parsed
// have none.
type place struct {
	text   string
	offset int
}

// conditioned is a condition on an attribute.
type conditioned interface {
	Expr
	// needs returns the name of the attribute and the types that it is compared with, none if
	// all suit.
	needs() (name string, with []attribute.Type)
	// parsed returns where the condition was parsed, nil for others; begins sets it.
	parsed() *place
	begins(text string, offset int)
}

func (e *Compare) needs() (string, []attribute.Type) { return e.Name, typesOf(e.Value) }
func (e *In) needs() (string, []attribute.Type)      { return e.Name, typesOf(e.Values...) }
func (e *Prefix) needs() (string, []attribute.Type)  { return e.Name, typesOf(e.Prefix) }
func (e *Exists) needs() (string, []attribute.Type)  { return e.Name, nil }

func (e *Compare) parsed() *place { return e.place }
func (e *In) parsed() *place      { return e.place }
func (e *Prefix) parsed() *place  { return e.place }
func (e *Exists) parsed() *place  { return e.place }

func (e *Compare) begins(text string, offset int) { e.place = &place{text, offset} }
func (e *In) begins(text string, offset int)      { e.place = &place{text, offset} }
func (e *Prefix) begins(text string, offset int)  { e.place = &place{text, offset} }
func (e *Exists) begins(text string, offset int)  { e.place = &place{text, offset} }

// typesOf returns the different types of values.
func typesOf(values ...any) (out []attribute.Type) {
	for _, v := range values {
		if t := attribute.TypeOf(v); !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// check returns the error of the first part of a filter that is bad or that the source refuses.
func check(e Expr, src Source) error {
	part, reason := refused(e, src)
	if reason == nil {
		return nil
	}
	at := &Error{Reason: reason.Error()}
	if _, ok := part.(*Bad); !ok {
		at.Reason = shortened(Text(part)) + ": " + at.Reason
	}
	if c, ok := part.(conditioned); ok && c.parsed() != nil {
		at.Text, at.Offset = c.parsed().text, c.parsed().offset
		return Refused(at)
	}
	at.Text, at.Offset = located(e, part)
	return Refused(at)
}

// refused returns the first part of a filter that is bad or that the source refuses, and why.
func refused(e Expr, src Source) (Expr, error) {
	switch e := e.(type) {
	case *Group:
		for _, of := range e.Parts() {
			if part, reason := refused(of, src); reason != nil {
				return part, reason
			}
		}
	case *Not:
		return refused(e.Of, src)
	case *Rows:
		return e, src.Numbered(e)
	case *Bad:
		return e, e.Err
	case conditioned:
		name, with := e.needs()
		if err := src.Comparable(name, attribute.NoType); err != nil {
			return e, err
		}
		for _, t := range with {
			if err := src.Comparable(name, t); err != nil {
				return e, err
			}
		}
	}
	return nil, nil
}

// maxShown is the largest number of characters of a condition in an error.
const maxShown = 60

// shortened returns a text, or the beginning of a long one.
func shortened(s string) string {
	if r := []rune(s); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return s
}
