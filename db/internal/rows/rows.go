// Package rows has the stored form of rows: blocks of single rows, which the newest rows have,
// and chunks of rows, which are read in place.
package rows

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/vector"
)

// Limits of what decoders accept. They are the limits of rows in package db.
const (
	MaxKey      = 512
	MaxLabels   = 1024
	MaxPayload  = 1 << 20
	MaxText     = 1 << 20
	MaxFeatures = 1 << 16
)

// Row is a row as it is stored.
type Row struct {
	Key []byte
	// Vector is set in collections with vectors, unless the row has none, Sparse, without zeros, in those
	// with features.
	Vector []float32
	Sparse vector.Sparse
	// Features are those of Sparse with their names, in place of it, until a transaction gives them numbers.
	Features []vector.Feature
	Cold
}

// Size returns the approximate size in bytes.
func (r *Row) Size() int {
	return 4*len(r.Vector) + 8*r.Sparse.Len() + 32*len(r.Features) + len(r.Key) + r.Cold.Size()
}

// Cold holds the parts of a row that searches do not read. All but the text can change while the row keeps
// its number.
type Cold struct {
	Labels []string // ascending
	// Attributes ascend by name.
	Attributes []attribute.Attribute
	Text       string // from which the sparse vector was made, in a collection of texts
	Payload    []byte
}

// Expired reports whether the row has expired at a time.
func (c *Cold) Expired(now time.Time) bool {
	_, at := attribute.Split(c.Attributes)
	return !at.IsZero() && !at.After(now)
}

// Equal reports whether all parts are equal.
func (c *Cold) Equal(o *Cold) bool {
	return slices.Equal(c.Labels, o.Labels) && attribute.Same(c.Attributes, o.Attributes) &&
		c.Text == o.Text && bytes.Equal(c.Payload, o.Payload)
}

// Size returns the approximate size in bytes.
func (c *Cold) Size() int {
	n := len(c.Payload) + len(c.Text) + attribute.Size(c.Attributes)
	for _, l := range c.Labels {
		n += len(l)
	}
	return n
}

// Clone returns a copy that shares no memory with c but that of strings.
func (c *Cold) Clone() Cold {
	return Cold{slices.Clone(c.Labels), slices.Clone(c.Attributes), c.Text, slices.Clone(c.Payload)}
}

// Format describes the rows of a collection.
type Format struct {
	// ID is the collection's number.
	ID       uint64
	Dim      int  // coordinates, 0 if the rows have no vectors
	Sparse   bool // the rows have features
	Features int  // feature numbers in use
	// Norms selects that inverse norms are stored for dense rows.
	Norms bool
	// Bytes selects that coordinates are stored as bytes in chunks where that is lossless.
	Bytes bool
}

const (
	// SparseShift is the log2 of the rows in a chunk of sparse rows.
	SparseShift = 10
	// MaxChunk is the largest number of rows in a chunk.
	MaxChunk = 1 << 14
)

// Shift returns the log2 of the rows in a chunk. For dense rows, it is the largest power of two
// whose float32 vectors fit one block.
func (f Format) Shift() uint {
	rows := (1<<20 - codec.HeaderSize) / (4 * max(1, f.Dim))
	most := MaxChunk
	if f.Sparse {
		most = 1 << SparseShift
	}
	var s uint
	for 2<<s <= rows && 2<<s <= most {
		s++
	}
	return s
}

// AppendCold appends the stored form: the count of labels, each label with its length, the
// attributes (attribute.Append), the text with its length, then the payload to the end; numbers are unsigned
// varints.
func AppendCold(dst []byte, c *Cold) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Labels)))
	for _, l := range c.Labels {
		dst = binary.AppendUvarint(dst, uint64(len(l)))
		dst = append(dst, l...)
	}
	dst = attribute.Append(dst, c.Attributes)
	dst = binary.AppendUvarint(dst, uint64(len(c.Text)))
	return append(append(dst, c.Text...), c.Payload...)
}

var errCold = errors.New("labels, attributes, text and payload do not decode")

// DecodeCold decodes what AppendCold has written. The payload aliases b, the rest does not.
func DecodeCold(b []byte) (c Cold, err error) {
	b, err = eachLabel(b, func(label []byte) { c.Labels = append(c.Labels, string(label)) })
	if err != nil {
		return Cold{}, err
	}
	if c.Attributes, b, err = attribute.Decode(b); err != nil {
		return Cold{}, err
	}
	n, w := binary.Uvarint(b)
	if w <= 0 || n > MaxText || n > uint64(len(b)-w) || len(b)-w-int(n) > MaxPayload {
		return Cold{}, errCold
	}
	c.Text, b = string(b[w:w+int(n)]), b[w+int(n):]
	c.Payload = b
	return c, nil
}

