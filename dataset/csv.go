package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const byteOrderMark = "\xef\xbb\xbf"

// row is a record held back while the header is being decided.
type row struct {
	fields []string
	line   int64
	err    error
}

// delimited reads csv and tsv.
type delimited struct {
	src     *source
	cells   *cells
	columns []*tableColumn
	named   bool  // there is a header
	ahead   []row // rows read by detection, still to be given
	vector  []int // columns, in file order
	list    bool  // the vector is in one column, as a list
	texts   bool  // there are texts; then the vector can be missing
	dim     int   // 0 until a list has been read
	maxDim  int
	sep     string // of labels
}

// openDelimited reads csv and tsv.
func openDelimited(s *source, o Options) (decoder, error) {
	d := &delimited{src: s, sep: o.LabelSeparator, maxDim: o.MaxDim}
	in := newLines(s)
	comma := o.Separator
	switch {
	case comma != 0:
	case o.Format == FormatTSV:
		comma = '\t'
	default:
		head := s.peek(headSize)
		comma = sniffSeparator(head, len(head) < headSize)
	}
	d.cells = &cells{lines: in, sep: utf8.AppendRune(nil, comma), most: o.MaxDim + maxOtherCells}
	first := d.keep()
	switch {
	case first.err == io.EOF:
		return nil, s.badLine(-1, 1, errors.New("empty file"))
	case first.err != nil && isFinal(first.err):
		return nil, first.err
	case first.err != nil:
		return nil, s.badLine(-1, first.line, first.err)
	}
	d.ahead = []row{first, d.keep()}
	if d.named = hasHeader(first.fields, d.ahead[1], o); d.named {
		d.ahead = d.ahead[1:]
	}
	for i := range first.fields {
		c := &tableColumn{}
		if d.named {
			c.name = first.fields[i]
		}
		d.columns = append(d.columns, c)
	}
	err := assign(d.columns, o)
	if err == nil {
		err = d.findBody(o)
	}
	if n := len(d.vector); err == nil && !d.list && (n < 1 && !d.texts || n > o.MaxDim) {
		err = fmt.Errorf("%d columns of numbers, want 1..%d", n, o.MaxDim)
	}
	if err != nil {
		return nil, s.badLine(-1, first.line, err)
	}
	if !d.list {
		d.dim = len(d.vector)
	}
	return d, nil
}

// keep reads a row into memory of its own.
func (d *delimited) keep() row {
	fields, err := d.cells.next(-1)
	return row{fields: slices.Clone(fields), line: d.cells.line, err: err}
}

// hasHeader decides whether first is a header, see the package documentation.
func hasHeader(first []string, second row, o Options) bool {
	if o.Header != HeaderAuto {
		return o.Header == HeaderPresent
	}
	numbers, typed := 0, false
	for i, cell := range first {
		if roleOf(cell) != noRole {
			return true
		}
		if _, ok := typedName(cell); ok {
			typed = true
		}
		if number(cell) || isList(cell) {
			numbers++
			continue
		}
		if cell != "" && (o.name(cell) || o.vectorNamed && cell == o.VectorField) {
			return true
		}
		if second.err == nil && (number(second.fields[i]) || isList(second.fields[i])) {
			return true
		}
	}
	return (typed || second.err == io.EOF) && numbers == 0
}

// number reports whether a cell is a number, finite or not.
func number(cell string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(cell), 32)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

func (d *delimited) schema() Schema {
	s := Schema{Kind: Dense, Dim: d.dim, Base: BaseZero, Records: -1}
	if d.texts {
		s.Kind = Text
	}
	for _, c := range d.columns {
		switch c.role {
		case keyRole:
			s.Keyed = true
		case expiryRole:
			s.Expires = true
		case attributeRole:
			s.Attributes = append(s.Attributes, c.as)
		}
	}
	return s
}

// awaits reports whether the dimension of the vectors is not known yet.
func (d *delimited) awaits() bool { return d.list && d.dim == 0 }

func (d *delimited) next(rec *Record, n int64) error {
	r := row{}
	if len(d.ahead) > 0 {
		r, d.ahead = d.ahead[0], d.ahead[1:]
		d.src.line = r.line
	} else {
		r.fields, r.err = d.cells.next(n)
	}
	if r.err == nil {
		r.err = d.decode(rec, r.fields, n)
	}
	if r.err == nil || isFinal(r.err) {
		return r.err
	}
	return d.src.badRecord(n, -1, r.err)
}

