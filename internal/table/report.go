package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Output is where the results of a command go, and in which format.
type Output struct {
	W      io.Writer
	Format Format
	// Width is the width of the terminal that tables of format Text have to fit: cells are cut, or
	// rows written as Vertical does. Zero means any width.
	Width int
}

// People reports whether the format is one that people read.
func (o Output) People() bool {
	return o.Format == Text || o.Format == Vertical || o.Format == Markdown
}

// InJSON reports whether the format is JSON or JSONL, which have lists and objects.
func (o Output) InJSON() bool { return o.Format == JSON || o.Format == JSONL }

// Stream begins a table that is written row by row. Columns are those of New. It returns
// ErrFormat, wrapped, for a format that is not known.
func (o Output) Stream(columns ...string) (*Stream, error) {
	return newStream(o, parseColumns(columns))
}

// Print writes a table. It returns ErrFormat, wrapped, for a format that is not known, and the
// writer's errors.
func (o Output) Print(t *Table) error {
	s, err := newStream(o, t.Columns)
	if err != nil {
		return err
	}
	for _, row := range t.rows {
		s.Add(row...)
	}
	return s.Close()
}

// Title writes a heading above a table, where people read.
func (o Output) Title(format string, args ...any) {
	if o.People() {
		fmt.Fprintln(o.W, PrintableText(fmt.Sprintf(format, args...)))
	}
}

// Section is one table of a result that has several.
type Section struct {
	Key   string // its name in JSON
	Title string // the line above it, for people
	Table *Table
}

// As makes a section of the table.
func (t *Table) As(key, title string) Section { return Section{Key: key, Title: title, Table: t} }

// Report writes tables one below the other, and as one object in JSON, so
// that a program reads one value from one command. In JSONL each row begins with the key
// of its section. Tables without rows are left out for people.
func (o Output) Report(sections ...Section) error {
	switch o.Format {
	case JSON:
		return o.reportJSON(sections)
	case JSONL:
		return o.reportJSONL(sections)
	}
	first := true
	for _, s := range sections {
		if s.Table.Len() == 0 {
			continue
		}
		if !first {
			fmt.Fprintln(o.W)
		}
		first = false
		if s.Title != "" {
			o.Title("%s", s.Title)
		}
		if err := o.Print(s.Table); err != nil {
			return err
		}
	}
	return nil
}

func (o Output) reportJSON(sections []Section) error {
	var b bytes.Buffer
	b.WriteString("{")
	for i, s := range sections {
		if i > 0 {
			b.WriteString(",")
		}
		key, err := json.Marshal(s.Key)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s: ", key)
		if err := s.Table.Write(&b, JSON); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteString("\n}\n")
	_, err := o.W.Write(b.Bytes())
	return err
}

func (o Output) reportJSONL(sections []Section) error {
	for _, s := range sections {
		keyed := Table{Columns: append([]Column{{Name: "section"}}, s.Table.Columns...)}
		for _, row := range s.Table.rows {
			keyed.Add(append([]any{s.Key}, row...)...)
		}
		if err := o.Print(&keyed); err != nil {
			return err
		}
	}
	return nil
}

// Time is the time that something took, to three or four digits.
func Time(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 1e-3:
		return fmt.Sprintf("%.1f µs", 1e6*s)
	case s < 1:
		return fmt.Sprintf("%.1f ms", 1e3*s)
	default:
		return fmt.Sprintf("%.1f s", s)
	}
}

// Size is a number of bytes: as people read it, and a number for machines.
type Size int64

// String returns the size in the unit that fits.
func (n Size) String() string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", int64(n))
	}
	f, i := float64(n)/unit, 0
	for f >= unit && i < 3 {
		f /= unit
		i++
	}
	return fmt.Sprintf("%.1f %s", f, []string{"KiB", "MiB", "GiB", "TiB"}[i])
}
