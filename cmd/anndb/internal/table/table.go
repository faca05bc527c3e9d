// Package table writes rows of values as aligned text, markdown, CSV or JSON:
// one table in memory, four ways out.
package table

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrFormat says that an output format is not known.
var ErrFormat = errors.New("table: unknown format")

// Format is a way of writing a table.
type Format string

// The formats. CSV and JSON keep all digits and every byte of texts; Text and
// Markdown round, and quote texts that a terminal should not get (see Printable).
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	CSV      Format = "csv"
	JSON     Format = "json"
)

// Column describes one column.
type Column struct {
	// Name is the heading, and the key of JSON objects.
	Name string
	// Digits is how many digits after the point Text and Markdown show for
	// floats; negative means as many as the value needs.
	Digits int
}

// Table is a heading and rows. The zero value has no columns.
type Table struct {
	Columns []Column
	rows    [][]any
}

// New makes a table. A column is its name, with ":n" behind it to show n
// digits after the point in text, such as "recall:4".
func New(columns ...string) *Table {
	t := &Table{}
	for _, c := range columns {
		col := Column{Name: c, Digits: -1}
		if name, digits, ok := strings.Cut(c, ":"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				col = Column{Name: name, Digits: n}
			}
		}
		t.Columns = append(t.Columns, col)
	}
	return t
}

// Add appends a row. Missing values are empty; values past the last column
// are dropped. Strings, integers, floats, bools, time.Duration and nil are
// written as such, everything else by fmt.
func (t *Table) Add(values ...any) {
	row := make([]any, len(t.Columns))
	copy(row, values)
	t.rows = append(t.rows, row)
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Write writes the table to w in the format. It returns ErrFormat, wrapped,
// for a format that is not known, and w's errors.
func (t *Table) Write(w io.Writer, f Format) error {
	switch f {
	case Text:
		return t.aligned(w, "", "  ", "")
	case Markdown:
		return t.aligned(w, "| ", " | ", " |")
	case CSV:
		return t.csv(w)
	case JSON:
		return t.json(w)
	}
	return fmt.Errorf("%w: %q (want text, markdown, csv or json)", ErrFormat, f)
}

// aligned writes columns of equal width: numbers to the right, all else to
// the left. Markdown is the same with bars and a rule.
func (t *Table) aligned(w io.Writer, open, between, end string) error {
	markdown := open != ""
	width := make([]int, len(t.Columns))
	right := make([]bool, len(t.Columns))
	cells := make([][]string, 0, len(t.rows)+1)
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = Printable(c.Name)
		right[i] = len(t.rows) > 0
	}
	cells = append(cells, head)
	for _, row := range t.rows {
		line := make([]string, len(row))
		for i, v := range row {
			line[i] = Printable(show(v, t.Columns[i].Digits))
			if markdown {
				line[i] = strings.ReplaceAll(line[i], "|", `\|`)
			}
			right[i] = right[i] && (v == nil || number(v))
		}
		cells = append(cells, line)
	}
	for _, line := range cells {
		for i, c := range line {
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	var out strings.Builder
	for n, line := range cells {
		var b strings.Builder
		b.WriteString(open)
		for i, c := range line {
			if i > 0 {
				b.WriteString(between)
			}
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
		}
		b.WriteString(end)
		out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
		if n == 0 && markdown {
			out.WriteString("|")
			for i := range line {
				rule := strings.Repeat("-", width[i]+1)
				if right[i] {
					out.WriteString(rule + ":|")
				} else {
					out.WriteString(rule + "-|")
				}
			}
			out.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (t *Table) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	line := make([]string, len(t.Columns))
	for i, col := range t.Columns {
		line[i] = col.Name
	}
	if err := c.Write(line); err != nil {
		return err
	}
	for _, row := range t.rows {
		for i, v := range row {
			line[i] = show(plain(v), -1)
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// json writes an array of objects, keys in column order, one object a line.
func (t *Table) json(w io.Writer) error {
	var b strings.Builder
	b.WriteString("[")
	for n, row := range t.rows {
		if n > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		for i, v := range row {
			if i > 0 {
				b.WriteString(", ")
			}
			key, err := json.Marshal(t.Columns[i].Name)
			if err != nil {
				return err
			}
			val, err := json.Marshal(plain(v))
			if err != nil {
				return fmt.Errorf("table: column %s: %w", t.Columns[i].Name, err)
			}
			b.Write(key)
			b.WriteString(": ")
			b.Write(val)
		}
		b.WriteString("}")
	}
	if len(t.rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// plain turns a value into what machines read: durations into seconds, floats
// that JSON cannot hold into nothing.
func plain(v any) any {
	switch x := v.(type) {
	case time.Duration:
		return x.Seconds()
	case float32:
		return plain(widen(x))
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
	case []byte:
		return string(x)
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
