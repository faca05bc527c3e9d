package parquet

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Field describes a column to write: one value of Type per row, which may be missing, or if List any
// number of them.
type Field struct {
	Name    string
	Type    int // Boolean, Int64, Float, Double or ByteArray
	Meaning Meaning
	List    bool
}

// groupBytes is about how many bytes of values a group of rows has before compression.
const groupBytes = 8 << 20

// Writer encodes the columns of a Parquet file: groups of about 8 MiB, a page of each column in them,
// values plain, compressed by zstd. The file is [Magic], what Flush has appended, and what Footer
// appends.
type Writer struct {
	columns []column
	offset  int64 // of the next byte of the file
	rows    int64 // of the present group
	total   int64
	groups  []structure
	zip     *zstd.Encoder
}

// Magic begins a file.
const Magic = magic

// column holds the values of the present group.
type column struct {
	Field
	values   []byte
	bits     int // Booleans in values
	rep, def levelRuns
}

// NewWriter returns a writer of a file of these columns.
func NewWriter(fields []Field) (*Writer, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	w := &Writer{offset: int64(len(Magic)), zip: zip}
	for _, f := range fields {
		w.columns = append(w.columns, column{Field: f})
	}
	return w, nil
}

// Missing ends a row of a column without a value, or with an empty list.
func (w *Writer) Missing(column int) {
	c := &w.columns[column]
	c.rep.add(0)
	c.def.add(0)
}

// Number adds a number or boolean, value i of a list, by its bits.
func (w *Writer) Number(column, i int, bits uint64) {
	c := &w.columns[column]
	c.present(i)
	switch c.Type {
	case Boolean:
		if c.bits%8 == 0 {
			c.values = append(c.values, 0)
		}
		c.values[c.bits/8] |= byte(bits) << (c.bits % 8)
		c.bits++
	case Float:
		c.values = binary.LittleEndian.AppendUint32(c.values, uint32(bits))
	default:
		c.values = binary.LittleEndian.AppendUint64(c.values, bits)
	}
}

// Bytes adds a text, value i of a list.
func (w *Writer) Bytes(column, i int, text []byte) {
	c := &w.columns[column]
	c.present(i)
	c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(len(text))), text...)
}

// present adds the levels of value i of a row.
func (c *column) present(i int) {
	c.rep.add(byte(min(i, 1)))
	c.def.add(1)
}

// EndRow appends a group of rows to dst if the present one is large enough. Every column must have
// values, or Missing, for the row.
func (w *Writer) EndRow(dst []byte) []byte {
	w.rows++
	size := 0
	for i := range w.columns {
		size += len(w.columns[i].values)
	}
	if size < groupBytes {
		return dst
	}
	return w.flush(dst)
}

// flush appends the present group.
func (w *Writer) flush(dst []byte) []byte {
	if w.rows == 0 {
		return dst
	}
	var chunks []structure
	bytes := int64(0)
	for i := range w.columns {
		c := &w.columns[i]
		n, plain := len(dst), int64(0)
		dst, plain = c.page(dst, w.zip)
		path := []string{c.Name}
		if c.List {
			path = []string{c.Name, "list", "element"}
		}
		chunks = append(chunks, structure{{2, w.offset}, {3, structure{
			{1, int32(c.Type)}, {2, []int32{0, 3}}, {3, path}, {4, int32(zstdCodec)}, {5, int64(c.def.n)},
			{6, plain}, {7, int64(len(dst) - n)}, {9, w.offset},
		}}})
		w.offset += int64(len(dst) - n)
		bytes += plain
		*c = column{Field: c.Field, values: c.values[:0]}
	}
	w.groups = append(w.groups, structure{{1, chunks}, {2, bytes}, {3, w.rows}})
	w.total, w.rows = w.total+w.rows, 0
	return dst
}

// zstdCodec is the number of the compression.
const zstdCodec = 6

// page appends a data page of version 1 and returns its size before compression, with its header.
func (c *column) page(dst []byte, zip *zstd.Encoder) (_ []byte, plain int64) {
	var body []byte
	if c.List {
		body = c.rep.appendTo(body)
	}
	body = append(c.def.appendTo(body), c.values...)
	packed := zip.EncodeAll(body, nil)
	head := structure{{1, int32(0)}, {2, int32(len(body))}, {3, int32(len(packed))}, {5, structure{
		{1, int32(c.def.n)}, {2, int32(0)}, {3, int32(3)}, {4, int32(3)},
	}}}.appendTo(nil)
	return append(append(dst, head...), packed...), int64(len(head) + len(body))
}

