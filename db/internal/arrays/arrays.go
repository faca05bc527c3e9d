// Package arrays writes and reads the arrays of an index, for all kinds.
//
// An index is stored as arrays in sections of an object. An array that queries read as one
// slice is one block of any length; arrays of rows are split into blocks of about 1 MiB. A
// block is contiguous in the map, so both are read in place.
package arrays

import (
	"unsafe"

	"github.com/anndb/anndb/codec"
)

// Section has the numbered arrays of a section, to be written or read: one function that lists
// the fields of a type by Field and FieldOf serves both.
type Section struct {
	kind  codec.Kind
	w     *Writer  // nil when reading
	r     *Reader  // nil when writing
	parts [][]byte // blocks read
}

// Section begins writing a section.
func (w *Writer) Section(kind codec.Kind) *Section { return &Section{kind: kind, w: w} }

// Section opens a section for reading.
func (r *Reader) Section(kind codec.Kind) *Section {
	return &Section{kind: kind, r: r, parts: r.Blocks(kind)}
}

// Len returns the number of blocks read.
func (s *Section) Len() int { return len(s.parts) }

// Field writes array x or reads it completely: as a view that must not be modified, nil if the
// array is absent.
func Field[T codec.Number](s *Section, number uint32, x *[]T) {
	if s.w != nil {
		s.w.Block(s.kind, number, ElemOf[T](), 1, codec.Bytes(*x))
		return
	}
	var zero T
	*x = numbers[T](s.r, s.parts, int(number), len(s.part(number))/int(unsafe.Sizeof(zero)))
}

// FieldOf is like Field but requires n elements when reading.
func FieldOf[T codec.Number](s *Section, number uint32, x *[]T, n int) {
	if s.w != nil {
		Field(s, number, x)
		return
	}
	*x = numbers[T](s.r, s.parts, int(number), n)
}

// part returns the payload of an array when reading, nil if the array is absent.
func (s *Section) part(number uint32) []byte {
	if s.r.Err != nil || int(number) >= len(s.parts) {
		return nil
	}
	return s.parts[number]
}

// WriteNames writes a string table.
func (s *Section) WriteNames(number uint32, names []string) {
	table := make([][]byte, len(names))
	for i, n := range names {
		table[i] = []byte(n)
	}
	s.w.Block(s.kind, number, codec.BytesElem, 1, codec.AppendStrings(nil, table))
}

// ReadNames reads a string table of n names.
func (s *Section) ReadNames(number uint32, n int) (names codec.Strings) {
	if part := s.part(number); part != nil {
		var err error
		if names, err = codec.NewStrings(part); err != nil {
			s.r.Fail("label names: %v", err)
		}
	}
	s.r.Need(names.Len() == n, "label names")
	return names
}
