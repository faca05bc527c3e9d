package table

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Stream writes a table row by row. Text and Markdown, which people read, appear on Close, since the
// widest cell of a column counts; the other formats keep no rows.
type Stream struct {
	out     *bufio.Writer
	format  Format
	room    int // columns of the terminal, 0 for any number
	columns []Column
	n       int // rows
	err     error

	csv   *csv.Writer
	cells [][]string // of Text and Markdown
	width []int      // of the columns
	right []bool     // numbers only so far
	omit  []bool     // optional, and empty in all rows
}

func newStream(o Output, columns []Column) (*Stream, error) {
	s := &Stream{out: bufio.NewWriter(o.W), format: o.Format, room: o.Width, columns: columns}
	switch s.format {
	case JSON, JSONL, Vertical:
	case CSV:
		s.csv = csv.NewWriter(s.out)
	case Text, Markdown:
		s.width, s.right = make([]int, len(columns)), make([]bool, len(columns))
		s.omit = make([]bool, len(columns))
		for i := range s.right {
			s.right[i] = true
		}
	default:
		return nil, fmt.Errorf("%w: %q (want one of %v)", ErrFormat, s.format, Formats())
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
		s.err = s.addCSV(row)
	case JSON, JSONL:
		s.err = s.addJSON(row)
	case Vertical:
		s.addVertical(s.shown(row))
	default:
		s.addAligned(row)
	}
	s.n++
}

// Close writes what is left. It does not close the writer.
func (s *Stream) Close() error {
	if s.err != nil {
		return s.err
	}
	switch s.format {
	case CSV:
		if s.n == 0 {
			s.err = s.headCSV()
		}
		s.csv.Flush()
		if s.err == nil {
			s.err = s.csv.Error()
		}
	case JSON:
		end := "\n]\n"
		if s.n == 0 {
			end = "[]\n"
		}
		_, s.err = s.out.WriteString(end)
	case JSONL, Vertical:
	default:
		s.writeAligned()
	}
	if s.err == nil {
		s.err = s.out.Flush() // the writer keeps its first error
	}
	return s.err
}

func (s *Stream) headCSV() error {
	line := make([]string, len(s.columns))
	for i, col := range s.columns {
		line[i] = col.Name
	}
	return s.csv.Write(line)
}

func (s *Stream) addCSV(row []any) error {
	if s.n == 0 {
		if err := s.headCSV(); err != nil {
			return err
		}
	}
	line := make([]string, len(row))
	for i, v := range row {
		line[i] = show(plain(v), -1)
	}
	return s.csv.Write(line)
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

// addVertical writes a row with a line a value, and leaves out those that are empty.
func (s *Stream) addVertical(line []string) {
	widest := 0
	for _, c := range s.columns {
		widest = max(widest, utf8.RuneCountInString(c.Name))
	}
	if s.n > 0 {
		s.out.WriteString("\n")
	}
	for i, c := range s.columns {
		if line[i] != "" {
			pad := strings.Repeat(" ", widest-utf8.RuneCountInString(c.Name))
			s.out.WriteString(Printable(c.Name) + pad + "  " + line[i] + "\n")
		}
	}
}

// addAligned keeps the cells of a row and measures them.
func (s *Stream) addAligned(row []any) {
	line := s.shown(row)
	for i, v := range row {
		s.right[i] = s.right[i] && (v == nil || number(v))
		s.width[i] = max(s.width[i], utf8.RuneCountInString(line[i]))
	}
	s.cells = append(s.cells, line)
}

// writeAligned writes columns of equal width: numbers to the right, all else to the
// left. Markdown is the same with bars and a rule.
func (s *Stream) writeAligned() {
	head := make([]string, len(s.columns))
	for i, c := range s.columns {
		if s.omit[i] = c.Optional && s.width[i] == 0; s.omit[i] {
			continue
		}
		head[i] = Printable(c.Name)
		s.width[i] = max(s.width[i], utf8.RuneCountInString(head[i]))
		s.right[i] = s.right[i] && s.n > 0
	}
	if s.format == Text && s.room > 0 && !fit(s.width, s.right, s.room) {
		for s.n = range s.cells {
			s.addVertical(s.cells[s.n])
		}
		return
	}
	s.writeLine(head)
	if s.format == Markdown {
		s.out.WriteString("|")
		for i, right := range s.right {
			if s.omit[i] {
				continue
			}
			end := "-|"
			if right {
				end = ":|"
			}
			s.out.WriteString(strings.Repeat("-", s.width[i]+1) + end)
		}
		s.out.WriteString("\n")
	}
	for _, line := range s.cells {
		s.writeLine(line)
	}
}

func (s *Stream) writeLine(line []string) {
	open, between, end := "", "  ", ""
	if s.format == Markdown {
		open, between, end = "| ", " | ", " |"
	}
	var b strings.Builder
	b.WriteString(open)
	for i, c := range line {
		if s.omit[i] {
			continue
		}
		if b.Len() > len(open) {
			b.WriteString(between)
		}
		c = Cut(c, s.width[i])
		pad := strings.Repeat(" ", s.width[i]-utf8.RuneCountInString(c))
		if s.right[i] {
			b.WriteString(pad + c)
		} else {
			b.WriteString(c + pad)
		}
	}
	b.WriteString(end)
	s.out.WriteString(strings.TrimRight(b.String(), " ") + "\n")
}
