// Package table writes rows of values as an aligned table, one value a line, markdown, CSV or
// JSON: a Table is in memory, a Stream is written row by row.
package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrFormat is returned for an unknown output format.
var ErrFormat = errors.New("table: unknown format")

// Format is a way of writing a table.
type Format string

// The formats. CSV and JSON keep all digits and every byte of texts; the others
// round, and quote texts that a terminal should not get (see Printable).
const (
	Text     Format = "table"    // a line a row, columns aligned
	Vertical Format = "vertical" // a line a value, its column in front
	Markdown Format = "markdown"
	CSV      Format = "csv"
	JSON     Format = "json"  // an array of objects
	JSONL    Format = "jsonl" // an object a line
)

// Formats lists the formats.
func Formats() []Format { return []Format{Text, Vertical, Markdown, CSV, JSON, JSONL} }

// Column describes one column.
type Column struct {
	// Name is the heading, and the key of JSON objects.
	Name string
	// Digits is how many digits after the point Text and Markdown show for
	// floats; negative means as many as the value needs.
	Digits int
	// Optional columns are left out of Text and Markdown where all their cells are empty.
	Optional bool
}

// Table is a heading and rows. The zero value has no columns.
type Table struct {
	Columns []Column
	rows    [][]any
}

// New makes a table. A column is its name, with ":n" behind it to show n
// digits after the point in text, such as "recall:4", or ":?" if it is optional.
func New(columns ...string) *Table { return &Table{Columns: parseColumns(columns)} }

func parseColumns(columns []string) []Column {
	var out []Column
	for _, c := range columns {
		col := Column{Name: c, Digits: -1}
		if name, digits, ok := strings.Cut(c, ":"); ok {
			if digits == "?" {
				col = Column{Name: name, Digits: -1, Optional: true}
			} else if n, err := strconv.Atoi(digits); err == nil {
				col = Column{Name: name, Digits: n}
			}
		}
		out = append(out, col)
	}
	return out
}

// Add appends a row. Missing values are empty; values past the last column
// are dropped. Strings, integers, floats, bools, time.Duration and nil are written as such,
// []string as an array in JSON and with | between elsewhere, everything else by fmt.
func (t *Table) Add(values ...any) {
	row := make([]any, len(t.Columns))
	copy(row, values)
	t.rows = append(t.rows, row)
}

// One returns a table of one row, whose columns are separated by blanks.
func One(columns string, values ...any) *Table {
	t := New(strings.Fields(columns)...)
	t.Add(values...)
	return t
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write writes the table to w in the format. It returns ErrFormat, wrapped,
// for a format that is not known, and w's errors.
func (t *Table) Write(w io.Writer, f Format) error { return Output{W: w, Format: f}.Print(t) }

// plain turns a value into what machines read: durations into seconds, floats
// that JSON cannot hold into nothing.
func plain(v any) any {
	switch x := v.(type) {
	case time.Duration:
		return x.Seconds()
	case Size:
		return int64(x)
	case float32:
		return plain(widen(x))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
	case []byte:
		return string(x)
	case []string:
		if x == nil {
			return []string{}
		}
	}
	return v
}

// widen keeps the shortest decimal form: 0.1 stays 0.1 as a float64.
func widen(x float32) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	if err != nil {
		return float64(x)
	}
	return f
}

// show is a value as text.
func show(v any, digits int) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	case []byte:
		return string(x)
	case []string:
		return joined(x)
	case float32:
		return show(widen(x), digits)
	case float64:
		if digits < 0 {
			return strconv.FormatFloat(x, 'g', -1, 64)
		}
		return strconv.FormatFloat(x, 'f', digits, 64)
	case time.Duration:
		return x.Round(time.Millisecond).String()
	}
	return fmt.Sprint(v)
}

// joined is a list as text: with | between, or as JSON where that would be ambiguous.
func joined(list []string) string {
	if !slices.ContainsFunc(list, func(s string) bool { return s == "" || strings.Contains(s, "|") }) {
		return strings.Join(list, "|")
	}
	b, err := json.Marshal(list)
	if err != nil { // which strings never cause
		return strings.Join(list, "|")
	}
	return string(b)
}

// Printable returns s as a terminal may show it: unchanged if all of it is visible
// text, quoted with escapes if it has control characters, bytes that are no UTF-8,
// or characters that change the direction of text.
func Printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return s
	}
	return strconv.QuoteToGraphic(s)
}

// PrintableText is Printable for text of several lines: only what no terminal
// should get is escaped, and nothing is quoted.
func PrintableText(s string) string {
	var b strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		if p := Printable(line); p != line {
			line = strings.ReplaceAll(p[1:len(p)-1], `\"`, `"`)
		}
		b.WriteString(line)
	}
	return b.String()
}

func number(v any) bool {
	switch v.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64, time.Duration:
		return true
	}
	return false
}
