package db

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/vector"
)

// newRow is a row in the form in which it is stored.
type newRow struct {
	key     []byte
	vector  []float32
	labels  []string
	payload []byte
	// Only in sparse collections: the vector without zeros, and the named features until the
	// transaction gives them numbers.
	sparse   vector.Sparse
	features []Feature
}

// appendCold encodes the parts of a row that queries do not read: labels and payload. The
// format is the count of labels, each label with its length, then the payload to the end;
// numbers are unsigned varints.
func appendCold(dst []byte, labels []string, payload []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(labels)))
	for _, l := range labels {
		dst = binary.AppendUvarint(dst, uint64(len(l)))
		dst = append(dst, l...)
	}
	return append(dst, payload...)
}

var errCold = fmt.Errorf("labels and payload do not decode")

// decodeCold is the inverse of appendCold; labels are copies, the payload aliases b.
func decodeCold(b []byte) (labels []string, payload []byte, err error) {
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

// encodeTail returns the block of a row that is not in a chunk yet: the vector first, so that
// queries read it in place, then the key with its length (uint16, little-endian), then labels
// and payload.
func encodeTail(c *collection, key []byte, r *newRow) []byte {
	p := make([]byte, 0, 4*len(r.vector)+8*r.sparse.Len()+2+len(r.key)+64+len(r.payload))
	h := codec.Header{Kind: codec.KindTail, Elem: codec.F32, Rows: 1, Cols: uint32(len(r.vector))}
	if c.Sparse {
		p = appendSparse(p, r.sparse)
		h.Elem, h.Cols = codec.BytesElem, uint32(r.sparse.Len())
	} else {
		p = append(p, codec.Bytes(r.vector)...)
	}
	p = binary.LittleEndian.AppendUint16(p, uint16(len(r.key)))
	p = append(p, r.key...)
	p = appendCold(p, r.labels, r.payload)
	return codec.Encode(key, h, p)
}

// splitTail splits a tail row's payload into vector bytes, key and cold part.
func splitTail(p []byte, dim int) (vec, key, cold []byte, err error) {
	if len(p) < 4*dim+2 {
		return nil, nil, nil, fmt.Errorf("tail row of %d bytes is too short for %d coordinates", len(p), dim)
	}
	key, cold, err = splitKey(p[4*dim:])
	return p[:4*dim], key, cold, err
}

// splitKey splits the bytes after the vector of a tail row into key and cold part.
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

// wholeBytes reports whether every coordinate is an integer from 0 to 255, so that bytes store
// it without loss. Minus zero is not, since its sign would be lost.
func wholeBytes(x []float32) bool {
	for _, v := range x {
		if !(v >= 0 && v <= 255) || v != float32(uint8(v)) || math.Signbit(float64(v)) {
			return false
		}
	}
	return true
}

// coldRun is the largest number of bytes of labels and payloads in one compressed block; a
// block of a single row may be larger.
const coldRun = 256 << 10

// encodeChunk writes the blocks of a sealed chunk of c: vectors, keys, cold runs and, for
// cosine, inverse norms.
func encodeChunk(
	c *collection, chunk uint32, rows []newRow, put func(key [codec.KeySize]byte, value []byte) error,
) error {
	kind, elem, data := codec.KindSparse, codec.BytesElem, []byte(nil)
	if c.Sparse {
		data = encodeSparseChunk(rows)
	} else {
		kind = codec.KindRows
		elem, data = encodeVectors(c, rows)
	}
	h := codec.Header{Kind: kind, Elem: elem, Rows: uint64(len(rows)), Cols: uint32(c.Dim)}
	key := codec.Key(c.ID, kind, chunk)
	if err := put(key, codec.Encode(key[:], h, data)); err != nil {
		return err
	}
	keys := make([][]byte, len(rows))
	for i := range rows {
		keys[i] = rows[i].key
	}
	key = codec.Key(c.ID, codec.KindKeys, chunk)
	h = codec.Header{Kind: codec.KindKeys, Rows: uint64(len(rows)), Cols: 1}
	if err := put(key, codec.Encode(key[:], h, codec.AppendStrings(nil, keys))); err != nil {
		return err
	}
	if c.Metric == vector.Cosine && !c.Sparse {
		inv := make([]float32, len(rows))
		for i := range rows {
			inv[i] = vector.InverseNorm(rows[i].vector)
		}
		key = codec.Key(c.ID, codec.KindNorms, chunk)
		h = codec.Header{Kind: codec.KindNorms, Elem: codec.F32, Rows: uint64(len(rows)), Cols: 1}
		if err := put(key, codec.Encode(key[:], h, codec.Bytes(inv))); err != nil {
			return err
		}
	}
	return encodeCold(c, chunk<<c.shift(), rows, put)
}

// encodeVectors returns the vectors of dense rows in sequence, as bytes if that is lossless and
// the collection's storage allows it.
func encodeVectors(c *collection, rows []newRow) (codec.Elem, []byte) {
	bytes := c.Storage == StorageAuto
	for i := range rows {
		bytes = bytes && wholeBytes(rows[i].vector)
	}
	if bytes {
		data := make([]byte, 0, len(rows)*c.Dim)
		for i := range rows {
			for _, v := range rows[i].vector {
				data = append(data, uint8(v))
			}
		}
		return codec.U8, data
	}
	data := make([]byte, 0, 4*len(rows)*c.Dim)
	for i := range rows {
		data = append(data, codec.Bytes(rows[i].vector)...)
	}
	return codec.F32, data
}

// encodeCold writes labels and payloads as runs of rows; a run's block number
// is its first row.
func encodeCold(
	c *collection, first uint32, rows []newRow, put func(key [codec.KeySize]byte, value []byte) error,
) error {
	for lo := 0; lo < len(rows); {
		var blobs [][]byte
		size := 0
		for i := lo; i < len(rows) && (size < coldRun || i == lo); i++ {
			b := appendCold(nil, rows[i].labels, rows[i].payload)
			if size += len(b); size > coldRun && i > lo {
				break
			}
			blobs = append(blobs, b)
		}
		key := codec.Key(c.ID, codec.KindCold, first+uint32(lo))
		h := codec.Header{Kind: codec.KindCold, Rows: uint64(len(blobs)), Cols: 1}
		value, err := codec.EncodeCompressed(key[:], h, codec.AppendStrings(nil, blobs))
		if err != nil {
			return wrapf(err, "labels and payloads of row %d", first+uint32(lo))
		}
		if err := put(key, value); err != nil {
			return err
		}
		lo += len(blobs)
	}
	return nil
}

// checkRow checks a row against its collection.
func checkRow(r *Row, c *collection) error {
	if err := validKey(r.Key); err != nil {
		return err
	}
	if c.Sparse {
		if err := checkSparse(r, c.Named); err != nil {
			return wrapf(err, "key %q", r.Key)
		}
	} else if err := checkDense(r, c.Dim, c.Metric); err != nil {
		return err
	}
	if err := checkLabels(r.Key, r.Labels); err != nil {
		return err
	}
	return checkPayload(r.Key, r.Payload)
}

// checkLabels checks the labels of a row.
func checkLabels(key []byte, labels []string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("%w: key %q has %d labels, want at most %d", ErrLabel, key, len(labels), MaxLabels)
	}
	for _, l := range labels {
		if l == "" || len(l) > MaxKey {
			return fmt.Errorf("%w: key %q has a label of %d bytes, want 1 to %d", ErrLabel, key, len(l), MaxKey)
		}
	}
	return nil
}

