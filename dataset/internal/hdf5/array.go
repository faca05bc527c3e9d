package hdf5

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
)

// Type is a type of numbers.
type Type struct {
	Size   int // bytes: 1, 2, 4 or 8
	Float  bool
	Signed bool // of integers
	Big    bool // byte order
}

// String returns a name such as float32 or big-endian uint16.
func (t Type) String() string {
	name := "uint"
	switch {
	case t.Float:
		name = "float"
	case t.Signed:
		name = "int"
	}
	if name = fmt.Sprintf("%s%d", name, 8*t.Size); t.Big && t.Size > 1 {
		return "big-endian " + name
	}
	return name
}

// Array is a data set of numbers, or of what cannot be read.
type Array struct {
	Name  string // with those of its groups, separated by slashes
	Shape []uint64
	Type  Type
	// Unsupported is the reason why the array cannot be read; empty if it can.
	Unsupported string
	other       bool // the elements are no numbers
	file        *File
	layout      layout
	filters     []filter
}

// String describes the array.
func (a *Array) String() string {
	text := a.Name + " ("
	for i, n := range a.Shape {
		if i > 0 {
			text += "×"
		}
		text += fmt.Sprint(n)
	}
	if a.Unsupported != "" {
		return text + ")"
	}
	return fmt.Sprintf("%s %v)", text, a.Type)
}

// MayBeRows reports whether the array has rows and columns of numbers, or is damaged so that it may.
func (a *Array) MayBeRows() bool {
	return !a.other && (len(a.Shape) > 1 || a.Shape == nil && a.Unsupported != "")
}

// Fault returns the reason why the array cannot be read row by row; nil if it can.
func (a *Array) Fault() error {
	switch {
	case a.Unsupported != "":
		return errors.New(a.Unsupported)
	case len(a.Shape) < 2:
		return fmt.Errorf("it has %d dimensions", len(a.Shape))
	}
	return nil
}

// array makes an Array of an object's messages; nil if the object is something else.
func (f *File) array(name string, messages []message) (*Array, error) {
	a := &Array{Name: name, file: f}
	found := 0
	for i := range messages {
		m := &messages[i]
		switch m.kind {
		case msgDataspace, msgDatatype, msgLayout, msgFilters:
		default:
			continue
		}
		if m.shared {
			a.unsupported("its description is shared with other objects (%s)", copyArray)
			continue
		}
		switch m.kind {
		case msgDataspace:
			a.Shape = m.dataspace()
			found |= 1
		case msgDatatype:
			t, class, unsupported := m.datatype()
			if a.Type = t; unsupported != "" {
				a.unsupported("its elements are %s, and only integers, IEEE floats and bools are read", unsupported)
				a.other = class > 1
			}
			found |= 2
		case msgLayout:
			a.layoutMessage(m)
			found |= 4
		case msgFilters:
			a.filterMessage(m)
		}
		if m.err != nil {
			return nil, m.err
		}
	}
	if found != 7 && a.Unsupported == "" {
		return nil, nil // a committed type, or what a newer library knows
	}
	return a, nil
}

// unsupported records the first reason why the array cannot be read.
func (a *Array) unsupported(format string, args ...any) {
	if a.Unsupported == "" {
		a.Unsupported = fmt.Sprintf(format, args...)
	}
}

// dataspace reads the shape; nil for a scalar.
func (m *message) dataspace() (shape []uint64) {
	m.version("data space", 1)
	rank := m.uint(1)
	m.bytes(6)
	if m.err == nil && rank > maxRank {
		m.err = m.fault("%d dimensions", rank)
	}
	for range min(rank, maxRank) {
		n := m.uint(8)
		if m.err == nil && n == undefined {
			m.err = m.fault("a dimension of the size %d", n)
		}
		shape = append(shape, n)
	}
	return shape
}

// ieeeLayouts has the place and size of the exponent and of the mantissa, and the bias, by bytes.
var ieeeLayouts = map[int][5]int{
	2: {10, 5, 0, 10, 15}, 4: {23, 8, 0, 23, 127}, 8: {52, 11, 0, 52, 1023},
}

// enumeration is the class of types whose values have names, bools among them.
const enumeration = 8

// otherClasses names the types that are no numbers.
var otherClasses = map[uint64]string{
	2: "times", 3: "strings of fixed length", 4: "bit fields", 5: "opaque bytes", 6: "structs", 7: "references",
	enumeration: "an enumeration", 9: "strings or lists of variable length", 10: "arrays",
}

