package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
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
	comma   rune
	ahead   []row // rows read by detection, still to be given
	vector  []int // columns, in file order
	list    bool  // the vector is in one column, as a list
	dim     int
	maxDim  int
	labels  []int
	texts   int // column, -1: none; then the vector can be missing
	key     int
	payload int
	expires int
	typed   []attributeColumn
	names   []string // header, nil: none
	sep     string
}

// openDelimited reads csv and tsv.
func openDelimited(s *source, o Options) (decoder, error) {
	d := &delimited{src: s, sep: o.LabelSeparator, maxDim: o.MaxDim, texts: -1, key: -1, payload: -1,
		expires: -1}
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
	d.comma, d.cells = comma, newCells(in, comma, o.MaxDim+maxOtherCells)
	first := d.keep()
	switch {
	case first.err == io.EOF:
		return nil, s.badLine(-1, 1, errors.New("empty file"))
	case first.err != nil && isFinal(first.err):
		return nil, first.err
	case first.err != nil:
		return nil, s.badLine(-1, first.line, first.err)
	}
	second := d.keep()
	if hasHeader(first.fields, second, o) {
		d.names = first.fields
		d.ahead = []row{second}
	} else {
		d.ahead = []row{first, second}
	}
	if err := d.roles(o, len(first.fields)); err != nil {
		return nil, s.badLine(-1, first.line, err)
	}
	if err := d.findText(o); err != nil {
		return nil, s.badLine(-1, first.line, err)
	}
	if !d.list {
		d.dim = len(d.vector)
	}
	if d.texts < 0 {
		if err := d.findList(o); err != nil {
			return nil, s.badLine(-1, first.line, err)
		}
	}
	if n := d.dim; n < 1 && d.texts < 0 || n > o.MaxDim {
		return nil, s.badLine(-1, first.line, fmt.Errorf("%d columns of numbers, want 1..%d", n, o.MaxDim))
	}
	return d, nil
}

// keep reads a row into memory of its own.
func (d *delimited) keep() row {
	fields, err := d.cells.next(-1)
	return row{fields: slices.Clone(fields), line: d.cells.line, err: err}
}

func (d *delimited) schema() Schema {
	s := Schema{
		Kind: Dense, Dim: d.dim, Base: BaseZero, Records: -1, Keyed: d.key >= 0, Expires: d.expires >= 0,
	}
	if d.texts >= 0 {
		s.Kind = Text
	}
	for _, a := range d.typed {
		s.Attributes = append(s.Attributes, a.Attribute)
	}
	return s
}

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
	if err := d.decodeBody(rec, fields, n); err != nil {
		return err
	}
	for _, c := range d.labels {
		for label := range strings.SplitSeq(fields[c], d.sep) {
			if label == "" {
				continue
			}
			var err error
			if rec.Labels, err = appendLabel(rec.Labels, label); err != nil {
				return fmt.Errorf("column %s: %w", d.name(c), err)
			}
		}
	}
	if d.payload >= 0 {
		rec.Payload = append(rec.Payload, fields[d.payload]...)
	}
	if d.key >= 0 {
		if rec.Key = append(rec.Key[:0], fields[d.key]...); len(rec.Key) == 0 {
			return fmt.Errorf("column %s: empty key", d.name(d.key))
		}
	}
	if c, err := d.decodeTyped(rec, fields); err != nil {
		return fmt.Errorf("column %s: %w", d.name(c), err)
	}
	return nil
}