// checkPayload checks the payload of a row.
func checkPayload(key, payload []byte) error {
	if len(payload) > MaxPayload {
		return fmt.Errorf("%w: key %q has %d bytes, want at most %d", ErrPayload, key, len(payload), MaxPayload)
	}
	return nil
}

// checkDense checks the vector of a row for a dense collection.
func checkDense(r *Row, dim int, metric vector.Metric) error {
	if r.Sparse.Len() > 0 || len(r.Features) > 0 {
		return fmt.Errorf("%w: key %q has sparse features, the collection is dense", ErrKind, r.Key)
	}
	if len(r.Vector) != dim {
		return fmt.Errorf("%w: key %q has %d coordinates, want %d", ErrDimension, r.Key, len(r.Vector), dim)
	}
	if i := vector.IsFinite(r.Vector); i >= 0 {
		return fmt.Errorf("%w: key %q coordinate %d is %g", ErrNotFinite, r.Key, i, r.Vector[i])
	}
	if err := checkNorm(r.Vector, metric); err != nil {
		return wrapf(err, "key %q", r.Key)
	}
	return nil
}

// checkNorm checks that distances can be computed from the length of a finite row: a length
// that overflows would make them infinite or NaN, one that underflows would make them equal.
func checkNorm(x []float32, metric vector.Metric) error {
	n := float64(vector.Dot(x, x))
	if n > math.MaxFloat32 || math.IsNaN(n) {
		return fmt.Errorf("%w: length %.3g, want less than %.3g", ErrNorm, math.Sqrt(squaredNorm(x)), MaxNorm)
	}
	least := MinNorm
	if metric == vector.Cosine {
		least = MinCosineNorm
	}
	if n > 4*MinNorm*MinNorm {
		return nil
	}
	if length := math.Sqrt(squaredNorm(x)); length > 0 && length < least {
		return fmt.Errorf("%w: length %.3g, want 0 or at least %.3g (multiply all vectors by a constant)",
			ErrNorm, length, least)
	}
	return nil
}

// copyRow returns the row in the form in which it is stored. It shares no memory with the
// caller.
func copyRow(r *Row) newRow {
	out := newRow{
		key: slices.Clone(r.Key), vector: slices.Clone(r.Vector), labels: labelSet(r.Labels),
		payload: slices.Clone(r.Payload),
	}
	out.sparse = nonZero(r.Sparse)
	out.features = slices.Clone(r.Features)
	return out
}

// labelSet returns labels as they are stored: ascending, none twice.
func labelSet(labels []string) []string {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	return slices.Compact(labels)
}

// coldSize returns the approximate size in bytes of a row's labels and payload.
func (r *newRow) coldSize() int {
	n := len(r.payload)
	for _, l := range r.labels {
		n += len(l)
	}
	return n
}

// row returns a copy of the row for reads of its transaction.
func (r *newRow) row() Row {
	return Row{
		Key: slices.Clone(r.key), Vector: slices.Clone(r.vector),
		Sparse:   vector.Sparse{Index: slices.Clone(r.sparse.Index), Value: slices.Clone(r.sparse.Value)},
		Features: slices.Clone(r.features), Labels: slices.Clone(r.labels), Payload: slices.Clone(r.payload),
	}
}
