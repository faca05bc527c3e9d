package where

import (
	"fmt"
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
	left := []rune(e.Text[:e.Offset])
	if len(left) > caretWidth {
		left = append([]rune("…"), left[len(left)-caretWidth:]...)
	}
	line := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, string(left)+shortened(e.Text[e.Offset:], caretWidth))
	return line + "\n" + strings.Repeat(" ", len(left)) + "^"
}

// Refused returns the error for a filter that a collection refuses. Package filter replaces it by
// a function that returns a *filter.Error, which wraps fail.Filter, too.
var Refused = func(e *Error) error { return fmt.Errorf("%w: %w", fail.Filter, e) }

// check returns the error of the first part of a filter that is bad or that the source refuses.
func check(e Expr, src Source) error {
	part, reason := refused(e, src)
	if reason == nil {
		return nil
	}
	at := &Error{Reason: reason.Error()}
	if _, ok := part.(*Bad); !ok {
		at.Reason = shortened(Text(part), 60) + ": " + at.Reason
	}
	if c, ok := part.(*Compare); ok && c.text != "" {
		at.Text, at.Offset = c.text, c.at
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
	case *Compare:
		if err := src.Comparable(e.Name, attribute.NoType); err != nil {
			return e, err
		}
		for _, v := range e.Values {
			if err := src.Comparable(e.Name, attribute.TypeOf(v)); err != nil {
				return e, err
			}
		}
	}
	return nil, nil
}

// shortened returns a text, or so many characters of a longer one.
func shortened(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
