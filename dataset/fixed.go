package dataset

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
)

// fixed reads records of one size: the body of idx, npy and vecs files.
type fixed struct {
	src     *source
	elem    elem
	dim     int
	n       int64 // records promised by a header; -1: read to the end
	length  int64 // what Len says
	prefix  bool  // each record begins with its dimension as an int32
	raw     []byte
	i       int64
	failure error
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
			return nil, s.bad(body/int64(width), s.size, fmt.Errorf("truncated: header promises %d records, the file holds %d: %w", n, body/int64(width), io.ErrUnexpectedEOF))
		} else if body > want {
			return nil, s.bad(n, s.offset+want, fmt.Errorf("%d bytes after the %d records promised by the header", body-want, n))
		}
	}
	f.raw = make([]byte, width)
	return f, nil
}

// Keyed implements Reader.
func (f *fixed) Keyed() bool { return false }

func (f *fixed) Dim() int     { return f.dim }
func (f *fixed) Len() int64   { return f.length }
func (f *fixed) Close() error { return f.src.Close() }

func (f *fixed) Read(rec *Record) error {
	if f.failure == nil {
		f.failure = f.read(rec)
	}
	return f.failure
}

func (f *fixed) read(rec *Record) error {
	start := f.src.offset
	if f.i == f.n {
		if err := f.src.end(f.i); err != nil {
			return err
		}
		return io.EOF
	}
	if err := f.src.readFull(f.raw); err != nil {
		if err == io.EOF && f.n < 0 {
			return io.EOF
		}
		// A last record with another dimension may end before this one
		// would: the dimension is then the better thing to complain about.
		if got := f.src.offset - start; f.prefix && got >= 4 {
			if err := f.checkDim(start); err != nil {
				return err
			}
		}
		return f.src.fail(f.i, err)
	}
	raw := f.raw
	if f.prefix {
		if err := f.checkDim(start); err != nil {
			return err
		}
		raw = raw[4:]
	}
	if cap(rec.Vector) < f.dim {
		rec.Vector = make([]float32, f.dim)
	}
	rec.Vector = rec.Vector[:f.dim]
	if err := f.elem.decode(rec.Vector, raw); err != nil {
		return f.src.bad(f.i, start, err)
	}
	rec.Key = strconv.AppendInt(rec.Key[:0], f.i, 10)
	rec.Labels = rec.Labels[:0]
	rec.Payload = rec.Payload[:0]
	f.i++
	return nil
}

// checkDim compares the dimension at the head of f.raw with the first one.
func (f *fixed) checkDim(start int64) error {
	if d := int32(binary.LittleEndian.Uint32(f.raw)); int(d) != f.dim {
		return f.src.bad(f.i, start, fmt.Errorf("dimension %d, the records before have %d", d, f.dim))
	}
	return nil
}

// openVecs reads fvecs, bvecs and ivecs. The first record's dimension, which
// all others must have, is looked at without taking it. Source: the format
// description of the TEXMEX corpus.
func openVecs(s *source, o Options, e elem) (Reader, error) {
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
	return newFixed(s, e, int(d), -1, true)
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
