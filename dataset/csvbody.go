package dataset

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// findBody finds the column of texts, and that or those of vectors, among the columns that have no part yet.
// Next to a text, or to a vector in one column, the others are attributes, also numbers.
func (d *delimited) findBody(o Options) error {
	var rest []int
	text := -1
	for i, c := range d.columns {
		switch c.role {
		case noRole:
			rest = append(rest, i)
		case textRole:
			text = i
		}
	}
	if text < 0 {
		text = d.defaultText(o, rest)
	}
	if text < 0 && o.Kind == Text {
		return fmt.Errorf("%w None is named text", ErrText)
	}
	use := ""
	if d.texts = text >= 0; d.texts {
		d.columns[text].role = textRole
		rest = slices.DeleteFunc(rest, func(c int) bool { return c == text })
		use = fmt.Sprintf("column %s has the text", d.name(text))
	}
	if err := d.findVector(o, rest); err != nil {
		return err
	}
	if d.list && use == "" {
		use = fmt.Sprintf("column %s has the vector", d.name(d.vector[0]))
	}
	for _, i := range rest {
		c := d.columns[i]
		switch {
		case slices.Contains(d.vector, i):
			c.role = vectorRole
		case c.name == "" || isVector(d.firstCell(i)):
			return fmt.Errorf("%s, and column %s is neither ignored nor an attribute: %w",
				use, d.name(i), ErrColumn)
		default:
			c.role, c.as = attributeRole, Attribute{c.name, AnyType}
		}
	}
	return nil
}

// firstCell returns a cell of the first record; empty if that cannot be read.
func (d *delimited) firstCell(c int) string {
	if first := d.ahead[0]; first.err == nil {
		return first.fields[c]
	}
	return ""
}

// findVector finds the vector: the column that the options name, or the only one with a list, or, next to a
// text, columns named v0, v1, …, with the name of the options in the place of v, or else all columns. Next
// to a text a list is in brackets.
func (d *delimited) findVector(o Options, rest []int) error {
	prefix := "v"
	if o.vectorNamed {
		prefix = o.VectorField
	}
	var parts, lists []int
	for _, c := range rest {
		name, cell := d.columns[c].name, d.firstCell(c)
		list := isVector(cell) || !d.texts && isList(cell)
		switch {
		case name == o.VectorField && (o.vectorNamed || list):
			d.list, d.vector = true, []int{c}
			return nil
		case d.texts && d.named && name == fmt.Sprint(prefix, len(parts)):
			parts = append(parts, c)
		case list && !o.vectorNamed:
			lists = append(lists, c)
		}
	}
	switch {
	case len(lists) == 1:
		d.list, d.vector = true, lists
	case len(parts) > 0:
		d.vector = parts
	case len(lists) > 1:
		return fmt.Errorf("%w Columns %s and %s hold lists of numbers",
			ErrVector, d.name(lists[0]), d.name(lists[1]))
	case o.vectorNamed && d.texts:
		return fmt.Errorf("no column %q for the vector, and no columns %[1]s0, %[1]s1, …", o.VectorField)
	case o.vectorNamed:
		return fmt.Errorf("no column %q for the vector", o.VectorField)
	case !d.texts:
		d.vector = rest
	}
	return nil
}

// defaultText returns the column of texts where the options do not name it: one named text, in a file
// without vectors unless its records have to be texts, or the only column then; -1 if there is none.
func (d *delimited) defaultText(o Options, rest []int) int {
	if o.Kind == Dense || o.vectorNamed {
		return -1
	}
	i := slices.IndexFunc(rest, func(c int) bool { return roleOf(d.columns[c].name) == textRole })
	switch {
	case o.Kind == Text && i < 0 && len(rest) == 1:
		return rest[0]
	case i < 0:
		return -1
	case o.Kind == Text:
		return rest[i]
	}
	cell := d.firstCell(rest[i])
	if d.ahead[0].err != nil || number(cell) || d.numbered(rest) ||
		slices.ContainsFunc(rest, func(c int) bool { return isList(d.firstCell(c)) }) {
		return -1
	}
	return rest[i]
}

// numbered reports whether columns are named by numbers, as the dimensions of vectors are, other than v0 and
// v1, as exports of texts with vectors have them.
func (d *delimited) numbered(columns []int) bool {
	seen := map[string]bool{}
	twice := false
	for _, c := range columns {
		name := d.columns[c].name
		prefix := strings.TrimRight(name, "0123456789")
		twice = twice || prefix != name && seen[prefix]
		seen[prefix], seen[name] = true, true
	}
	return twice && !(seen["v0"] && seen["v1"])
}

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