// datatype reads a type of numbers, or describes another one. A bool, which is an enumeration of the names
// of 0 and 1, counts as the integer that it is stored as.
func (m *message) datatype() (t Type, class uint64, unsupported string) {
	version := m.uint(1)
	class, version = version&15, version>>4
	flags := m.uint(3)
	t.Size = int(m.uint(4))
	switch ok := false; {
	case m.err != nil:
		return t, class, ""
	case class <= 1:
		if ok = m.number(&t, class, flags); ok {
			return t, class, ""
		}
		return t, class, fmt.Sprintf("numbers of %d bytes of another form", t.Size)
	case class == enumeration && flags&0xffff == 2 && m.bool(&t, version):
		return t, class, ""
	}
	m.err = nil // of what follows the part that is common to all types
	return t, class, cmp.Or(otherClasses[class], fmt.Sprintf("of class %d", class))
}

// bool reads the base type and the two values of an enumeration, and reports whether they are 0 and 1.
func (m *message) bool(t *Type, version uint64) bool {
	class, flags, size := m.uint(1)&15, m.uint(3), int(m.uint(4))
	if class != 0 || size != t.Size || !m.number(t, class, flags) || t.Size != 1 {
		return false
	}
	for range 2 {
		from := m.pos
		for m.uint(1) != 0 { // the name
		}
		if version < 3 {
			m.align(from)
		}
	}
	no, yes := m.uint(1), m.uint(1)
	return m.err == nil && no == 0 && yes == 1
}

// number reads the rest of an integer or float; false for one that is stored in an unusual form.
func (m *message) number(t *Type, class, flags uint64) bool {
	offset, precision := m.uint(2), int(m.uint(2))
	t.Big = flags&1 != 0
	if m.err != nil || offset != 0 || precision != 8*t.Size || bits.OnesCount(uint(t.Size)) != 1 || t.Size > 8 {
		return false
	}
	if class == 0 {
		t.Signed = flags&8 != 0
		return true
	}
	t.Float = true
	var layout [5]int
	for i := range 4 {
		layout[i] = int(m.uint(1))
	}
	layout[4] = int(m.uint(4))
	want, ieee := ieeeLayouts[t.Size]
	return ieee && m.err == nil && layout == want && flags&0x40 == 0
}

// texts returns the attributes that are texts.
func (f *File) texts(messages []message) (map[string]string, error) {
	texts := map[string]string{}
	for i := range messages {
		m := &messages[i]
		if m.kind != msgAttribute || m.shared {
			continue
		}
		name, value, ok := m.attribute()
		if m.err != nil {
			return nil, m.err
		}
		if ok {
			texts[name] = value
		}
	}
	return texts, nil
}

// attribute reads an attribute; false if it is no text.
func (m *message) attribute() (name, value string, ok bool) {
	v := m.uint(1)
	if v != 1 && m.err == nil {
		return "", "", false // of a shared type, or of a name in UTF-8
	}
	m.bytes(1)
	sizes := [3]int{int(m.uint(2)), int(m.uint(2)), int(m.uint(2))}
	var parts [3]cursor
	for i, n := range sizes {
		if from := m.pos; m.err == nil {
			parts[i] = m.part(n)
			m.align(from)
		}
	}
	if m.err != nil {
		return "", "", false
	}
	space := message{cursor: parts[2]}
	shape := space.dataspace()
	typ := &parts[1]
	class, flags, size := typ.uint(1), typ.uint(3), int(typ.uint(4))
	switch {
	case typ.err != nil || space.err != nil || len(shape) > 0:
		return "", "", false
	case class&15 == 3:
		value = text(m.bytes(size))
	case class&15 == 9 && flags&15 == 1:
		n := m.uint(4)
		heap, index := m.uint(8), m.uint(4)
		if m.err != nil {
			return "", "", false
		}
		b, err := m.f.heapObject(heap, index)
		if m.err = err; err == nil && n > uint64(len(b)) {
			m.err = m.fault("a text of %d bytes, of which there are %d", n, len(b))
		}
		if m.err == nil {
			value = text(b[:n])
		}
	default:
		return "", "", false
	}
	return text(parts[0].b), value, m.err == nil
}

// text drops the zeros at the end.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// heapObject returns an object of a global heap.
func (f *File) heapObject(heap, index uint64) ([]byte, error) {
	c := f.read(heap, 16)
	c.expect("GCOL")
	c.version("global heap", 1)
	c.bytes(3)
	size := c.uint(8)
	if c.err != nil {
		return nil, c.err
	}
	c = f.read(heap, size)
	c.bytes(16)
	for c.err == nil && c.left() >= 16 {
		i := c.uint(2)
		c.bytes(6)
		n := c.uint(8)
		if i == 0 {
			break // the free space
		}
		from := c.pos
		b := c.bytes(int(min(n, maxMetadata+1)))
		if i == index {
			return b, c.err
		}
		c.align(from)
	}
	if c.err == nil {
		c.err = c.fault("no object %d in the global heap", index)
	}
	return nil, c.err
}
