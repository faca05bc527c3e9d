// Package hdf5 reads arrays of numbers from HDF5 files: what h5py writes for the sets of
// ann-benchmarks, by any version of the library. It trusts nothing in a file: lengths are bounded by
// the size of the file, depths and counts by constants, and checksums are verified where there are any.
//
// It reads superblocks 0 to 3, object headers 1 and 2, groups by symbol tables, link messages and links in
// fractal heaps, arrays stored contiguously, compactly and in chunks by any index, with the filters
// deflate, shuffle and fletcher32, of integers and IEEE floats of both byte orders. It reads no other
// types, no filtered heaps, and no links that a heap stores outside of its blocks (of 4,000 bytes).
//
// Source: HDF5 File Format Specification, version 3.0.
package hdf5

import (
	"fmt"
	"io"
)

const (
	signature = "\x89HDF\r\n\x1a\n"
	// undefined is the address of what is not in the file.
	undefined = 1<<64 - 1
	// maxMetadata bounds one piece of metadata, in bytes.
	maxMetadata = 16 << 20
	// maxObjects bounds the number of groups and arrays of a file.
	maxObjects = 10000
	// maxDepth bounds how deep groups are nested.
	maxDepth = 16
	// maxRank is the library's bound on the number of dimensions.
	maxRank = 32
)

// Error describes what is wrong in a file, and where.
type Error struct {
	Offset int64 // of the faulty part in the file
	Text   string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// File is an open file.
type File struct {
	// Arrays are the data sets of the file in the order of their names.
	Arrays []*Array
	// Attributes are those of the root group that are texts.
	Attributes map[string]string

	r       io.ReaderAt
	size    int64
	base    int64 // offset of the superblock, from which addresses count
	offsets int   // bytes of an address
	lengths int   // bytes of a length
}

// Open reads the list of arrays of a file of size bytes. Errors are *[Error], or those of r.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, offsets: 8, lengths: 8}
	root, err := f.superblock()
	if err != nil {
		return nil, err
	}
	if err := f.walk(root); err != nil {
		return nil, err
	}
	return f, nil
}

// superblock finds and reads the superblock and returns the address of the root group. A block of the
// user may precede it, of 512 bytes or a power of two times that.
func (f *File) superblock() (root uint64, err error) {
	for f.base = 0; ; f.base = max(512, 2*f.base) {
		c := f.read(0, uint64(len(signature)))
		if c.err == nil && string(c.b) == signature {
			break
		}
		if f.base >= f.size {
			return 0, &Error{0, "no HDF5 signature"}
		}
	}
	c := f.read(8, 1)
	version := c.uint(1)
	switch {
	case c.err != nil:
		return 0, c.err
	case version > 3:
		return 0, c.fault("superblock version %d, want 0 to 3", version)
	case version >= 2:
		return f.superblock2()
	}
	c = f.read(8, 16)
	c.bytes(5)
	f.offsets, f.lengths = int(c.uint(1)), int(c.uint(1))
	if err := f.widths(&c); err != nil {
		return 0, err
	}
	from := uint64(24)
	if version == 1 {
		from += 4 // the rank of chunk trees
	}
	c = f.read(from, uint64(6*f.offsets))
	c.bytes(2 * f.offsets) // base, free space
	end := c.addr()
	c.bytes(2 * f.offsets) // driver, name of the root
	root = c.addr()
	return root, f.ends(&c, end)
}

// superblock2 reads a superblock of version 2 or 3.
func (f *File) superblock2() (root uint64, err error) {
	c := f.read(9, 2)
	f.offsets, f.lengths = int(c.uint(1)), int(c.uint(1))
	if err := f.widths(&c); err != nil {
		return 0, err
	}
	c = f.checked(0, uint64(16+4*f.offsets), signature)
	c.bytes(4 + 2*f.offsets) // version, widths, flags; base, extension
	end := c.addr()
	root = c.addr()
	return root, f.ends(&c, end)
}

// widths checks the number of bytes of addresses and lengths.
func (f *File) widths(c *cursor) error {
	for _, n := range []int{f.offsets, f.lengths} {
		if c.err == nil && n != 4 && n != 8 {
			return c.fault("addresses or lengths of %d bytes, want 4 or 8", n)
		}
	}
	return c.err
}

