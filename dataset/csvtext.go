package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// findText finds the column of texts, and makes the columns that are left attributes then.
func (d *delimited) findText(o Options) error {
	if d.texts < 0 {
		d.texts = d.defaultText(o)
	}
	switch {
	case d.texts >= 0:
	case o.Kind == Text:
		return fmt.Errorf("%w None is named text", ErrText)
	default:
		return nil
	}
	others := slices.DeleteFunc(d.vector, func(c int) bool { return c == d.texts })
	d.vector = nil
	return d.addAttributes(fmt.Sprintf("column %s has the text", d.name(d.texts)), others)
}

// defaultText returns the column of texts where the options do not name it: one named text, in a file
// without vectors unless its records have to be texts, or the only column then; -1 if there is none.
func (d *delimited) defaultText(o Options) int {
	if o.Kind == Dense || o.vectorNamed {
		return -1
	}
	i := slices.IndexFunc(d.vector, func(c int) bool {
		return d.names != nil && strings.EqualFold(d.names[c], defaultText)
	})
	switch first := d.ahead[0]; {
	case o.Kind == Text && i < 0 && len(d.vector) == 1:
		return d.vector[0]
	case i < 0:
		return -1
	case o.Kind == Text:
	case first.err != nil, number(first.fields[d.vector[i]]), d.numbered(),
		slices.ContainsFunc(d.vector, func(c int) bool { return isList(first.fields[c]) }):
		return -1
	}
	return d.vector[i]
}

// numbered reports whether columns are named by numbers, such as v0 and v1, as the dimensions of vectors
// are.
func (d *delimited) numbered() bool {
	seen := map[string]bool{}
	for _, c := range d.vector {
		prefix := strings.TrimRight(d.names[c], "0123456789")
		if prefix != d.names[c] && seen[prefix] {
			return true
		}
		seen[prefix] = true
	}
	return false
}