func (d *delimited) decode(rec *Record, fields []string, n int64) error {
	empty := func(c int) bool { return strings.TrimSpace(fields[c]) == "" }
	without := d.texts && !slices.ContainsFunc(d.vector, func(c int) bool { return !empty(c) })
	for i, c := range d.columns {
		if c.role == vectorRole && without {
			continue
		}
		if err := d.decodeCell(rec, c, fields[i]); err != nil {
			if c.role == vectorRole && !d.list {
				hint := d.hint(fields[i])
				if n == 0 && d.named && hint == "" {
					return fmt.Errorf("column %s: %w: %w", d.name(i), err, ErrColumn)
				}
				return fmt.Errorf("column %s: %w%s", d.name(i), err, hint)
			}
			return fmt.Errorf("column %s: %w", d.name(i), err)
		}
	}
	return nil
}

func (d *delimited) decodeCell(rec *Record, c *tableColumn, cell string) error {
	switch c.role {
	case vectorRole:
		if d.list {
			return d.decodeList(rec, cell)
		}
		v, err := parseFinite(strings.TrimSpace(cell))
		rec.Vector = append(rec.Vector, v)
		return err
	case textRole:
		rec.Text = cell
		return checkText(cell)
	case labelRole:
		for label := range strings.SplitSeq(cell, d.sep) {
			if err := c.put(rec, label); err != nil {
				return err
			}
		}
		return nil
	case expiryRole, attributeRole:
		typ := c.as.Type
		if c.role == expiryRole {
			typ = TimeType
		}
		v, err := typ.Parse(cell)
		if err != nil {
			return err
		}
		return c.putValue(rec, v)
	}
	return c.put(rec, cell)
}

// decodeList decodes a vector in one column.
func (d *delimited) decodeList(rec *Record, cell string) (err error) {
	if rec.Vector, err = appendList(rec.Vector, cell, cmp.Or(d.dim, d.maxDim)); err != nil {
		return err
	}
	switch n := len(rec.Vector); {
	case n < d.dim:
		return fmt.Errorf("%d values, the records before have %d", n, d.dim)
	case n == 0:
		return errors.New("no values")
	default:
		d.dim = n
	}
	return nil
}

// hint returns a remark if the only cell of a line would be several with another separator.
func (d *delimited) hint(cell string) string {
	for _, c := range ";\t|, " {
		first, _, several := strings.Cut(strings.TrimSpace(cell), string(c))
		if several && len(d.vector) == 1 && string(c) != string(d.cells.sep) && (c != ' ' || number(first)) {
			return fmt.Sprintf(" (is %q the separator?)", c)
		}
	}
	return ""
}

// name describes a column in an error.
func (d *delimited) name(c int) string {
	if !d.named {
		return strconv.Itoa(c + 1)
	}
	return fmt.Sprintf("%d (%.40q)", c+1, d.columns[c].name)
}

// parseFinite reads a number that float32 can hold.
func parseFinite(text string) (float32, error) {
	v, err := strconv.ParseFloat(text, 32)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%.40q is out of the range of float32", text)
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a number", text)
	case !finite(float32(v)):
		return 0, fmt.Errorf("%.40q is not finite", text)
	}
	return float32(v), nil
}

// delimitedEncoder writes csv and tsv: key, text, v0, v1, …, labels, payload, attributes, expires.
type delimitedEncoder struct {
	texts      bool
	dim        int
	comma      byte
	attributes []Attribute
	expires    bool
}

func newDelimitedEncoder(s Schema) (encoder, error) {
	if err := checkAttributes(s.Attributes); err != nil {
		return nil, fmt.Errorf("dataset: %w: %w", ErrOption, err)
	}
	e := delimitedEncoder{
		texts: s.Kind == Text, dim: s.Dim, comma: ',', attributes: s.Attributes, expires: s.Expires,
	}
	if s.Format == FormatTSV {
		e.comma = '\t'
	}
	return e, nil
}

