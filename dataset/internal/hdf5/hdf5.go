// Package hdf5 reads arrays of numbers from HDF5 files as h5py writes them by default, which are those of
// ann-benchmarks: superblock 0, object headers 1, groups by symbol tables, arrays stored contiguously or in
// chunks by a B-tree of version 1, with the filters deflate and shuffle, of integers, IEEE floats and bools.
// It trusts nothing in a file: lengths are bounded by the size of the file, depths and counts by constants.
// Every other form is an error that names it and the command that converts the file.
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

	// repack and copyArray are the remedies for a file and for an array that cannot be read.
	repack    = `convert the file: h5repack --low=0 --high=1 old.h5 new.h5`
	copyArray = `copy the array with h5py: h5py.File("new.h5", "w")["x"] = h5py.File("old.h5")["x"][:]`
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

	r    io.ReaderAt
	size int64
}

// Open reads the list of arrays of a file of size bytes. Errors are *[Error], or those of r.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size}
	root, err := f.superblock()
	if err != nil {
		return nil, err
	}
	if err := f.walk(root); err != nil {
		return nil, err
	}
	return f, nil
}

// superblock reads the superblock and returns the address of the root group.
func (f *File) superblock() (root uint64, err error) {
	c := f.read(0, 9)
	if c.err == nil && string(c.b[:8]) != signature {
		c.err = &Error{0, "no HDF5 signature"}
	}
	c.bytes(8)
	if version := c.uint(1); c.err == nil && version != 0 {
		return 0, c.fault("superblock version %d, and only 0 is read (%s)", version, repack)
	}
	if c.err != nil {
		return 0, c.err
	}
	c = f.read(13, 2)
	if offsets, lengths := c.uint(1), c.uint(1); c.err == nil && (offsets != 8 || lengths != 8) {
		return 0, c.fault("addresses of %d and lengths of %d bytes, and only 8 are read (%s)", offsets,
			lengths, repack)
	}
	c = f.read(24, 48)
	base := c.uint(8)
	c.bytes(8) // free space
	end := c.uint(8)
	c.bytes(16) // driver, name of the root
	root = c.uint(8)
	switch {
	case c.err != nil:
	case base != 0:
		c.err = c.fault("addresses count from %d, and only 0 is read (%s)", base, repack)
	case end > uint64(f.size):
		c.err = c.fault("truncated: the superblock promises %d bytes, the file has %d", end, f.size)
	}
	return root, c.err
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
	c := cursor{f: f, at: int64(min(addr, uint64(f.size)))}
	switch {
	case addr > uint64(f.size) || n > uint64(f.size)-addr:
		c.err = c.fault("%d bytes at address %d are beyond the end of the file", n, addr)
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

// expect takes a signature.
func (c *cursor) expect(signature string) {
	if b := c.bytes(len(signature)); c.err == nil && string(b) != signature {
		c.pos -= len(signature)
		c.err = c.fault("%q, want %q", b, signature)
	}
}

// version takes a version of one byte.
func (c *cursor) version(of string, want uint64) {
	if v := c.uint(1); c.err == nil && v != want {
		c.err = c.fault("%s has version %d, and only %d is read (%s)", of, v, want, repack)
	}
}

// align skips to a multiple of 8 bytes from a position.
func (c *cursor) align(from int) { c.bytes(-(c.pos - from) & 7) }

// part cuts n bytes off as a cursor of their own.
func (c *cursor) part(n int) cursor {
	p := cursor{f: c.f, at: c.at + int64(c.pos), b: c.bytes(n)}
	p.err = c.err
	return p
}
