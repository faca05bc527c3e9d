// Package rows has the stored form of rows: blocks of single rows, which the newest rows have,
// and chunks of rows, which are read in place.
package rows

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// Limits of what decoders accept. They are the limits of rows in package db.
const (
	MaxKey      = 512
	MaxLabels   = 1024
	MaxPayload  = 1 << 20
	MaxFeatures = 1 << 16
)

// Row is a row as it is stored.
type Row struct {
	Key []byte
	// Vector is set in dense collections, Sparse, without zeros, in sparse ones.
	Vector  []float32
	Sparse  vector.Sparse
	Labels  []string
	Payload []byte
}

// Format describes the rows of a collection.
type Format struct {
	// ID is the collection's number.
	ID     uint64
	Sparse bool
	Dim    int // coordinates, or feature numbers in use
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
	if f.Sparse {
		return SparseShift
	}
	rows := (1<<20 - codec.HeaderSize) / (4 * max(1, f.Dim))
	var s uint
	for 2<<s <= rows && 2<<s <= MaxChunk {
		s++
	}
	return s
}

// AppendCold appends the parts of a row that queries do not read: labels and payload. The
// format is the count of labels, each label with its length, then the payload to the end;
// numbers are unsigned varints.
func AppendCold(dst []byte, labels []string, payload []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(labels)))
	for _, l := range labels {
		dst = binary.AppendUvarint(dst, uint64(len(l)))
		dst = append(dst, l...)
	}
	return append(dst, payload...)
}

var errCold = errors.New("labels and payload do not decode")

// DecodeCold decodes labels and payload. Labels are copies, the payload aliases b.
func DecodeCold(b []byte) (labels []string, payload []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > MaxLabels {
		return nil, nil, errCold
	}
	b = b[w:]
	for range n {
		l, w := binary.Uvarint(b)
		if w <= 0 || l > MaxKey || l > uint64(len(b)-w) {
			return nil, nil, errCold
		}
		labels = append(labels, string(b[w:w+int(l)]))
		b = b[w+int(l):]
	}
	if len(b) > MaxPayload {
		return nil, nil, errCold
	}
	return labels, b, nil
}

// EncodeOne returns the block of a single row: the vector first, so that queries read it in
// place, then the key with its length (uint16, little-endian), then labels and payload.
func (f Format) EncodeOne(key []byte, r *Row) []byte {
	p := make([]byte, 0, 4*len(r.Vector)+8*r.Sparse.Len()+2+len(r.Key)+64+len(r.Payload))
	h := codec.Header{Kind: codec.KindTail, Elem: codec.F32, Rows: 1, Cols: uint32(len(r.Vector))}
	if f.Sparse {
		p = appendSparse(p, r.Sparse)
		h.Elem, h.Cols = codec.BytesElem, uint32(r.Sparse.Len())
	} else {
		p = append(p, codec.Bytes(r.Vector)...)
	}
	p = binary.LittleEndian.AppendUint16(p, uint16(len(r.Key)))
	p = append(p, r.Key...)
	p = AppendCold(p, r.Labels, r.Payload)
	return codec.Encode(key, h, p)
}

// DecodeOne decodes the payload of a single row's block. The result does not alias payload.
func (f Format) DecodeOne(payload []byte) (r Row, err error) {
	var key, cold []byte
	if f.Sparse {
		if r.Sparse, key, cold, err = SplitSparse(payload); err != nil {
			return r, err
		}
		r.Sparse = vector.Sparse{Index: slices.Clone(r.Sparse.Index), Value: slices.Clone(r.Sparse.Value)}
	} else {
		var vec []byte
		if vec, key, cold, err = SplitDense(payload, f.Dim); err != nil {
			return r, err
		}
		var x []float32
		if x, err = codec.View[float32](vec, f.Dim); err != nil {
			return r, err
		}
		r.Vector = slices.Clone(x)
	}
	r.Key = slices.Clone(key)
	r.Labels, r.Payload, err = DecodeCold(cold)
	r.Payload = slices.Clone(r.Payload)
	return r, err
}

// SplitDense splits the payload of a single dense row into the bytes of the vector, the key,
// and labels with payload.
func SplitDense(p []byte, dim int) (vec, key, cold []byte, err error) {
	if len(p) < 4*dim+2 {
		return nil, nil, nil, fmt.Errorf("tail row of %d bytes is too short for %d coordinates", len(p), dim)
	}
	key, cold, err = splitKey(p[4*dim:])
	return p[:4*dim], key, cold, err
}

// SplitSparse splits the payload of a single sparse row into a view of the vector, the key, and
// labels with payload.
func SplitSparse(p []byte) (s vector.Sparse, key, cold []byte, err error) {
	s, rest, err := splitVector(p)
	if err != nil {
		return s, nil, nil, err
	}
	key, cold, err = splitKey(rest)
	return s, key, cold, err
}

// splitKey splits the bytes after the vector of a single row.
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
