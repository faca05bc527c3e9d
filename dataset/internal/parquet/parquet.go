// Package parquet reads the columns of Parquet files row by row: data pages of versions 1 and 2, the
// encodings PLAIN, dictionary, RLE, the three by deltas and BYTE_STREAM_SPLIT, compressed by snappy, gzip,
// zstd, brotli or lz4_raw, or not. It trusts nothing in a file: lengths are bounded by the size of the
// file, a page at a time of each column is in memory, and values are decoded when they are asked for. A
// [Writer] writes plain values, compressed by zstd.
//
// Source: the specification and parquet.thrift of parquet-format 2.11.
package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Types of values.
const (
	Boolean           = 0
	Int32             = 1
	Int64             = 2
	Int96             = 3
	Float             = 4
	Double            = 5
	ByteArray         = 6
	FixedLenByteArray = 7
)

// Meaning is what a column says of its values beyond their type.
type Meaning uint8

// Values of Meaning.
const (
	Plain Meaning = iota
	Text
	Unsigned
	Date   // days since 1970
	Millis // since 1970
	Micros
	Nanos
	Decimal // an integer, in bytes a big-endian one, of units of 10^-Scale
	UUID
	Other // times of a day, and what is not known
)

const (
	magic = "PAR1"
	// maxFooter bounds the metadata.
	maxFooter = 64 << 20
	// maxColumns bounds the number of leaf columns.
	maxColumns = 1 << 16
	// maxScale bounds the places of decimals; those of 256 bits have 76.
	maxScale = 76
	// maxDepth bounds how deep groups of columns are nested.
	maxDepth = 32
)

// Column is a leaf column.
type Column struct {
	Path           []string
	Type           int
	Meaning        Meaning
	MaxRep, MaxDef int // of repetition and definition levels
	Length         int // of a FixedLenByteArray
	Scale          int // of a Decimal
}

// File is an open file.
type File struct {
	Columns []Column
	Rows    int64

	r      io.ReaderAt
	size   int64
	groups []value
}

// Value is one value of a column.
type Value struct {
	Null  bool
	Bits  uint64 // of a number or boolean
	Bytes []byte // holds until the next call of Next
}

// Open reads the metadata of a file of size bytes.
func Open(r io.ReaderAt, size int64) (*File, error) {
	if size < 12 {
		return nil, errors.New("too short for a Parquet file")
	}
	var tail [8]byte
	if err := readAt(r, tail[:], size-8); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(tail[4:]) != magic || n > size-12 || n > maxFooter {
		return nil, errors.New("truncated, or not a Parquet file: no footer at its end")
	}
	footer := make([]byte, n)
	if err := readAt(r, footer, size-8-n); err != nil {
		return nil, err
	}
	meta, _, err := thrift(footer)
	if err != nil {
		return nil, err
	}
	f := &File{r: r, size: size, Rows: meta.field(3).number, groups: meta.field(4).list}
	total := int64(0)
	for _, g := range f.groups {
		n := g.field(3).number
		if n < 0 || n > math.MaxInt64-total {
			return nil, fmt.Errorf("a group of %d rows", n)
		}
		total += n
	}
	if total != f.Rows {
		return nil, fmt.Errorf("groups of %d rows in all, the footer promises %d", total, f.Rows)
	}
	return f, f.schema(meta.field(2).list)
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case err == nil || err == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return err
}

// schema lists the leaf columns of the tree that the elements describe in preorder.
func (f *File) schema(elements []value) error {
	type group struct {
		path     []string
		left     int64 // children still to come
		rep, def int
	}
	if len(elements) == 0 {
		return errors.New("no schema")
	}
	stack := []group{{left: elements[0].field(5).number}}
	for _, e := range elements[1:] {
		for len(stack) > 0 && stack[len(stack)-1].left <= 0 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 || len(stack) > maxDepth || len(f.Columns) == maxColumns {
			return errors.New("the schema is no tree of columns")
		}
		parent := &stack[len(stack)-1]
		parent.left--
		g := group{rep: parent.rep, def: parent.def, left: e.field(5).number}
		g.path = append(append(g.path, parent.path...), string(e.field(4).text))
		switch e.field(3).number {
		case 1:
			g.def++
		case 2:
			g.def++
			g.rep++
		}
		if g.left > 0 || !e.has(1) {
			stack = append(stack, g)
			continue
		}
		c := Column{Path: g.path, Type: int(e.field(1).number), MaxRep: g.rep, MaxDef: g.def, Meaning: meaningOf(e)}
		n := e.field(2).number
		if c.Type < 0 || c.Type > FixedLenByteArray || c.Type == FixedLenByteArray && (n < 1 || n > math.MaxInt32) {
			return fmt.Errorf("column %.60q has the type %d of length %d", c.Path, c.Type, n)
		}
		c.Length, c.Scale = int(n), int(scaleOf(e))
		f.Columns = append(f.Columns, c)
	}
	for _, g := range stack {
		if g.left > 0 {
			return errors.New("the schema ends early")
		}
	}
	return nil
}

// meaningOf reads the logical type of a schema element, or what older writers have in its place.
func meaningOf(e value) Meaning {
	if l := e.field(10); len(l.fields) > 0 {
		switch {
		case l.has(1), l.has(4), l.has(12): // string, enum, JSON
			return Text
		case l.has(5):
			return decimalOf(e)
		case l.has(14):
			return UUID
		case l.has(6):
			return Date
		case l.has(8):
			switch unit := l.field(8).field(2); {
			case unit.has(1):
				return Millis
			case unit.has(2):
				return Micros
			case unit.has(3):
				return Nanos
			}
		case l.has(10):
			if l.field(10).field(2).number != 0 {
				return Plain
			}
			return Unsigned
		}
		return Other
	}
	if !e.has(6) {
		return Plain
	}
	switch c := e.field(6).number; {
	case c == 0 || c == 4 || c == 19:
		return Text
	case c == 5:
		return decimalOf(e)
	case c == 6:
		return Date
	case c == 9:
		return Millis
	case c == 10:
		return Micros
	case c >= 11 && c <= 14:
		return Unsigned
	case c >= 15 && c <= 18:
		return Plain
	}
	return Other
}

// scaleOf returns the number of decimal places of a schema element.
func scaleOf(e value) int64 {
	if decimal := e.field(10).field(5); decimal.has(1) {
		return decimal.field(1).number
	}
	return e.field(7).number
}

func decimalOf(e value) Meaning {
	if n := scaleOf(e); n < 0 || n > maxScale {
		return Other
	}
	return Decimal
}
