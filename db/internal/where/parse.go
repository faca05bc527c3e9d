package where

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/attribute"
)

// maxText is the largest length of a filter's text in bytes.
const maxText = 1 << 20

// Parse returns the filter of a text:
//
//	filter    = all { "or" all }
//	all       = part { "and" part }
//	part      = "not" part | "(" filter ")" | condition
//	condition = name ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
//	          | name [ "not" ] "in" list | name "prefix" value | "exists" name
//	          | ( "label" | "key" ) ( "=" | "!=" ) value | ( "label" | "key" ) [ "not" ] "in" list
//	          | "key" "prefix" value | "true" | "false"
//	list      = "(" [ value { "," value } ] ")"
//
// Keywords are in upper or lower case. A name is a word, or any text in backquotes. A value is an
// integer, a float, true, false, a date (2024-05-01, the start of the day in UTC) or time
// (2024-05-01T10:00:00Z, or with another zone), a word, or a string in single or double quotes with
// the escapes of Go. A label or key is a word, a number as it is written, or a string.
//
// Errors: *Error.
func Parse(text string) (Expr, error) {
	if len(text) > maxText {
		return nil, &Error{text, 0, fmt.Sprintf("filter of %d bytes, at most %d", len(text), maxText)}
	}
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return nil, &Error{text, i, `not UTF-8: write bytes as escapes (\xff) in a string`}
		}
	}
	p := parser{text: text}
	p.advance()
	e := p.filter()
	if p.err == nil && p.tok.class != endOfText {
		p.expected(`"and" or "or"`)
	}
	if p.err != nil {
		return nil, p.err
	}
	return e, nil
}

// parser reads a text from left to right. After an error it is at the end of the text.
type parser struct {
	text  string
	at    int // after tok
	tok   token
	depth int
	err   error
}

// advance makes the next token the current one and returns the one before.
func (p *parser) advance() token {
	last := p.tok
	if p.err == nil {
		var err error
		if p.tok, err = next(p.text, p.at); err != nil {
			p.err = err
		}
		p.at = p.tok.at + len(p.tok.source)
	}
	if p.err != nil {
		p.tok = token{at: len(p.text)}
	}
	return last
}

// fail records the first error.
func (p *parser) fail(at int, format string, a ...any) {
	if p.err == nil {
		p.err = &Error{p.text, at, fmt.Sprintf(format, a...)}
	}
	p.tok = token{at: len(p.text)}
}

func (p *parser) expected(what string) {
	p.fail(p.tok.at, "expected %s, found %s", what, p.tok.describe())
}

// accept skips a keyword if it is the current token.
func (p *parser) accept(keyword string) bool {
	if !p.tok.is(keyword) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) filter() Expr {
	parts := []Expr{p.all()}
	for p.accept("or") {
		parts = append(parts, p.all())
	}
	return Or(parts...)
}

func (p *parser) all() Expr {
	parts := []Expr{p.part()}
	for p.accept("and") {
		parts = append(parts, p.part())
	}
	return And(parts...)
}

func (p *parser) part() Expr {
	if p.depth++; p.depth > maxDepth+1 {
		p.fail(p.tok.at, "%v", errDeep)
		return Every(false)
	}
	defer func() { p.depth-- }()
	switch {
	case p.accept("not"):
		return Negate(p.part())
	case p.tok.isMark("("):
		open := p.advance()
		e := p.filter()
		if !p.tok.isMark(")") {
			p.expected(fmt.Sprintf(`"and", "or" or the ")" for the "(" in column %d`,
				(&Error{p.text, open.at, ""}).Column()))
			return e
		}
		p.advance()
		return e
	}
	return p.condition()
}

func (p *parser) condition() Expr {
	first := p.tok
	switch {
	case p.accept("true"):
		return Every(true)
	case p.accept("false"):
		return Every(false)
	case p.accept("exists"):
		at := p.tok
		return p.made(first, at, MakeCompare(p.attribute(`a name after "exists"`), Present))
	case p.accept("label"):
		return p.nameCondition("label", "=, != or in", func(names []string) Expr { return &HasLabel{names} })
	case p.accept("key"):
		if p.accept("prefix") {
			return &KeyPrefix{p.literal(`a key prefix`)}
		}
		return p.nameCondition("key", "=, !=, in or prefix", func(names []string) Expr { return &HasKey{names} })
	}
	name := p.attribute(`a condition, as in price < 20`)
	return p.attributeCondition(first, name)
}

