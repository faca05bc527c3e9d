package parquet

import (
	"errors"
	"fmt"
)

// Types of the compact protocol of Thrift.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12

	// maxNesting bounds how deep structures are nested; those of Parquet are less than ten.
	maxNesting = 16
)

var errThrift = errors.New("metadata end early")

// value is a value of Thrift's compact protocol: an integer, text, list or structure.
type value struct {
	number int64
	text   []byte
	list   []value
	fields map[int]value
}

// field returns a field of a structure; the zero value if it is missing.
func (v value) field(id int) value { return v.fields[id] }

// has reports whether a structure has a field.
func (v value) has(id int) bool { _, ok := v.fields[id]; return ok }

// thrift decodes a structure from the beginning of b and returns how many bytes it has.
func thrift(b []byte) (v value, n int, err error) {
	d := thriftReader{b: b}
	v = d.value(thriftStruct, 0)
	return v, d.pos, d.err
}

type thriftReader struct {
	b   []byte
	pos int
	err error
}

func (d *thriftReader) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *thriftReader) byte() byte {
	if d.err != nil || d.pos >= len(d.b) {
		d.fail(errThrift)
		return 0
	}
	d.pos++
	return d.b[d.pos-1]
}

func (d *thriftReader) varint() (v uint64) {
	for shift := 0; shift < 64; shift += 7 {
		b := d.byte()
		v |= uint64(b&127) << shift
		if b < 128 {
			return v
		}
	}
	d.fail(errors.New("a number of more than 64 bits in the metadata"))
	return 0
}

func (d *thriftReader) zigzag() int64 {
	v := d.varint()
	return int64(v>>1) ^ -int64(v&1)
}

// bytes takes n bytes.
func (d *thriftReader) bytes(n uint64) []byte {
	if d.err != nil || n > uint64(len(d.b)-d.pos) {
		d.fail(errThrift)
		return nil
	}
	d.pos += int(n)
	return d.b[d.pos-int(n) : d.pos]
}

func (d *thriftReader) value(kind byte, depth int) (v value) {
	if depth > maxNesting {
		d.fail(errors.New("metadata are nested too deep"))
	}
	if d.err != nil {
		return v
	}
	switch kind {
	case thriftTrue:
		v.number = 1
	case thriftFalse:
	case thriftByte:
		v.number = int64(int8(d.byte()))
	case thriftI16, thriftI32, thriftI64:
		v.number = d.zigzag()
	case thriftDouble:
		d.bytes(8)
	case thriftBinary:
		v.text = d.bytes(d.varint())
	case thriftList, thriftSet:
		v.list = d.elements(depth)
	case thriftStruct:
		v.fields = map[int]value{}
		id := 0
		for d.err == nil {
			head := d.byte()
			if head == 0 {
				break
			}
			if delta := int(head >> 4); delta > 0 {
				id += delta
			} else {
				id = int(d.zigzag())
			}
			v.fields[id] = d.value(head&15, depth+1)
		}
	default:
		d.fail(fmt.Errorf("type %d in the metadata", kind))
	}
	return v
}

// elements decodes a list, whose elements take a byte each at least.
func (d *thriftReader) elements(depth int) []value {
	head := d.byte()
	n := uint64(head >> 4)
	if n == 15 {
		n = d.varint()
	}
	if n > uint64(len(d.b)-d.pos) {
		d.fail(errThrift)
		return nil
	}
	var list []value
	kind := head & 15
	for range n {
		if d.err != nil {
			return nil
		}
		if kind == thriftTrue || kind == thriftFalse { // in lists they are bytes
			list = append(list, value{number: int64(d.byte())})
			continue
		}
		list = append(list, d.value(kind, depth+1))
	}
	return list
}