// decodeBody adds the text and the vector of a row to rec.
func (d *delimited) decodeBody(rec *Record, fields []string, n int64) (err error) {
	if d.texts >= 0 {
		rec.Text = fields[d.texts]
		if err = checkText(rec.Text); err != nil {
			return fmt.Errorf("column %s: %w", d.name(d.texts), err)
		}
		empty := func(c int) bool { return strings.TrimSpace(fields[c]) == "" }
		if !slices.ContainsFunc(d.vector, func(c int) bool { return !empty(c) }) {
			return nil
		}
	}
	if !d.list {
		for _, c := range d.vector {
			v, err := parseFinite(strings.TrimSpace(fields[c]))
			if err != nil {
				hint := d.hint(fields[c])
				if n == 0 && d.names != nil && hint == "" {
					return fmt.Errorf("column %s: %w: %w", d.name(c), err, ErrColumn)
				}
				return fmt.Errorf("column %s: %w%s", d.name(c), err, hint)
			}
			rec.Vector = append(rec.Vector, v)
		}
		return nil
	}
	c := d.vector[0]
	most := cmp.Or(d.dim, d.maxDim)
	if rec.Vector, err = appendList(rec.Vector, fields[c], most); err == nil && len(rec.Vector) < d.dim {
		err = fmt.Errorf("%d values, the records before have %d", len(rec.Vector), d.dim)
	}
	if err == nil && len(rec.Vector) == 0 {
		err = errors.New("no values")
	}
	if err != nil {
		return fmt.Errorf("column %s: %w", d.name(c), err)
	}
	d.dim = len(rec.Vector)
	return nil
}

// awaits reports whether the dimension of the vectors next to texts is not known yet.
func (d *delimited) awaits() bool { return d.texts >= 0 && d.list && d.dim == 0 }

// hint returns a remark if the only cell of a line would be several with another separator.
func (d *delimited) hint(cell string) string {
	for _, c := range ";\t|, " {
		first, _, several := strings.Cut(strings.TrimSpace(cell), string(c))
		if several && len(d.vector) == 1 && c != d.comma && (c != ' ' || number(first)) {
			return fmt.Sprintf(" (is %q the separator?)", c)
		}
	}
	return ""
}

// name describes a column in an error.
func (d *delimited) name(c int) string {
	if d.names == nil {
		return strconv.Itoa(c + 1)
	}
	return fmt.Sprintf("%d (%.40q)", c+1, d.names[c])
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

func (delimitedEncoder) counted() bool { return false }

func (e delimitedEncoder) header(int64) ([]byte, error) {
	b := []byte("key")
	names := []string{"labels", "payload"}
	if e.texts {
		b = append(append(b, e.comma), defaultText...)
	}
	for i := range e.dim {
		b = append(b, e.comma, 'v')
		b = strconv.AppendInt(b, int64(i), 10)
	}
	for _, a := range e.attributes {
		names = append(names, a.String())
	}
	if e.expires {
		names = append(names, defaultExpiry)
	}
	for _, name := range names {
		b = e.appendQuoted(append(b, e.comma), name, separators) // other separators do not count in it
	}
	return append(b, '\n'), nil
}

func (e delimitedEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
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
	labels := strings.Join(rec.Labels, "|")
	// encoding/csv, for one, reads these two bytes as one line feed.
	crlf := []byte("\r\n")
	if bytes.Contains(rec.Key, crlf) || bytes.Contains(rec.Payload, crlf) ||
		strings.Contains(labels, "\r\n") || strings.Contains(rec.Text, "\r\n") {
		return dst, errors.New("carriage return and line feed in a text: " +
			"csv readers would change them, jsonl keeps them")
	}
	dst = e.appendCell(dst, string(rec.Key))
	if e.texts {
		dst = e.appendCell(append(dst, e.comma), rec.Text)
	}
	for i := range e.dim {
		dst = append(dst, e.comma)
		if len(rec.Vector) > 0 { // texts can be without one
			dst = strconv.AppendFloat(dst, float64(rec.Vector[i]), 'g', -1, 32)
		}
	}
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, labels)
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, string(rec.Payload))
	dst, err := e.appendTyped(dst, rec)
	return append(dst, '\n'), err
}

// appendCell quotes a text where RFC 4180 asks for it.
func (e delimitedEncoder) appendCell(dst []byte, text string) []byte {
	return e.appendQuoted(dst, text, string(rune(e.comma)))
}

func (delimitedEncoder) appendQuoted(dst []byte, text, separators string) []byte {
	if !strings.ContainsAny(text, "\"\r\n"+separators) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}
