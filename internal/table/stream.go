package table

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Stream writes a table row by row. Text and Markdown, which people read, appear on Close, since the
// widest cell of a column counts; the other formats keep no rows.
type Stream struct {
	out     *bufio.Writer
	csv     *csv.Writer
	format  Format
	room    int // columns of the terminal, 0 for any number
	columns []column
	n       int // rows
	err     error
}

// column is a column with its cells in Text and Markdown.
type column struct {
	Column
	cells []string
	width int  // of the widest
	right bool // all are numbers so far
}

func newStream(o Output, columns []Column) (*Stream, error) {
	if !slices.Contains(Formats(), o.Format) {
		return nil, fmt.Errorf("%w: %q (want one of %v)", ErrFormat, o.Format, Formats())
	}
	s := &Stream{out: bufio.NewWriter(o.W), format: o.Format, room: o.Width}
	s.csv = csv.NewWriter(s.out)
	var names []string
	for _, c := range columns {
		names = append(names, c.Name)
		s.columns = append(s.columns, column{Column: c, right: true})
	}
	if o.Format == CSV {
		s.err = s.csv.Write(names)
	}
	return s, nil
}

// Err returns the first error of Add.
func (s *Stream) Err() error { return s.err }

// Add appends a row, as Table.Add does. Its error is that of Err and Close.
func (s *Stream) Add(values ...any) {
	if s.err != nil {
		return
	}
	row := make([]any, len(s.columns))
	copy(row, values)
	switch s.format {
	case CSV:
		s.addCSV(row)
	case JSON, JSONL:
		s.err = s.addJSON(row)
	case Vertical:
		cells := s.shown(row)
		s.writeVertical(s.n, func(i int) string { return cells[i] })
	default:
		for i, cell := range s.shown(row) {
			c := &s.columns[i]
			c.cells = append(c.cells, cell)
			c.width = max(c.width, utf8.RuneCountInString(cell))
			c.right = c.right && (row[i] == nil || number(row[i]))
		}
	}
	s.n++
}

// Close writes what is left. It does not close the writer.
func (s *Stream) Close() error {
	switch {
	case s.err != nil:
		return s.err
	case s.format == CSV:
		s.csv.Flush() // into out, which keeps its first error
	case s.format == JSON && s.n == 0:
		s.out.WriteString("[]\n")
	case s.format == JSON:
		s.out.WriteString("\n]\n")
	case s.format == Text || s.format == Markdown:
		s.writeAligned()
	}
	s.err = s.out.Flush()
	return s.err
}

func (s *Stream) addCSV(row []any) {
	line := make([]string, len(row))
	for i, v := range row {
		line[i] = show(plain(v), -1)
	}
	s.err = s.csv.Write(line)
}

// addJSON writes one object, keys in column order, on a line.
func (s *Stream) addJSON(row []any) error {
	b, end := []byte(",\n  {"), "}"
	switch {
	case s.format == JSONL:
		b, end = []byte("{"), "}\n"
	case s.n == 0:
		b[0] = '['
	}
	for i, v := range row {
		if i > 0 {
			b = append(b, ", "...)
		}
		key, err := json.Marshal(s.columns[i].Name)
		if err != nil {
			return err
		}
		val, err := json.Marshal(plain(v))
		if err != nil {
			return fmt.Errorf("table: column %s: %w", s.columns[i].Name, err)
		}
		b = append(append(append(b, key...), ": "...), val...)
	}
	_, err := s.out.Write(append(b, end...))
	return err
}

// shown are the cells of a row as people read them.
func (s *Stream) shown(row []any) []string {
	line := make([]string, len(row))
	for i, v := range row {
		line[i] = Printable(show(v, s.columns[i].Digits))
		if s.format == Markdown {
			line[i] = strings.ReplaceAll(line[i], "|", `\|`)
		}
	}
	return line
}

// writeVertical writes a row with a line a value, and leaves out those that are empty.
func (s *Stream) writeVertical(row int, cell func(i int) string) {
	widest := 0
	for _, c := range s.columns {
		widest = max(widest, utf8.RuneCountInString(c.Name))
	}
	if row > 0 {
		s.out.WriteString("\n")
	}
	for i, c := range s.columns {
		if text := cell(i); text != "" {
			pad := strings.Repeat(" ", widest-utf8.RuneCountInString(c.Name))
			s.out.WriteString(Printable(c.Name) + pad + "  " + text + "\n")
		}
	}
}

// writeAligned writes columns of equal width: numbers to the right, all else to the
// left. Markdown is the same with bars and a rule.
func (s *Stream) writeAligned() {
	columns := slices.DeleteFunc(slices.Clone(s.columns), func(c column) bool {
		return c.Optional && c.width == 0
	})
	for i := range columns {
		c := &columns[i]
		c.Name = Printable(c.Name)
		c.width, c.right = max(c.width, utf8.RuneCountInString(c.Name)), c.right && s.n > 0
	}
	fits := s.format == Markdown || s.room == 0 || fit(columns, s.room)
	if fits {
		s.writeLine(columns, func(c column) string { return c.Name })
	}
	if s.format == Markdown {
		s.out.WriteString("|")
		for _, c := range columns {
			end := "-|"
			if c.right {
				end = ":|"
			}
			s.out.WriteString(strings.Repeat("-", c.width+1) + end)
		}
		s.out.WriteString("\n")
	}
	for row := range s.n {
		if fits {
			s.writeLine(columns, func(c column) string { return c.cells[row] })
		} else {
			s.writeVertical(row, func(i int) string { return s.columns[i].cells[row] })
		}
	}
}

// writeLine writes a cell of each column.
func (s *Stream) writeLine(columns []column, cell func(c column) string) {
	open, between, end := "", "  ", ""
	if s.format == Markdown {
		open, between, end = "| ", " | ", " |"
	}
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(between)
		}
		text := Cut(cell(c), c.width)
		pad := strings.Repeat(" ", c.width-utf8.RuneCountInString(text))
		if c.right {
			b.WriteString(pad + text)
		} else {
			b.WriteString(text + pad)
		}
	}
	s.out.WriteString(strings.TrimRight(open+b.String()+end, " ") + "\n")
}
