package where

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Text returns a filter as text. Parse makes the same filter of it, unless it has functions, sets
// of rows or bad values, which have no text form: they are described in angle brackets.
func Text(e Expr) string {
	text, _ := located(e, nil)
	return text
}

// located returns a filter as text, and the offset of one of its parts.
func located(e, part Expr) (text string, offset int) {
	p := printer{part: part}
	write(&p, e)
	return p.String(), p.offset
}

// printer collects the text of a filter.
type printer struct {
	strings.Builder
	part   Expr
	offset int // of part
}

func write(b *printer, e Expr) {
	if e == b.part {
		b.offset = b.Len()
	}
	switch e := e.(type) {
	case Every:
		fmt.Fprint(b, bool(e))
	case *Group:
		writeGroup(b, e)
	case *Not:
		b.WriteString("not ")
		writePart(b, e.Of, true)
	case *Compare:
		writeCompare(b, e)
	case *HasLabel:
		writeNames(b, "label", e.Labels)
	case *HasKey:
		writeNames(b, "key", e.Keys)
	case *KeyPrefix:
		fmt.Fprintf(b, "key prefix %s", strconv.Quote(e.Prefix))
	case *KeyFunc:
		b.WriteString("<function of the key>")
	case *Rows:
		fmt.Fprintf(b, "<%d rows by number>", e.Set.GetCardinality())
	case *Bad:
		fmt.Fprintf(b, "<%v>", e.Err)
	}
}

func writeCompare(b *printer, c *Compare) {
	switch name := quoteName(c.Name); c.Op {
	case OneOf:
		b.WriteString(name)
		writeList(b, c.Values, quoteValue)
	case Present:
		fmt.Fprintf(b, "exists %s", name)
	default:
		fmt.Fprintf(b, "%s %s %s", name, comparisons[c.Op].text, quoteValue(c.Values[0]))
	}
}

// writeNames writes a condition that something is one of several names.
func writeNames(b *printer, what string, names []string) {
	b.WriteString(what)
	if len(names) == 1 {
		fmt.Fprintf(b, " = %s", quoteLabel(names[0]))
		return
	}
	writeList(b, names, quoteLabel)
}

func writeGroup(b *printer, g *Group) {
	for i, part := range g.Parts() {
		switch {
		case i > 0 && g.Any:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(" and ")
		}
		writePart(b, part, !g.Any)
	}
}

// writePart writes a part of a group or negation. enclose puts a group in parentheses, which the
// parts of an "or" do not need, since "and" binds closer.
func writePart(b *printer, e Expr, enclose bool) {
	if _, ok := e.(*Group); !ok || !enclose {
		write(b, e)
		return
	}
	b.WriteByte('(')
	write(b, e)
	b.WriteByte(')')
}

func writeList[T any](b *printer, of []T, quote func(T) string) {
	b.WriteString(" in (")
	for i, v := range of {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(v))
	}
	b.WriteByte(')')
}

// quoteName returns the name of an attribute, in backquotes if it is no plain word.
func quoteName(name string) string {
	if isWord(name) && !isKeyword(name) {
		return name
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

func quoteLabel(label string) string {
	if isWord(label) && !isKeyword(label) || label != "" && strings.Trim(label, "0123456789") == "" {
		return label
	}
	return strconv.Quote(label)
}

func quoteValue(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case time.Time:
		return v.Format(time.RFC3339Nano)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.Trim(s, "-0123456789") == "" {
			s += ".0" // an integer without
		}
		return s
	}
	return fmt.Sprint(v)
}
