package dataset

import (
	"fmt"
	"slices"
	"strings"
)

// findText finds the column of texts, and then that or those of vectors; the columns that are left are
// attributes.
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
	d.vector = slices.DeleteFunc(d.vector, func(c int) bool { return c == d.texts })
	return d.vectorNextToText(o)
}

// vectorNextToText finds the vector of a file of texts: the column that the options name, the only one with
// a list in brackets, or columns named v0, v1, …, with the name of the options in the place of v.
func (d *delimited) vectorNextToText(o Options) error {
	prefix := "v"
	if o.vectorNamed {
		prefix = o.VectorField
	}
	var parts, lists []int
	for _, c := range d.vector {
		switch first := d.ahead[0]; {
		case d.names == nil:
		case d.names[c] == o.VectorField && o.vectorNamed:
			lists = []int{c}
		case d.names[c] == fmt.Sprint(prefix, len(parts)):
			parts = append(parts, c)
		case !o.vectorNamed && first.err == nil && isVector(first.fields[c]):
			lists = append(lists, c)
		}
	}
	found := parts
	switch {
	case len(lists) == 1:
		found, d.list = lists, true
	case len(parts) == 0 && len(lists) > 1:
		return fmt.Errorf("%w Columns %s and %s hold lists of numbers", ErrVector, d.name(lists[0]),
			d.name(lists[1]))
	case len(parts) == 0 && o.vectorNamed:
		return fmt.Errorf("no column %q for the vector, and no columns %[1]s0, %[1]s1, …", o.VectorField)
	}
	others := slices.DeleteFunc(d.vector, func(c int) bool { return slices.Contains(found, c) })
	d.vector = found
	err := d.addAttributes(fmt.Sprintf("column %s has the text", d.name(d.texts)), others)
	if err != nil || !d.list {
		return err
	}
	return d.firstList(o)
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
	case first.err != nil, number(first.fields[d.vector[i]]), d.numbered() && !d.numbersV(),
		slices.ContainsFunc(d.vector, func(c int) bool { return isList(first.fields[c]) }):
		return -1
	}
	return d.vector[i]
}

// numbersV reports whether there are columns v0 and v1, as exports of vectors have them.
func (d *delimited) numbersV() bool {
	return slices.Contains(d.names, "v0") && slices.Contains(d.names, "v1")
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