// attribute reads the name of an attribute.
func (p *parser) attribute(what string) string {
	switch {
	case p.tok.class == word && isKeyword(p.tok.text):
		p.fail(p.tok.at, "expected %s, found the keyword %q: a name like this is in backquotes",
			what, p.tok.text)
	case p.tok.class != word && p.tok.class != name:
		p.expected(what)
	default:
		if err := attribute.CheckName(p.tok.text); err != nil {
			p.fail(p.tok.at, "%v", err)
		}
	}
	return p.advance().text
}

// operator reads a comparison.
func (p *parser) operator() (op Op, found bool) {
	if p.tok.class != mark {
		return 0, false
	}
	for op, c := range comparisons[:OneOf] {
		if p.tok.text == c.text || p.tok.text == c.also {
			p.advance()
			return Op(op), true
		}
	}
	return 0, false
}

func (p *parser) attributeCondition(first token, name string) Expr {
	if op, found := p.operator(); found {
		at := p.tok
		return p.made(first, at, MakeCompare(name, op, p.value()))
	}
	if p.accept("prefix") {
		at := p.tok
		return p.made(first, at, MakeCompare(name, HasPrefix, p.literal("a string")))
	}
	negate := p.accept("not")
	if !p.accept("in") {
		p.expected(fmt.Sprintf("=, !=, <, <=, >, >=, in or prefix after %s", first.describe()))
		return Every(false)
	}
	var values []any
	at := p.tok
	p.list(func() { values = append(values, p.value()) })
	e := p.made(first, at, MakeCompare(name, OneOf, values...))
	if negate {
		return Negate(e)
	}
	return e
}

// nameCondition reads a condition on labels or keys after the word for them. operators are those that
// the word may have.
func (p *parser) nameCondition(word, operators string, has func(names []string) Expr) Expr {
	at, value := p.tok.at, "a "+word
	if op, found := p.operator(); found && op <= NotEqual {
		e := has([]string{p.literal(value)})
		if op == NotEqual {
			e = Negate(e)
		}
		return e
	} else if found {
		p.fail(at, "%ss have no order: compare them by = or !=", word)
		return Every(false)
	}
	negate := p.accept("not")
	if !p.accept("in") {
		p.expected(fmt.Sprintf("%s after %q (an attribute called %s is in backquotes)", operators, word, word))
		return Every(false)
	}
	names := []string{}
	p.list(func() { names = append(names, p.literal(value)) })
	if negate {
		return Negate(has(names))
	}
	return has(names)
}

// list reads values in parentheses.
func (p *parser) list(value func()) {
	if !p.tok.isMark("(") {
		p.expected(`"(" after "in"`)
		return
	}
	p.advance()
	for first := true; !p.tok.isMark(")"); first = false {
		if !first {
			if !p.tok.isMark(",") {
				p.expected(`"," or ")"`)
				return
			}
			p.advance()
		}
		value()
		if p.err != nil {
			return
		}
	}
	p.advance()
}

// made records where a condition begins, or the error of one that was made with a bad value.
func (p *parser) made(first, value token, e Expr) Expr {
	switch e := e.(type) {
	case *Bad:
		p.fail(value.at, "%v", e.Err)
	case *Compare:
		e.text, e.at = p.text, first.at
	}
	return e
}

// literal reads a string, a word, or a number as it is written.
func (p *parser) literal(what string) string {
	t := p.tok
	switch {
	case t.class == word && isKeyword(t.text) && !t.is("true") && !t.is("false"):
		p.fail(t.at, "expected %s, found the keyword %q: a text like this is in quotes", what, t.text)
	case t.class != word && t.class != number && t.class != quoted:
		p.expected(what)
	}
	p.advance()
	return t.text
}

// value reads the value of an attribute.
func (p *parser) value() any {
	t := p.tok
	switch {
	case t.is("true"), t.is("false"):
		p.advance()
		return t.is("true")
	case t.class == number:
		v, err := numberOrTime(t.text)
		if err != nil {
			p.fail(t.at, "%s: %v", t.describe(), err)
		}
		p.advance()
		return v
	}
	return p.literal("a value")
}

// timeForms are the forms of dates and times; a fraction of a second may follow the seconds.
var timeForms = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00",
	"2006-01-02T15:04:05Z07:00"}

func numberOrTime(s string) (any, error) {
	v, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, strconv.ErrRange):
		return nil, errors.New("an integer has at most 64 bits: write a float as 1e20, or a string in quotes")
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil && !strings.ContainsAny(s, "xXpP_") {
		return f, nil
	} else if errors.Is(err, strconv.ErrRange) {
		return nil, errors.New("too large for a float")
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, s); err == nil {
			return t, nil
		}
	}
	return nil, errors.New("neither a number nor a date (2024-05-01) or time (2024-05-01T10:00:00Z): " +
		"a text is in quotes")
}
