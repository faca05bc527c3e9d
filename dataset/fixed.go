package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// maxIDXRank bounds the number of dimensions of an idx file: images with
// channels and frames have five.
const maxIDXRank = 8

// idxKinds maps the third byte of an idx file to its number type. Source: the
// format description on the MNIST page.
var idxKinds = map[byte]elemKind{
	0x08: kindU8, 0x09: kindI8, 0x0b: kindI16, 0x0c: kindI32, 0x0d: kindF32, 0x0e: kindF64,
}

// idxMagic reads the first four bytes of an idx file: two zeros, the number
// type, the number of dimensions.
func idxMagic(b []byte) (elem, bool) {
	if len(b) < 4 || b[0] != 0 || b[1] != 0 || b[3] < 1 || b[3] > maxIDXRank {
		return elem{}, false
	}
	kind, ok := idxKinds[b[2]]
	return elem{kind: kind, big: true}, ok
}

// idxHeader reads the header from s: number type and sizes.
func idxHeader(s *source) (elem, []uint64, error) {
	var head [4]byte
	if err := s.readFull(head[:]); err != nil {
		return elem{}, nil, s.fail(-1, err)
	}
	e, ok := idxMagic(head[:])
	if !ok {
		return elem{}, nil, s.bad(-1, 0, fmt.Errorf("wrong magic number % x: not an idx file", head))
	}
	sizes := make([]uint64, head[3])
	for i := range sizes {
		var b [4]byte
		if err := s.readFull(b[:]); err != nil {
			return elem{}, nil, s.fail(-1, err)
		}
		sizes[i] = uint64(binary.BigEndian.Uint32(b[:]))
	}
	return e, sizes, nil
}

// openIDX reads an idx file of two or more dimensions: the first counts the
// records, the others, multiplied, are the vector's dimensions.
func openIDX(s *source, o Options) (decoder, error) {
	e, sizes, err := idxHeader(s)
	if err != nil {
		return nil, err
	}
	if len(sizes) == 1 {
		return nil, s.bad(-1, 3, errors.New("one dimension: an idx file of labels, not of vectors"))
	}
	dim, err := product(sizes[1:], o.MaxDim)
	if err != nil {
		return nil, s.bad(-1, 8, err)
	}
	return newFixed(s, e, dim, int64(sizes[0]), false)
}

// binElems maps the formats of the big-ann benchmarks to their number types.
var binElems = map[string]elem{
	FormatFbin: {kind: kindF32}, FormatU8bin: {kind: kindU8},
	FormatI8bin: {kind: kindI8}, FormatIbin: {kind: kindI32},
}

// openBin reads fbin, u8bin, i8bin and ibin: the number of records and the number of dimensions, both
// of 32 bits, and the values. Source: the format description of big-ann-benchmarks.
func openBin(s *source, o Options) (decoder, error) {
	var head [8]byte
	if err := s.readFull(head[:]); err != nil {
		return nil, s.fail(-1, err)
	}
	n, d := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if d < 1 || uint64(d) > uint64(o.MaxDim) {
		return nil, s.bad(-1, 4, fmt.Errorf("dimension %d, want 1..%d", d, o.MaxDim))
	}
	return newFixed(s, binElems[o.Format], int(d), int64(n), false)
}

// openRaw reads float32 numbers without a header.
func openRaw(s *source, o Options) (decoder, error) {
	if o.Dim == 0 {
		return nil, s.bad(-1, -1, ErrDim)
	}
	if width := int64(4 * o.Dim); s.size > 0 && s.size%width != 0 {
		return nil, s.bad(-1, s.size, fmt.Errorf("%d bytes are no whole number of records of %d float32",
			s.size, o.Dim))
	}
	return newFixed(s, elem{kind: kindF32}, o.Dim, -1, false)
}

// vecsElems maps the formats of the TEXMEX corpus to their number types.
var vecsElems = map[string]elem{
	FormatFvecs: {kind: kindF32}, FormatBvecs: {kind: kindU8}, FormatIvecs: {kind: kindI32},
}

// openVecs reads fvecs, bvecs and ivecs. The first record's dimension, which
// all others must have, is looked at without taking it. Source: the format
// description of the TEXMEX corpus.
func openVecs(s *source, o Options) (decoder, error) {
	head := s.peek(4)
	if len(head) < 4 {
		if _, err := s.br.Peek(4); err != nil {
			return nil, s.fail(0, err)
		}
	}
	d := int32(binary.LittleEndian.Uint32(head))
	if d < 1 || int64(d) > int64(o.MaxDim) {
		return nil, s.bad(0, 0, fmt.Errorf("dimension %d, want 1..%d", d, o.MaxDim))
	}
	f, err := newFixed(s, vecsElems[o.Format], int(d), -1, true)
	if err != nil {
		return nil, err
	}
	f.maxDim = o.MaxDim
	return f, nil
}