// Footer appends the last group and the metadata.
func (w *Writer) Footer(dst []byte) []byte {
	dst = w.flush(dst)
	schema := []structure{{{4, "schema"}, {5, int32(len(w.columns))}}}
	for i := range w.columns {
		schema = append(schema, w.columns[i].schema()...)
	}
	n := len(dst)
	dst = structure{
		{1, int32(2)}, {2, schema}, {3, w.total}, {4, w.groups}, {6, "anndb"},
	}.appendTo(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(dst)-n))
	return append(dst, magic...)
}

// schema describes the column: a leaf that may be missing, or a list as the specification has it.
func (c *column) schema() []structure {
	leaf := structure{{1, int32(c.Type)}, {3, int32(1)}, {4, c.Name}}
	if c.List {
		leaf[1].value, leaf[2].value = int32(0), "element"
	}
	switch c.Meaning {
	case Text:
		leaf = append(leaf, member{6, int32(0)}, member{10, structure{{1, structure{}}}})
	case Nanos:
		utc := structure{{1, true}, {2, structure{{3, structure{}}}}}
		leaf = append(leaf, member{10, structure{{8, utc}}})
	}
	if !c.List {
		return []structure{leaf}
	}
	return []structure{
		{{3, int32(0)}, {4, c.Name}, {5, int32(1)}, {6, int32(3)}, {10, structure{{3, structure{}}}}},
		{{3, int32(2)}, {4, "list"}, {5, int32(1)}},
		leaf,
	}
}

// levelRuns are repetition or definition levels of 0 and 1, as runs.
type levelRuns struct {
	n    int
	last byte
	run  int
	data []byte
}

func (l *levelRuns) add(level byte) {
	if level != l.last {
		l.end()
	}
	l.last = level
	l.n++
	l.run++
}

// end ends the present run.
func (l *levelRuns) end() {
	if l.run > 0 {
		l.data = append(binary.AppendUvarint(l.data, uint64(l.run)<<1), l.last)
	}
	l.run = 0
}

// appendTo appends the levels with their length.
func (l *levelRuns) appendTo(dst []byte) []byte {
	l.end()
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(l.data))), l.data...)
}

// structure is a structure to encode by Thrift's compact protocol.
type structure []member

// member is a field of a structure, in ascending order: a bool, int32, int64, string or structure, or a
// list of int32, string or structure.
type member struct {
	id    int
	value any
}

// appendTo appends the encoded structure.
func (s structure) appendTo(dst []byte) []byte {
	last := 0
	for _, f := range s {
		kind := thriftKind(f.value)
		dst = append(dst, byte(f.id-last)<<4|kind)
		last = f.id
		if kind != thriftTrue && kind != thriftFalse {
			dst = appendThrift(dst, f.value)
		}
	}
	return append(dst, 0)
}

// thriftKind returns the type of a value.
func thriftKind(v any) byte {
	switch v := v.(type) {
	case bool:
		if v {
			return thriftTrue
		}
		return thriftFalse
	case int32:
		return thriftI32
	case int64:
		return thriftI64
	case string:
		return thriftBinary
	case structure:
		return thriftStruct
	case []int32, []string, []structure:
		return thriftList
	}
	panic(fmt.Sprintf("parquet: no Thrift type for %T", v))
}

func appendThrift(dst []byte, v any) []byte {
	switch v := v.(type) {
	case int32:
		return binary.AppendVarint(dst, int64(v))
	case int64:
		return binary.AppendVarint(dst, v)
	case string:
		return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	case structure:
		return v.appendTo(dst)
	case []int32:
		return appendList(dst, v, thriftI32)
	case []string:
		return appendList(dst, v, thriftBinary)
	case []structure:
		return appendList(dst, v, thriftStruct)
	}
	return dst
}

func appendList[T any](dst []byte, list []T, kind byte) []byte {
	if len(list) < 15 {
		dst = append(dst, byte(len(list))<<4|kind)
	} else {
		dst = binary.AppendUvarint(append(dst, 0xf0|kind), uint64(len(list)))
	}
	for _, v := range list {
		dst = appendThrift(dst, v)
	}
	return dst
}