// ends checks that the file is as long as the superblock says.
func (f *File) ends(c *cursor, end uint64) error {
	if c.err == nil && (end > uint64(f.size) || end == undefined) {
		return c.fault("truncated: the superblock promises %d bytes, the file has %d", end, f.size)
	}
	return c.err
}

// cursor takes numbers from a part of the file. After an error they are 0.
type cursor struct {
	f   *File
	at  int64 // offset of b in the file
	b   []byte
	pos int
	err error
}

// read reads n bytes of metadata at an address.
func (f *File) read(addr, n uint64) cursor {
	c := cursor{f: f, at: f.base + int64(min(addr, 1<<62))}
	room := f.size - f.base
	switch {
	case room < 0 || addr > uint64(room) || n > uint64(room)-addr:
		text := fmt.Sprintf("%d bytes at address %d are beyond the end of the file", n, addr)
		c.err = &Error{min(c.at, f.size), text}
	case n > maxMetadata:
		c.err = c.fault("%d bytes of metadata", n)
	default:
		c.b = make([]byte, n)
		if _, err := f.r.ReadAt(c.b, c.at); err != nil && err != io.EOF {
			c.err = err
		}
	}
	return c
}

// checked reads n bytes that begin with a signature and end in a checksum, verifies both, and leaves
// the rest to the cursor.
func (f *File) checked(addr, n uint64, signature string) cursor {
	c := f.read(addr, n)
	if c.err != nil {
		return c
	}
	c.expect(signature)
	if len(c.b) < len(signature)+4 {
		c.err = c.fault("%d bytes are too few", n)
	}
	if c.err != nil {
		return c
	}
	body := c.b[:len(c.b)-4]
	sum := cursor{b: c.b[len(body):]}
	if want, got := uint32(sum.uint(4)), lookup3(body); want != got {
		c.err = c.fault("checksum %#x, want %#x", got, want)
	}
	c.b = body
	return c
}

// fault makes an error at the cursor.
func (c *cursor) fault(format string, args ...any) error {
	return &Error{c.at + int64(c.pos), fmt.Sprintf(format, args...)}
}

// left is the number of bytes left.
func (c *cursor) left() int { return len(c.b) - c.pos }

// bytes takes n bytes; nil, and an error in c, if there are fewer.
func (c *cursor) bytes(n int) []byte {
	if c.err == nil && (n < 0 || n > c.left()) {
		c.err = c.fault("ends early")
	}
	if c.err != nil {
		return nil
	}
	c.pos += n
	return c.b[c.pos-n : c.pos]
}

// uint takes a number of n bytes.
func (c *cursor) uint(n int) (v uint64) {
	b := c.bytes(n)
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// addr takes an address.
func (c *cursor) addr() uint64 {
	v := c.uint(c.f.offsets)
	if c.f.offsets == 4 && v == 1<<32-1 {
		return undefined
	}
	return v
}

// length takes a length.
func (c *cursor) length() uint64 { return c.uint(c.f.lengths) }

// expect takes a signature.
func (c *cursor) expect(signature string) {
	if b := c.bytes(len(signature)); c.err == nil && string(b) != signature {
		c.pos -= len(signature)
		c.err = c.fault("%q, want %q", b, signature)
	}
}

// version takes a version of one byte, which must be one of some.
func (c *cursor) version(of string, want ...uint64) uint64 {
	v := c.uint(1)
	for _, w := range want {
		if v == w {
			return v
		}
	}
	if c.err == nil {
		c.err = c.fault("%s has version %d, want one of %d", of, v, want)
	}
	return v
}

// align skips to a multiple of 8 bytes from a position.
func (c *cursor) align(from int) { c.bytes(-(c.pos - from) & 7) }

// part cuts n bytes off as a cursor of their own.
func (c *cursor) part(n int) cursor {
	p := cursor{f: c.f, at: c.at + int64(c.pos), b: c.bytes(n)}
	p.err = c.err
	return p
}
