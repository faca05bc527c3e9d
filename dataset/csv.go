package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

const byteOrderMark = "\xef\xbb\xbf"

var errTooLong = fmt.Errorf("record longer than %d bytes", maxTextRecord)

// guard bounds what one csv record may take in, so that a quote that is never
// closed does not pull the whole file into memory.
type guard struct {
	r    io.Reader
	left int
}

func (g *guard) Read(p []byte) (int, error) {
	if g.left <= 0 {
		return 0, errTooLong
	}
	n, err := g.r.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// row is a csv record held back while the header is being decided.
type row struct {
	fields []string
	line   int64
	err    error
}

// delimited reads csv and tsv.
type delimited struct {
	src      *source
	guard    *guard
	csv      *csv.Reader
	ahead    []row // rows read by detection, still to be given
	vector   []int // columns, in file order
	labels   []int
	key      int // column, -1: none
	payload  int
	names    []string // header, nil: none
	sep      string
	lastLine int64
}

// openDelimited reads csv and tsv.
func openDelimited(s *source, o Options) (decoder, error) {
	if string(s.peek(3)) == byteOrderMark {
		s.skip(3)
	}
	d := &delimited{src: s, sep: o.LabelSeparator, key: -1, payload: -1}
	d.guard = &guard{r: s.br, left: maxTextRecord}
	d.csv = csv.NewReader(d.guard)
	if o.Format == FormatTSV {
		d.csv.Comma = '\t'
	}
	if o.Separator != 0 {
		d.csv.Comma = o.Separator
	}
	d.csv.ReuseRecord = true
	first := d.keep()
	if first.err == io.EOF {
		return nil, s.badLine(-1, 1, errors.New("empty file"))
	}
	if first.err != nil {
		return nil, first.err
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
	if n := len(d.vector); n < 1 || n > o.MaxDim {
		return nil, s.badLine(-1, first.line, fmt.Errorf("%d columns of numbers, want 1..%d", n, o.MaxDim))
	}
	return d, nil
}

// keep reads a row into memory of its own.
func (d *delimited) keep() row {
	fields, line, err := d.line()
	return row{fields: slices.Clone(fields), line: line, err: err}
}

// line reads a row from the file. Its fields hold until the next call.
func (d *delimited) line() ([]string, int64, error) {
	// csv.Reader reads ahead into a buffer of its own, so the bound is loose
	// by the size of that buffer.
	d.guard.left = maxTextRecord
	fields, err := d.csv.Read()
	if err == io.EOF {
		return nil, 0, io.EOF
	}
	var p *csv.ParseError
	switch {
	case errors.As(err, &p):
		line, cause := int64(p.Line), p.Err
		switch {
		case errors.Is(p.Err, csv.ErrFieldCount):
			cause = fmt.Errorf("%d fields, the lines before have %d: %w", len(fields), d.csv.FieldsPerRecord, p.Err)
		case p.Column > 0:
			cause = fmt.Errorf("column %d: %w", p.Column, p.Err)
		}
		return nil, 0, d.src.badLine(-1, line, cause)
	case err != nil:
		return nil, 0, d.src.failLine(-1, d.lastLine+1, err)
	}
	line, _ := d.csv.FieldPos(0)
	d.lastLine = int64(line)
	return fields, d.lastLine, nil
}

// number reports whether a cell is a number, finite or not.
func number(cell string) bool {
	_, err := strconv.ParseFloat(strings.TrimSpace(cell), 32)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// hasHeader decides whether first is a header, see the package documentation.
func hasHeader(first []string, second row, o Options) bool {
	if o.Header != HeaderAuto {
		return o.Header == HeaderPresent
	}
	named := slices.Concat([]string{o.KeyColumn, o.PayloadColumn}, o.LabelColumns, o.IgnoreColumns)
	numbers := 0
	for i, cell := range first {
		if isRoleName(cell) {
			return true
		}
		if number(cell) {
			numbers++
			continue
		}
		if cell != "" && slices.Contains(named, cell) {
			return true
		}
		if second.err == nil && number(second.fields[i]) {
			return true
		}
	}
	return second.err == io.EOF && numbers == 0
}

func isRoleName(cell string) bool {
	switch strings.ToLower(cell) {
	case "key", "id", "label", "labels", "payload":
		return true
	}
	return false
}

// roles gives every one of n columns its part.
func (d *delimited) roles(o Options, n int) error {
	taken := make([]bool, n)
	take := func(spec string) (int, error) {
		c, err := d.column(spec, n)
		if err != nil {
			return -1, err
		}
		if taken[c] {
			return -1, fmt.Errorf("column %d has two parts to play", c+1)
		}
		taken[c] = true
		return c, nil
	}
	// What is named goes first, so that a default never claims it.
	for _, spec := range o.IgnoreColumns {
		if _, err := take(spec); err != nil {
			return err
		}
	}
	for _, spec := range o.LabelColumns {
		c, err := take(spec)
		if err != nil {
			return err
		}
		d.labels = append(d.labels, c)
	}
	var err error
	if o.PayloadColumn != "" {
		if d.payload, err = take(o.PayloadColumn); err != nil {
			return err
		}
	}
	if o.KeyColumn != "" {
		if d.key, err = take(o.KeyColumn); err != nil {
			return err
		}
	}
	for c, name := range d.names {
		if taken[c] || !isRoleName(name) {
			continue
		}
		switch name = strings.ToLower(name); {
		case name == "payload" && o.PayloadColumn == "" && d.payload < 0:
			d.payload = c
		case (name == "key" || name == "id") && o.KeyColumn == "" && d.key < 0:
			d.key = c
		case strings.HasPrefix(name, "label") && o.LabelColumns == nil:
			d.labels = append(d.labels, c)
		default:
			continue
		}
		taken[c] = true
	}
	for c := range taken {
		if !taken[c] {
			d.vector = append(d.vector, c)
		}
	}
	return nil
}

// column finds a column by its name, or else by its position from 1.
func (d *delimited) column(spec string, n int) (int, error) {
	found := -1
	for c, name := range d.names {
		if name != spec {
			continue
		}
		if found >= 0 {
			return -1, fmt.Errorf("columns %d and %d are both named %q", found+1, c+1, spec)
		}
		found = c
	}
	if found >= 0 {
		return found, nil
	}
	if c, err := strconv.Atoi(spec); err == nil && c >= 1 && c <= n {
		return c - 1, nil
	}
	return -1, fmt.Errorf("no column %q among %d", spec, n)
}

func (d *delimited) schema() Schema {
	return Schema{Kind: Dense, Dim: len(d.vector), Base: BaseZero, Records: -1, Keyed: d.key >= 0}
}

func (d *delimited) next(rec *Record, n int64) error {
	err := d.decode(rec, n)
	var f *FormatError
	if errors.As(err, &f) {
		f.Record = n
	}
	return err
}

func (d *delimited) decode(rec *Record, n int64) error {
	var r row
	if len(d.ahead) > 0 {
		r, d.ahead = d.ahead[0], d.ahead[1:]
	} else {
		r.fields, r.line, r.err = d.line()
	}
	if r.err != nil {
		return r.err
	}
	for _, c := range d.vector {
		v, err := parseFinite(strings.TrimSpace(r.fields[c]))
		if err != nil {
			return d.src.badLine(n, r.line, fmt.Errorf("column %s: %w%s", d.name(c), err, d.hint(r.fields[c])))
		}
		rec.Vector = append(rec.Vector, v)
	}
	for _, c := range d.labels {
		for label := range strings.SplitSeq(r.fields[c], d.sep) {
			if label != "" {
				rec.Labels = append(rec.Labels, label)
			}
		}
	}
	if d.payload >= 0 {
		rec.Payload = append(rec.Payload, r.fields[d.payload]...)
	}
	if d.key >= 0 {
		if rec.Key = append(rec.Key[:0], r.fields[d.key]...); len(rec.Key) == 0 {
			return d.src.badLine(n, r.line, fmt.Errorf("column %s: empty key", d.name(d.key)))
		}
	}
	return nil
}

// hint returns a remark if the only cell of a line would be several with another separator.
func (d *delimited) hint(cell string) string {
	for _, c := range ";\t|, " {
		first, _, several := strings.Cut(strings.TrimSpace(cell), string(c))
		if several && len(d.vector) == 1 && c != d.csv.Comma && (c != ' ' || number(first)) {
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

// delimitedEncoder writes csv and tsv: key, v0, v1, …, labels, payload.
type delimitedEncoder struct {
	dim   int
	comma byte
}

func newDelimitedEncoder(s Schema) (encoder, error) {
	if s.Format == FormatTSV {
		return delimitedEncoder{s.Dim, '\t'}, nil
	}
	return delimitedEncoder{s.Dim, ','}, nil
}

func (delimitedEncoder) counted() bool { return false }

func (e delimitedEncoder) header(int64) ([]byte, error) {
	b := []byte("key")
	for i := range e.dim {
		b = append(b, e.comma, 'v')
		b = strconv.AppendInt(b, int64(i), 10)
	}
	for _, name := range []string{"labels", "payload"} {
		b = append(b, e.comma)
		b = append(b, name...)
	}
	return append(b, '\n'), nil
}

func (e delimitedEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	for i, label := range rec.Labels {
		if label == "" || strings.Contains(label, "|") {
			return dst, fmt.Errorf("label %d, %.40q, is empty or has a |, which parts labels in csv", i, label)
		}
	}
	labels := strings.Join(rec.Labels, "|")
	// encoding/csv, for one, reads these two bytes as one line feed.
	crlf := []byte("\r\n")
	if bytes.Contains(rec.Key, crlf) || bytes.Contains(rec.Payload, crlf) || strings.Contains(labels, "\r\n") {
		return dst, errors.New("carriage return and line feed in a text: " +
			"csv readers would change them, jsonl keeps them")
	}
	dst = e.appendCell(dst, string(rec.Key))
	for _, v := range rec.Vector {
		dst = append(dst, e.comma)
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, labels)
	dst = append(dst, e.comma)
	dst = e.appendCell(dst, string(rec.Payload))
	return append(dst, '\n'), nil
}

// appendCell quotes a text where RFC 4180 asks for it.
func (e delimitedEncoder) appendCell(dst []byte, text string) []byte {
	if !strings.ContainsAny(text, "\"\r\n"+string(rune(e.comma))) {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}
