// Package page reads the pages of a bbolt file without bbolt: with bounds-checked reads,
// trusting no byte. bbolt itself follows page numbers and offsets without checks, so a damaged
// file can crash it or make it loop.
//
// A page is a 16-byte header (id u64, flags u16, count u16, overflow u32), then count elements
// of 16 bytes, then keys and values; it extends over overflow further pages. Numbers are in the
// byte order of the machine that wrote the file. bbolt files, and ours, are little-endian on
// every supported platform; the magic number refuses others.
//
// The package knows bbolt's format only, not what the buckets of a database hold.
package page

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

const (
	// Size is the page size of the files that this project writes. Other sizes can be read.
	Size = 16 << 10
	// HeaderSize and ElementSize are the sizes of a page's header and of each of its elements.
	HeaderSize  = 16
	ElementSize = 16
)

// The types of pages, in the flags of a page's header.
const (
	Branch   uint16 = 0x01
	Leaf     uint16 = 0x02
	Freelist uint16 = 0x10
)

const (
	magic   = 0xED0CDAED
	version = 2

	// metaSize is the size of a meta page's header and content.
	metaSize = HeaderSize + 64

	minSize = 1 << 10
	maxSize = 1 << 20

	noFreelist = ^uint64(0)
)

// Reasons why a file cannot be read, see Error.
var (
	// ErrForeign means that the file was not written by bbolt.
	ErrForeign = errors.New("no bbolt file")
	// ErrVersion means that a meta page has an unknown version of bbolt's format.
	ErrVersion = errors.New("unknown version of bbolt's format")
	// ErrDamaged means that pages are damaged.
	ErrDamaged = errors.New("damaged pages")
	// ErrShort means that the file is shorter than its meta page states.
	ErrShort = errors.New("file is truncated")
)

// Error is the reason why a file cannot be read, with details.
type Error struct {
	Reason error // one of the errors of this package, or of one that uses it
	Offset int64 // position in the file, -1 if unknown
	Err    error // details
}

// Error returns the reason and its details.
func (e *Error) Error() string {
	if e.Offset >= 0 {
		return fmt.Sprintf("%v at file offset %d: %v", e.Reason, e.Offset, e.Err)
	}
	return fmt.Sprintf("%v: %v", e.Reason, e.Err)
}

// Unwrap returns the reason and the details.
func (e *Error) Unwrap() []error { return []error{e.Reason, e.Err} }

func refuse(reason error, format string, a ...any) error {
	return &Error{reason, -1, fmt.Errorf(format, a...)}
}

// Meta is the content of a meta page. It describes one committed state of the file.
type Meta struct {
	PageSize uint32
	Root     uint64 // first page of the root bucket
	Freelist uint64 // first page of the list of free pages
	High     uint64 // first page number that is not in use
	TxID     uint64 // number of the transaction that wrote it
}

// Offset returns the file offset of a page.
func (m Meta) Offset(page uint64) int64 { return int64(page) * int64(m.PageSize) }

// Bytes returns the least length of a file that holds all pages of the state.
func (m Meta) Bytes() int64 { return m.Offset(m.High) }

// Fits returns an *Error if a file of the length is too short for the state.
func (m Meta) Fits(length int64) error {
	if m.Bytes() > length {
		return refuse(ErrShort, "file has %d bytes, %d pages need more", length, m.High)
	}
	return nil
}

// ParseMeta reads a meta page from its first 80 bytes.
//
// Errors: *Error; io.ErrUnexpectedEOF.
func ParseMeta(b []byte) (m Meta, err error) {
	if len(b) < metaSize {
		return m, io.ErrUnexpectedEOF
	}
	b = b[HeaderSize:]
	le := binary.LittleEndian
	if le.Uint32(b) != magic {
		return m, refuse(ErrForeign, "magic number %#x", le.Uint32(b))
	}
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	if sum := le.Uint64(b[56:]); sum != h.Sum64() {
		return m, refuse(ErrDamaged, "meta checksum %#x, stored %#x", h.Sum64(), sum)
	}
	if v := le.Uint32(b[4:]); v != version {
		return m, refuse(ErrVersion, "page format %d", v)
	}
	m = Meta{
		PageSize: le.Uint32(b[8:]), Root: le.Uint64(b[16:]), Freelist: le.Uint64(b[32:]),
		High: le.Uint64(b[40:]), TxID: le.Uint64(b[48:]),
	}
	switch {
	case m.PageSize < minSize || m.PageSize > maxSize || m.PageSize&(m.PageSize-1) != 0:
		return m, refuse(ErrDamaged, "page size %d", m.PageSize)
	case m.High < 4 || m.High > 1<<48/uint64(m.PageSize):
		return m, refuse(ErrDamaged, "%d pages", m.High)
	case m.Root < 2 || m.Root >= m.High,
		m.Freelist != noFreelist && (m.Freelist < 2 || m.Freelist >= m.High):
		return m, refuse(ErrDamaged, "root page %d, freelist page %d of %d", m.Root, m.Freelist, m.High)
	}
	return m, nil
}

// Metas holds both meta pages of a file.
type Metas struct {
	Meta [2]Meta
	Err  [2]error // why a meta page cannot be used; nil if it can
}

// ReadMetas reads both meta pages. The offset of the second one is the page size, which the
// first one stores. If the first one is damaged, every page size that bbolt can have used is
// tried.
//
// Errors: *Error, io.ErrUnexpectedEOF, those of r.
func ReadMetas(r io.ReaderAt) (m Metas) {
	m.Meta[0], m.Err[0] = readMeta(r, 0)
	if m.Err[0] == nil {
		m.Meta[1], m.Err[1] = readMeta(r, int64(m.Meta[0].PageSize))
		return m
	}
	for size := int64(minSize); size <= maxSize; size *= 2 {
		second, err := readMeta(r, size)
		if err == nil && int64(second.PageSize) == size {
			m.Meta[1], m.Err[1] = second, nil
			return m
		}
		if size == Size || m.Err[1] == nil {
			m.Err[1] = err
		}
	}
	if m.Err[1] == nil {
		m.Err[1] = refuse(ErrDamaged, "no second meta page")
	}
	return m
}

func readMeta(r io.ReaderAt, at int64) (Meta, error) {
	buf := make([]byte, metaSize)
	if n, err := r.ReadAt(buf, at); n < len(buf) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Meta{}, fmt.Errorf("meta page at %d: %w", at, err)
	}
	return ParseMeta(buf)
}

// Valid returns the usable meta pages, the one of the later state first.
func (m *Metas) Valid() []Meta {
	var out []Meta
	for i, err := range m.Err {
		if err == nil {
			out = append(out, m.Meta[i])
		}
	}
	if len(out) == 2 && out[1].TxID > out[0].TxID {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// Latest returns the meta page of the latest state. The other one may be partly written. If
// none can be used, it returns the first error.
func (m *Metas) Latest() (Meta, error) {
	if valid := m.Valid(); len(valid) > 0 {
		return valid[0], nil
	}
	return Meta{}, m.Err[0]
}
