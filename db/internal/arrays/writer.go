package arrays

import (
	"unsafe"

	"github.com/anndb/anndb/codec"
)

// Sink receives the blocks of an index to be written.
type Sink func(key [codec.KeySize]byte, value []byte) error

// Writer writes the arrays of one object.
type Writer struct {
	Object uint64
	// Sizes has the bytes written by section.
	Sizes map[string]int64
	// Err is the first error. Nothing is written after it.
	Err  error
	sink Sink
}

// NewWriter returns a writer of an object's arrays.
func NewWriter(object uint64, sink Sink) *Writer {
	return &Writer{Object: object, sink: sink, Sizes: map[string]int64{}}
}

// Block writes a block of rows of cols elements, unless it is empty.
func (w *Writer) Block(kind codec.Kind, number uint32, elem codec.Elem, cols int, data []byte) {
	if w.Err != nil || len(data) == 0 {
		return
	}
	key := codec.Key(w.Object, kind, number)
	h := codec.Header{Kind: kind, Elem: elem, Rows: uint64(len(data) / (cols * elem.Size())),
		Cols: uint32(cols)}
	value := codec.Encode(key[:], h, data)
	w.Sizes[kind.String()] += int64(len(value))
	w.Err = w.sink(key, value)
}

// Blocks writes blocks of bytes, numbered from 0.
func (w *Writer) Blocks(kind codec.Kind, blocks [][]byte) {
	for i, b := range blocks {
		w.Block(kind, uint32(i), codec.U8, 1, b)
	}
}

// WriteRows writes rows of cols elements in blocks of 1<<shift rows.
func WriteRows[T codec.Number](w *Writer, kind codec.Kind, data []T, cols int, shift uint) {
	for i, size := 0, cols<<shift; i*size < len(data); i++ {
		part := data[i*size : min((i+1)*size, len(data))]
		w.Block(kind, uint32(i), ElemOf[T](), cols, codec.Bytes(part))
	}
}

// ShiftFor returns log2 of the number of rows of width bytes that one block holds.
func ShiftFor(width int) uint {
	rows := (1<<20 - codec.HeaderSize) / max(1, width)
	var s uint
	for 2<<s <= rows && s < 20 {
		s++
	}
	return s
}

// ElemOf returns the element type that numbers are stored as. Signed integers of more than one
// byte are stored as unsigned ones.
func ElemOf[T codec.Number]() codec.Elem {
	var zero T
	switch any(zero).(type) {
	case int8:
		return codec.I8
	case float32:
		return codec.F32
	case float64:
		return codec.F64
	}
	switch unsafe.Sizeof(zero) {
	case 1:
		return codec.U8
	case 2:
		return codec.U16
	case 4:
		return codec.U32
	}
	return codec.U64
}
