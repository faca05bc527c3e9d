package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// isList reports whether a cell has a vector of its own: numbers in brackets, or several numbers.
func isList(cell string) bool {
	rest, bracketed := unbracket(strings.TrimSpace(cell))
	for numbers := 0; ; numbers++ {
		var text string
		if text, rest = cutNumber(rest); text == "" {
			return numbers > 1 || bracketed && numbers == 1
		}
		if !number(text) {
			return false
		}
	}
}

// isVector reports whether a cell has numbers in brackets.
func isVector(cell string) bool {
	_, bracketed := unbracket(strings.TrimSpace(cell))
	return bracketed && isList(cell)
}

// unbracket removes the brackets around a list.
func unbracket(cell string) (string, bool) {
	for _, pair := range []string{"[]", "()", "{}"} {
		if len(cell) > 1 && cell[0] == pair[0] && cell[len(cell)-1] == pair[1] {
			return cell[1 : len(cell)-1], true
		}
	}
	return cell, false
}

// listSeparators separate the numbers of a list.
const listSeparators = ", \t\r\n"

// cutNumber takes the text up to a separator; "" at the end.
func cutNumber(list string) (text, rest string) {
	list = strings.TrimLeft(list, listSeparators)
	if i := strings.IndexAny(list, listSeparators); i >= 0 {
		return list[:i], list[i:]
	}
	return list, ""
}

// appendList appends the numbers of a cell, most at most, to a vector.
func appendList(dst []float32, cell string, most int) ([]float32, error) {
	rest, _ := unbracket(strings.TrimSpace(cell))
	for {
		var text string
		if text, rest = cutNumber(rest); text == "" {
			return dst, nil
		}
		if len(dst) == most {
			return dst, fmt.Errorf("more than %d values", most)
		}
		v, err := parseFinite(text)
		if err != nil {
			return dst, fmt.Errorf("value %d: %w", len(dst), err)
		}
		dst = append(dst, v)
	}
}

// findList makes one column the vector, if the first record has a list there. Then the columns that are left
// are attributes, also numbers: next to a vector of its own these are no dimensions.
func (d *delimited) findList(o Options) error {
	if len(d.ahead) == 0 || d.ahead[0].err != nil {
		return nil
	}
	first := d.ahead[0].fields
	var lists, others []int
	for _, c := range d.vector {
		switch named := d.names != nil && d.names[c] == o.VectorField; {
		case named && (o.vectorNamed || isList(first[c])):
			return d.setList(c, slices.DeleteFunc(slices.Clone(d.vector), func(x int) bool { return x == c }), o)
		case isList(first[c]):
			lists = append(lists, c)
		default:
			others = append(others, c)
		}
	}
	switch {
	case o.vectorNamed:
		return fmt.Errorf("no column %q for the vector", o.VectorField)
	case len(lists) == 0:
		return nil
	case len(lists) > 1:
		return fmt.Errorf("%w Columns %s and %s hold lists of numbers",
			ErrVector, d.name(lists[0]), d.name(lists[1]))
	}
	return d.setList(lists[0], others, o)
}

// setList makes a column of lists the vector.
func (d *delimited) setList(c int, others []int, o Options) error {
	if err := d.addAttributes(fmt.Sprintf("column %s has the vector", d.name(c)), others); err != nil {
		return err
	}
	d.list, d.vector = true, []int{c}
	return d.firstList(o)
}

// firstList finds the dimension by the list of the first record.
func (d *delimited) firstList(o Options) error {
	c := d.vector[0]
	if d.dim = 0; d.ahead[0].err != nil {
		return nil
	}
	v, err := appendList(nil, d.ahead[0].fields[c], o.MaxDim)
	if d.dim = len(v); err != nil {
		return fmt.Errorf("column %s: %w", d.name(c), err)
	}
	return nil
}

// addAttributes makes columns attributes, next to one of another use.
func (d *delimited) addAttributes(use string, columns []int) error {
	for _, c := range columns {
		if d.names == nil || d.names[c] == "" || d.ahead[0].err == nil && isVector(d.ahead[0].fields[c]) {
			return fmt.Errorf("%s, and column %s is neither ignored nor an attribute: %w", use, d.name(c), ErrColumn)
		}
		d.typed = append(d.typed, attributeColumn{c, Attribute{d.names[c], AnyType}})
	}
	return nil
}

// separators are the characters that are tried between the cells, the usual ones first.
const separators = ",\t;|"

// sniffSeparator returns the separator that cuts each of the first lines into as many cells, more than one
// and as many as possible; a comma if there is none. Text in quotes, and in brackets that are closed, is
// passed over.
func sniffSeparator(head []byte, whole bool) rune {
	const most = 10
	lines := bytes.SplitAfterN(bytes.TrimPrefix(head, []byte(byteOrderMark)), []byte("\n"), most+1)
	if n := len(lines); n > 1 && !(whole && n <= most) {
		lines = lines[:n-1] // cut short
	}
	best, cells := ',', 0
	for _, sep := range separators {
		if n := cellsOf(lines, byte(sep)); n > cells {
			best, cells = sep, n
		}
	}
	return best
}

// cellsOf returns how often a separator is in each of the lines; 0 if that differs.
func cellsOf(lines [][]byte, sep byte) int {
	count := -1
	for _, line := range lines {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		n, inside, depth, quoted := 0, 0, 0, false // inside brackets that are still open
		for _, c := range line {
			switch {
			case c == '"':
				quoted = !quoted
			case quoted:
			case c == '[':
				depth++
			case c == ']' && depth > 0:
				if depth--; depth == 0 {
					inside = 0
				}
			case c == sep && depth > 0:
				inside++
			case c == sep:
				n++
			}
		}
		n += inside
		if quoted { // a cell of several lines
			return max(count, 0)
		}
		if count >= 0 && n != count {
			return 0
		}
		count = n
	}
	return max(count, 0)
}
