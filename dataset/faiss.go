package dataset

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"strconv"
)

// faissMark follows twice on the first 16 bytes of every index of FAISS.
const faissMark = 1 << 20

// faiss reads the vectors of an index of FAISS, and its ids as keys. Source: index_write.cpp of FAISS.
type faiss struct {
	src           *source
	head          faissHead
	lists         []faissList // still to be read
	left          int64       // rows of the present list
	vectors, keys *bufio.Reader
	keyed         bool
	raw           []byte
}

// faissHead is what every index begins with.
type faissHead struct {
	kind   string
	dim    int
	rows   uint64
	metric uint32
}

// faissList is a run of vectors, and of their ids.
type faissList struct {
	rows         uint64
	vectors, ids int64 // offsets
}

// isFAISS reports whether a file begins as an index of FAISS does.
func isFAISS(head []byte) bool {
	return len(head) >= 32 && binary.LittleEndian.Uint64(head[16:]) == faissMark &&
		binary.LittleEndian.Uint64(head[24:]) == faissMark
}

// openFAISS reads a flat index, one with ids, or one of inverted lists of vectors.
func openFAISS(s *source, o Options) (decoder, error) {
	f := &faissFile{src: s, maxDim: o.MaxDim}
	d := &faiss{src: s, head: f.index()}
	switch d.head.kind {
	case "IxMp", "IxM2":
		d.keyed = true
		d.lists = []faissList{f.flat(f.index())}
		if n := f.uint(8); n != d.head.rows || n != d.lists[0].rows {
			f.refuse("%d ids for %d vectors, and the header says %d", n, d.lists[0].rows, d.head.rows)
		}
		d.lists[0].ids = f.skip(d.head.rows, 8)
	case "IwFl":
		d.keyed = true
		d.lists = f.inverted(d.head)
	default:
		d.lists = []faissList{f.flat(d.head)}
	}
	if f.at != s.size {
		f.refuse("%d bytes after the index", s.size-f.at)
	}
	if f.err != nil {
		return nil, f.err
	}
	d.raw = make([]byte, 4*d.head.dim)
	d.vectors, d.keys = bufio.NewReaderSize(nil, bufferSize), bufio.NewReader(nil)
	return d, nil
}

func (d *faiss) schema() Schema {
	s := Schema{Kind: Dense, Dim: d.head.dim, Base: BaseZero, Records: int64(d.head.rows), Keyed: d.keyed}
	switch m := d.head.metric; m {
	case 0:
		s.Distance = "ip"
	case 1:
		s.Distance = "euclidean"
	default:
		s.Distance = fmt.Sprintf("FAISS metric %d", m)
	}
	return s
}

func (d *faiss) next(rec *Record, n int64) error {
	for d.left == 0 {
		if len(d.lists) == 0 {
			return io.EOF
		}
		l := d.lists[0]
		d.lists, d.left = d.lists[1:], int64(l.rows)
		d.vectors.Reset(io.NewSectionReader(d.src.at, l.vectors, d.left*int64(len(d.raw))))
		d.keys.Reset(io.NewSectionReader(d.src.at, l.ids, d.left*8))
	}
	d.left--
	if _, err := io.ReadFull(d.vectors, d.raw); err != nil {
		return d.src.fail(n, err)
	}
	if d.keyed {
		var id [8]byte
		if _, err := io.ReadFull(d.keys, id[:]); err != nil {
			return d.src.fail(n, err)
		}
		rec.Key = strconv.AppendInt(rec.Key[:0], int64(binary.LittleEndian.Uint64(id[:])), 10)
	}
	rec.Vector = resize(rec.Vector, d.head.dim)
	if err := (elem{kind: kindF32}).decodeF32(rec.Vector, d.raw); err != nil {
		return d.src.badRecord(n, -1, err)
	}
	return nil
}

// faissFile takes an index apart. After an error it gives zeros.
type faissFile struct {
	src    *source
	maxDim int
	at     int64
	r      *bufio.Reader // what begins at at; nil: not read yet
	err    error
}

// refuse sets the error unless there is one.
func (f *faissFile) refuse(format string, args ...any) {
	if f.err == nil {
		f.err = f.src.bad(-1, f.at, fmt.Errorf(format, args...))
	}
}

// bytes takes n bytes, at most 8.
func (f *faissFile) bytes(n int) []byte {
	b := make([]byte, 8)
	if f.err != nil {
		return b[:n]
	}
	if f.r == nil {
		f.r = bufio.NewReader(io.NewSectionReader(f.src.at, f.at, f.src.size-f.at))
	}
	if _, err := io.ReadFull(f.r, b[:n]); err != nil {
		f.src.offset = f.at
		f.err = f.src.fail(-1, err)
		clear(b)
	}
	f.at += int64(n)
	return b[:n]
}

