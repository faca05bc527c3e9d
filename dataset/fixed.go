package dataset

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

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
	if err := f.src.readFull(f.raw); err != nil {
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