// fvecsEncoder writes fvecs.
type fvecsEncoder struct{ noHeader }

func newFvecsEncoder(Schema) (encoder, error) { return fvecsEncoder{}, nil }

func (fvecsEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(rec.Vector)))
	return appendFloats(dst, rec.Vector), nil
}

// fixed reads records of one size: the body of idx, npy and vecs files.
type fixed struct {
	src    *source
	elem   elem
	dim    int
	n      int64 // records promised by a header; -1: read to the end
	length int64 // number of records, -1: unknown
	prefix bool  // each record begins with its dimension as an int32
	raw    []byte
	maxDim int // with prefix: what a record that is passed over may have
}

// newFixed makes the reader of what follows in s: n records (or -1: as many as
// there are), and nothing after them. It allocates one record's buffer, which
// dim, at most Options.MaxDim, bounds.
func newFixed(s *source, e elem, dim int, n int64, prefix bool) (*fixed, error) {
	f := &fixed{src: s, elem: e, dim: dim, n: n, length: n, prefix: prefix}
	width := dim * e.size()
	if prefix {
		width += 4
	}
	if n > math.MaxInt64/2/int64(width) {
		return nil, s.bad(-1, 0, fmt.Errorf("header promises %d records of %d bytes", n, width))
	}
	if s.size >= 0 {
		body := s.size - s.offset
		if n < 0 {
			f.length = body / int64(width)
		} else if want := n * int64(width); body < want {
			whole := body / int64(width)
			return nil, s.bad(whole, s.size, fmt.Errorf("truncated: header promises %d records, the file holds %d: %w",
				n, whole, io.ErrUnexpectedEOF))
		} else if body > want {
			return nil, s.bad(n, s.offset+want,
				fmt.Errorf("%d bytes after the %d records promised by the header", body-want, n))
		}
	}
	f.raw = make([]byte, dim*e.size())
	return f, nil
}

func (f *fixed) schema() Schema {
	return Schema{Kind: Dense, Dim: f.dim, Base: BaseZero, Records: f.length}
}

func (f *fixed) next(rec *Record, n int64) error {
	start := f.src.offset
	if n == f.n {
		if err := f.src.end(n); err != nil {
			return err
		}
		return io.EOF
	}
	if f.prefix {
		if err := f.checkDim(n, start); err != nil {
			return err
		}
	}
	switch err := f.src.readFull(f.raw); {
	case err == io.EOF && f.n < 0 && !f.prefix:
		return io.EOF
	case err != nil:
		return f.src.fail(n, err)
	}
	rec.Vector = resize(rec.Vector, f.dim)
	if err := f.elem.decode(rec.Vector, f.raw); err != nil {
		return f.src.badRecord(n, start, err)
	}
	return nil
}

// checkDim takes the dimension at the head of a record and compares it with the first one. It passes a
// record of another dimension over. It returns io.EOF at the end of the file.
func (f *fixed) checkDim(n, start int64) error {
	var head [4]byte
	switch err := f.src.readFull(head[:]); {
	case err == io.EOF:
		return io.EOF
	case err != nil:
		return f.src.fail(n, err)
	}
	d := int(int32(binary.LittleEndian.Uint32(head[:])))
	if d == f.dim {
		return nil
	}
	fault := fmt.Errorf("dimension %d, the records before have %d", d, f.dim)
	if d < 1 || d > f.maxDim || !f.src.discard(d*f.elem.size()) {
		return f.src.bad(n, start, fault)
	}
	return f.src.badRecord(n, start, fault)
}

// resize returns a vector of n values, v itself where it has the memory.
func resize(v []float32, n int) []float32 {
	if cap(v) < n {
		return make([]float32, n)
	}
	return v[:n]
}

// product multiplies the sizes of a record's dimensions.
func product(sizes []uint64, maxDim int) (int, error) {
	dim := uint64(1)
	for _, n := range sizes {
		if n == 0 {
			return 0, fmt.Errorf("records of shape %v are empty", sizes)
		}
		if n > uint64(maxDim)/dim {
			return 0, fmt.Errorf("records of shape %v have more than %d values", sizes, maxDim)
		}
		dim *= n
	}
	return int(dim), nil
}

func appendFloats(dst []byte, vector []float32) []byte {
	for _, v := range vector {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(v))
	}
	return dst
}