// uint takes a number of size bytes.
func (f *faissFile) uint(size int) uint64 { return binary.LittleEndian.Uint64(f.bytes(size)[:8]) }

// skip passes n items of a size over, and returns their offset.
func (f *faissFile) skip(n, size uint64) (from int64) {
	over, length := bits.Mul64(n, size)
	switch {
	case f.err != nil:
	case over != 0 || length > uint64(f.src.size-f.at):
		f.refuse("%d items of %d bytes: the file is too short: %w", n, size, io.ErrUnexpectedEOF)
	default:
		from, f.r = f.at, nil
		f.at += int64(length)
	}
	return from
}

// index takes the head of an index.
func (f *faissFile) index() (h faissHead) {
	h.kind, h.dim, h.rows = string(f.bytes(4)), int(uint32(f.uint(4))), f.uint(8)
	if first, second := f.uint(8), f.uint(8); first != faissMark || second != faissMark {
		f.refuse("not an index of FAISS")
	}
	f.skip(1, 1) // whether it is trained
	if h.metric = uint32(f.uint(4)); h.metric > 1 {
		f.skip(1, 4) // its argument
	}
	if h.dim < 1 || h.dim > f.maxDim {
		f.refuse("dimension %d, want 1..%d", h.dim, f.maxDim)
		h.dim = 1
	}
	return h
}

// flat takes the vectors of a flat index, whose head has been taken.
func (f *faissFile) flat(h faissHead) faissList {
	switch h.kind {
	case "IxF2", "IxFI", "IxFl":
	default:
		f.refuse("an index of type %q: only flat and IVF-flat ones are read. In Python: "+
			`numpy.save("rows.npy", index.reconstruct_n(0, index.ntotal))`, h.kind)
	}
	width := uint64(4 * h.dim)
	if n := f.uint(8); n%uint64(h.dim) != 0 || n/uint64(h.dim) != h.rows {
		f.refuse("%d numbers for %d vectors of %d", n, h.rows, h.dim)
	}
	return faissList{rows: h.rows, vectors: f.skip(h.rows, width)}
}

// inverted takes what follows on the head of an index of inverted lists: the centroids, where each id is, and
// the lists, of which it returns those that are not empty.
func (f *faissFile) inverted(h faissHead) (lists []faissList) {
	n := f.uint(8)
	f.skip(1, 8) // the number of lists that a search looks at
	f.flat(f.index())
	direct := f.uint(1)
	f.skip(f.uint(8), 8)
	if direct == 2 {
		f.skip(f.uint(8), 16)
	}
	if kind := string(f.bytes(4)); kind != "ilar" {
		f.refuse("inverted lists of type %q: only those of one file are read. In Python: "+
			`numpy.save("rows.npy", index.reconstruct_n(0, index.ntotal))`, kind)
	}
	width := uint64(4 * h.dim)
	if again, size := f.uint(8), f.uint(8); again != n || size != width {
		f.refuse("%d lists of rows of %d bytes, want %d and %d", again, size, n, width)
	}
	sum := uint64(0)
	for _, rows := range f.sizes(n) {
		if sum += rows; rows > h.rows || sum > h.rows {
			break
		}
		l := faissList{rows: rows, vectors: f.skip(rows, width), ids: f.skip(rows, 8)}
		lists = append(lists, l)
	}
	if sum != h.rows {
		f.refuse("the inverted lists have not as many rows as the header says, %d", h.rows)
	}
	return lists
}

// sizes takes the number of rows of each of n lists, and returns those that are not zero.
func (f *faissFile) sizes(n uint64) (sizes []uint64) {
	kind, count, next := string(f.bytes(4)), f.uint(8), uint64(0)
	sparse := kind == "sprs" // pairs of a list and its size
	if kind != "full" && !sparse || !sparse && count != n || sparse && count%2 != 0 {
		f.refuse("%d sizes of type %q for %d lists", count, kind, n)
	}
	for ; count > 0 && f.err == nil; count-- {
		if sparse {
			list := f.uint(8)
			if list < next || list >= n {
				f.refuse("list %d of %d after list %d", list, n, next)
			}
			next = list + 1
			count--
		}
		if rows := f.uint(8); rows > 0 {
			sizes = append(sizes, rows)
		}
	}
	return sizes
}
