package parquet

import (
	"errors"
	"fmt"
	"io"
)

// Rows reads a file row by row.
type Rows struct {
	file    *File
	group   int // of rows, the next one
	left    int64
	columns []chunkReader
}

// Read begins to read the rows.
func (f *File) Read() *Rows { return &Rows{file: f} }

// Next calls visit for each value of the next row, column by column; a column without a value has a null.
// It returns io.EOF after the last row.
func (r *Rows) Next(visit func(column int, v Value)) error {
	for r.left == 0 {
		if err := r.open(); err != nil {
			return err
		}
	}
	r.left--
	for i := range r.columns {
		if err := r.columns[i].row(func(v Value) { visit(i, v) }); err != nil {
			return fmt.Errorf("column %.60q: %w", r.file.Columns[i].Path[0], err)
		}
	}
	return nil
}

// open ends a group of rows and begins the next one.
func (r *Rows) open() error {
	f := r.file
	for i := range r.columns {
		if more, err := r.columns[i].more(); err != nil || more {
			return errors.Join(err, fmt.Errorf("column %.60q has more values than rows", f.Columns[i].Path[0]))
		}
	}
	if r.group == len(f.groups) {
		return io.EOF
	}
	g := f.groups[r.group]
	r.group++
	r.left = g.field(3).number
	chunks := g.field(1).list
	if len(chunks) != len(f.Columns) {
		return fmt.Errorf("a group of %d columns, the schema has %d", len(chunks), len(f.Columns))
	}
	r.columns = make([]chunkReader, len(chunks))
	for i, c := range chunks {
		meta := c.field(3)
		column := &f.Columns[i]
		first, size := meta.field(9).number, meta.field(7).number
		if d := meta.field(11).number; d > 0 && d < first {
			first = d
		}
		switch {
		case len(c.field(1).text) > 0:
			return fmt.Errorf("column %.60q is in another file", column.Path[0])
		case meta.field(1).number != int64(column.Type):
			return fmt.Errorf("column %.60q has the type %d, the schema says %d",
				column.Path[0], meta.field(1).number, column.Type)
		case first < 0 || size < 0 || first > f.size || size > f.size-first || meta.field(5).number < 0:
			return fmt.Errorf("column %.60q: %d bytes at %d are not in the file", column.Path[0], size, first)
		}
		r.columns[i] = chunkReader{
			file: f, column: column, codec: meta.field(4).number,
			at: first, end: first + size, left: meta.field(5).number,
		}
	}
	return nil
}

// chunkReader reads the values of one column in one group of rows.
type chunkReader struct {
	file     *File
	column   *Column
	codec    int64
	at, end  int64 // of the pages that are still to be read
	left     int64 // values still to come, those of the page included
	inPage   int64 // of the present page
	reps     levels
	defs     levels
	values   decoder
	dict     []Value
	hasDict  bool
	rep, def int
	ahead    bool // rep and def are those of the next value
}

// more reports whether there is another value, and reads its levels.
func (c *chunkReader) more() (bool, error) {
	if c.ahead {
		return true, nil
	}
	for c.inPage == 0 {
		if c.left == 0 {
			return false, nil
		}
		if err := c.page(); err != nil {
			return false, err
		}
	}
	c.inPage--
	c.left--
	var err error
	if c.rep, err = c.reps.next(); err == nil {
		c.def, err = c.defs.next()
	}
	if err == nil && (c.rep > c.column.MaxRep || c.def > c.column.MaxDef) {
		err = fmt.Errorf("levels %d and %d, at most %d and %d", c.rep, c.def, c.column.MaxRep, c.column.MaxDef)
	}
	c.ahead = err == nil
	return c.ahead, err
}

// row visits the values of the next row.
func (c *chunkReader) row(visit func(Value)) error {
	for first := true; ; first = false {
		more, err := c.more()
		switch {
		case err != nil:
			return err
		case first && !more:
			return errors.New("fewer values than rows")
		case first && c.rep != 0:
			return errors.New("a row begins within a list")
		case !more, !first && c.rep == 0:
			return nil
		}
		c.ahead = false
		v := Value{Null: c.def < c.column.MaxDef}
		if !v.Null {
			if v, err = c.values.next(); err != nil {
				return err
			}
		}
		visit(v)
	}
}