// checkAttributes checks the attributes of a csv file to write.
func checkAttributes(attributes []Attribute) error {
	for i, a := range attributes {
		switch {
		case a.Name == "" || strings.Contains(a.Name, "\r\n"):
			return fmt.Errorf("attribute %.40q: the name is empty or has a carriage return and line feed",
				a.Name)
		case a.Type == AnyType || a.Type > TimeType:
			return fmt.Errorf("attribute %.40q has no type", a.Name)
		case slices.Contains(attributes[:i], a):
			return fmt.Errorf("attribute %.40q is given twice with the type %v", a.Name, a.Type)
		}
	}
	return nil
}

func (e delimitedEncoder) header(int64) ([]byte, bool) {
	names := []string{"key"}
	if e.texts {
		names = append(names, defaultText)
	}
	for i := range e.dim {
		names = append(names, "v"+strconv.Itoa(i))
	}
	names = append(names, "labels", "payload")
	for _, a := range e.attributes {
		names = append(names, a.String())
	}
	if e.expires {
		names = append(names, defaultExpiry)
	}
	var b []byte
	for _, name := range names {
		b = append(appendQuoted(b, name, separators), e.comma) // other separators do not count in it
	}
	b[len(b)-1] = '\n'
	return b, false
}

func (e delimitedEncoder) encode(dst []byte, rec *Record) (_ []byte, err error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	for i, label := range rec.Labels {
		if label == "" || strings.Contains(label, "|") {
			return dst, fmt.Errorf(
				"label %d, %.40q, is empty or has a |, which parts labels in csv (jsonl files hold it)",
				i, label)
		}
	}
	cell := func(text string) {
		if strings.Contains(text, "\r\n") { // encoding/csv, for one, reads these two bytes as one line feed
			err = errors.New("carriage return and line feed in a text: " +
				"csv readers would change them, jsonl keeps them")
		}
		dst = append(appendQuoted(dst, text, string(rune(e.comma))), e.comma)
	}
	cell(string(rec.Key))
	if e.texts {
		cell(rec.Text)
	}
	for i := range e.dim {
		if len(rec.Vector) > 0 { // texts can be without one
			dst = strconv.AppendFloat(dst, float64(rec.Vector[i]), 'g', -1, 32)
		}
		dst = append(dst, e.comma)
	}
	cell(strings.Join(rec.Labels, "|"))
	cell(string(rec.Payload))
	values, failure := e.values(rec)
	for _, text := range values {
		cell(text)
	}
	dst[len(dst)-1] = '\n'
	return dst, cmp.Or(failure, err)
}

// values returns the cells of the attributes and the expiry.
func (e delimitedEncoder) values(rec *Record) (cells []string, err error) {
	written := 0
	for _, a := range e.attributes {
		v, ok := rec.Attributes[a.Name]
		t, err := TypeOf(v)
		switch {
		case ok && err != nil:
			return nil, fmt.Errorf("attribute %.40q: %w", a.Name, err)
		case v == "":
			return nil, fmt.Errorf("attribute %.40q is empty: csv readers would leave it out, jsonl keeps it",
				a.Name)
		case !ok || t != a.Type:
			cells = append(cells, "")
		default:
			cells = append(cells, string(appendValue(nil, v)))
			written++
		}
	}
	at := rec.ExpiresAt
	switch {
	case written < len(rec.Attributes):
		return nil, e.missing(rec.Attributes)
	case !e.expires && !at.IsZero():
		return nil, errors.New("the record has an expiry, and the file no column for it")
	case !e.expires:
		return cells, nil
	case at.IsZero():
		return append(cells, ""), nil
	}
	text, err := appendExpiry(nil, at)
	return append(cells, string(text)), err
}

// missing is the error of attributes that the file has no column for. It names the first by name.
func (e delimitedEncoder) missing(attributes map[string]any) error {
	var names []string
	for name, v := range attributes {
		t, _ := TypeOf(v)
		if a := (Attribute{name, t}); !slices.Contains(e.attributes, a) {
			names = append(names, a.String())
		}
	}
	return fmt.Errorf("the file has no column for the attribute %.60q", slices.Min(names))
}

// appendQuoted quotes a cell where RFC 4180 asks for it.
func appendQuoted(dst []byte, text, separators string) []byte {
	if !strings.ContainsAny(text, "\"\r\n"+separators) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}