// Attributes decodes only the attributes of an encoded Cold.
func Attributes(b []byte) ([]attribute.Attribute, error) {
	b, err := eachLabel(b, func([]byte) {})
	if err != nil {
		return nil, err
	}
	out, _, err := attribute.Decode(b)
	return out, err
}

// eachLabel calls f for the labels at the start of an encoded Cold, and returns what follows them.
func eachLabel(b []byte, f func(label []byte)) (rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > MaxLabels {
		return nil, errCold
	}
	b = b[w:]
	for range n {
		l, w := binary.Uvarint(b)
		if w <= 0 || l > MaxKey || l > uint64(len(b)-w) {
			return nil, errCold
		}
		f(b[w : w+int(l)])
		b = b[w+int(l):]
	}
	return b, nil
}

// EncodeOne returns the block of a single row: the vector first, so that queries read it in
// place, then the key with its length (uint16, little-endian), then the encoded Cold.
func (f Format) EncodeOne(key []byte, r *Row) []byte {
	p := make([]byte, 0, 4*len(r.Vector)+8*r.Sparse.Len()+2+len(r.Key)+64+len(r.Payload))
	h := codec.Header{Kind: codec.KindTail, Elem: codec.F32, Rows: 1, Cols: uint32(f.Dim)}
	p = append(p, codec.Bytes(r.Vector)...)
	if r.Vector == nil {
		p = append(p, make([]byte, 4*f.Dim)...)
	}
	if f.Sparse {
		p = appendSparse(p, r.Sparse)
		h.Elem, h.Cols = codec.BytesElem, uint32(r.Sparse.Len())
	}
	p = binary.LittleEndian.AppendUint16(p, uint16(len(r.Key)))
	p = append(p, r.Key...)
	p = AppendCold(p, &r.Cold)
	return codec.Encode(key, h, p)
}

// DecodeOne decodes the payload of a single row's block. The result does not alias payload. A row without
// a vector has one of zeros.
func (f Format) DecodeOne(payload []byte) (r Row, err error) {
	one, err := f.Split(payload)
	if err != nil {
		return r, err
	}
	r.Vector = slices.Clone(one.Vector)
	r.Sparse = vector.Sparse{Index: slices.Clone(one.Sparse.Index), Value: slices.Clone(one.Sparse.Value)}
	r.Key = slices.Clone(one.Key)
	r.Cold, err = DecodeCold(one.Cold)
	r.Payload = slices.Clone(r.Payload)
	return r, err
}

// One is the payload of a single row's block in its parts, of which none is copied.
type One struct {
	Vector []float32
	Sparse vector.Sparse
	Key    []byte
	Cold   []byte // encoded
}

// Split splits the payload of a single row's block.
func (f Format) Split(p []byte) (one One, err error) {
	if len(p) < 4*f.Dim+2 {
		return one, fmt.Errorf("tail row of %d bytes is too short for %d coordinates", len(p), f.Dim)
	}
	if f.Dim > 0 {
		if one.Vector, err = codec.View[float32](p, f.Dim); err != nil {
			return one, err
		}
		p = p[4*f.Dim:]
	}
	if f.Sparse {
		if one.Sparse, p, err = splitVector(p); err != nil {
			return one, err
		}
	}
	one.Key, one.Cold, err = splitKey(p)
	return one, err
}

func splitKey(rest []byte) (key, cold []byte, err error) {
	if len(rest) < 2 {
		return nil, nil, errors.New("tail row is too short for a key")
	}
	n := int(binary.LittleEndian.Uint16(rest))
	if n < 1 || n > MaxKey || n > len(rest)-2 {
		return nil, nil, fmt.Errorf("tail row has a key of %d bytes", n)
	}
	return rest[2 : 2+n], rest[2+n:], nil
}

// appendSparse encodes the vector of a single sparse row: the number of features, features,
// values.
func appendSparse(dst []byte, s vector.Sparse) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(s.Len()))
	dst = append(dst, codec.Bytes(s.Index)...)
	return append(dst, codec.Bytes(s.Value)...)
}

// splitVector maps the vector at the start of a single sparse row's payload.
func splitVector(p []byte) (s vector.Sparse, rest []byte, err error) {
	if len(p) < 4 {
		return s, nil, errors.New("sparse row is too short")
	}
	n := int(binary.LittleEndian.Uint32(p))
	if n > MaxFeatures || len(p)-4 < 8*n {
		return s, nil, fmt.Errorf("sparse row claims %d features in %d bytes", n, len(p))
	}
	if s.Index, err = codec.View[uint32](p[4:], n); err != nil {
		return s, nil, err
	}
	if s.Value, err = codec.View[float32](p[4+4*n:], n); err != nil {
		return s, nil, err
	}
	return s, p[4+8*n:], nil
}
