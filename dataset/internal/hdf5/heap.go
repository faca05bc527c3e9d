package hdf5

import "math/bits"

// maxHeap bounds the bytes of a heap's blocks that are kept in memory.
const maxHeap = 64 << 20

// heap is a fractal heap: objects in blocks, whose sizes double from row to row of a table. The last
// rows of a table have tables of blocks instead.
type heap struct {
	*File
	at             uint64 // address of the header
	offset, length int    // bytes of the place and of the length of an object
	width          uint64 // blocks of a row
	start          uint64 // bytes of a block of the first two rows
	directRows     int    // rows that have blocks
	checksums      bool   // of blocks
	root           uint64 // address of the first block if there are no rows, otherwise of the table
	rows           int
	blocks         map[uint64][]byte // those that have been read, by address
	held           uint64            // their bytes
}

// heap reads the header of a fractal heap.
func (f *File) heap(addr uint64) (*heap, error) {
	c := f.checked(addr, uint64(26+12*f.lengths+3*f.offsets), "FRHP")
	c.version("heap", 0)
	h := &heap{File: f, at: addr, blocks: map[uint64][]byte{}}
	c.bytes(2) // bytes of the name of an object
	filters := c.uint(2)
	h.checksums = c.uint(1)&2 != 0
	c.uint(4) // the largest object in a block
	c.bytes(10*f.lengths + 2*f.offsets)
	h.width, h.start = c.uint(2), c.length()
	largest, bitsOfPlaces := c.length(), int(c.uint(2))
	c.bytes(2)
	h.root = c.addr()
	h.rows = int(c.uint(2))
	switch {
	case c.err != nil:
		return nil, c.err
	case filters != 0:
		return nil, c.fault("a heap with filters, which is not supported")
	case !powerOfTwo(h.width) || !powerOfTwo(h.start) || !powerOfTwo(largest) || largest < h.start ||
		largest > maxMetadata || bitsOfPlaces > 62 || h.rows > 62 ||
		log2(h.width)+log2(h.start)+h.rows > 62:
		return nil, c.fault("a heap of %d rows of %d blocks of %d to %d bytes", h.rows, h.width, h.start, largest)
	}
	h.directRows = log2(largest) - log2(h.start) + 2
	h.offset, h.length = (bitsOfPlaces+7)/8, (log2(largest)+7)/8
	return h, nil
}

func log2(powerOfTwo uint64) int { return bits.TrailingZeros64(powerOfTwo) }

// object returns the bytes of the object that a name leads to.
func (h *heap) object(name cursor) (cursor, error) {
	first := name.uint(1)
	if kind := first >> 4 & 3; name.err == nil && (first>>6 != 0 || kind != 0) {
		return name, name.fault("an object of a heap of kind %d, which is not supported", kind)
	}
	place, n := name.uint(h.offset), name.uint(h.length)
	if name.err != nil {
		return name, name.err
	}
	addr, rows := h.root, h.rows
	for from := uint64(0); ; {
		if rows == 0 {
			return h.inBlock(addr, from, h.start, place-from, n)
		}
		row, size, rowAt := 0, h.start, from
		for place-rowAt >= size*h.width {
			rowAt += size * h.width
			if row++; row > 1 {
				size *= 2
			}
			if row == rows {
				return name, name.fault("an object of a heap at %d, which has no block", place)
			}
		}
		column := (place - rowAt) / size
		table, err := h.block(addr, uint64(5+h.offsets+h.offset+rows*int(h.width)*h.offsets+4), "FHIB", from)
		if err != nil {
			return name, err
		}
		table.bytes((row*int(h.width) + int(column)) * h.offsets)
		addr, from = table.addr(), rowAt+column*size
		if table.err != nil {
			return name, table.err
		}
		if row < h.directRows {
			return h.inBlock(addr, from, size, place-from, n)
		}
		if rows = row - log2(h.width); rows < 1 {
			return name, name.fault("a heap with a table of no rows")
		}
	}
}

// inBlock returns n bytes from a place of a block.
func (h *heap) inBlock(addr, from, size, place, n uint64) (cursor, error) {
	c, err := h.block(addr, size, "FHDB", from)
	if err != nil {
		return c, err
	}
	if place < uint64(c.pos) || place > size || n > size-place {
		return c, c.fault("an object of %d bytes at %d of a block of %d", n, place, size)
	}
	c.pos = int(place)
	return c.part(int(n)), nil
}

// block reads a block or a table that begins at a place of the heap, and takes what precedes its contents.
func (h *heap) block(addr, size uint64, sign string, from uint64) (cursor, error) {
	prefix := 5 + h.offsets + h.offset
	known := h.blocks[addr]
	c := cursor{f: h.File, at: h.base + int64(min(addr, 1<<62)), b: known}
	if uint64(len(known)) != size {
		if h.held += size; h.held > maxHeap {
			return c, c.fault("a heap of more than %d bytes", maxHeap)
		}
		if c = h.read(addr, size); c.err != nil {
			return c, c.err
		}
		if err := h.verify(&c, sign, prefix); err != nil {
			return c, err
		}
		h.blocks[addr] = c.b
	}
	c.expect(sign)
	c.version("block of a heap", 0)
	owner, place := c.addr(), c.uint(h.offset)
	if c.err == nil && (owner != h.at || place != from) {
		c.err = c.fault("a block at %d of the heap at %d, want %d of %d", place, owner, from, h.at)
	}
	return c, c.err
}

// verify compares the checksum of a block, which is behind its prefix, or of a table, at its end.
func (h *heap) verify(c *cursor, sign string, prefix int) error {
	at := len(c.b) - 4
	if sign == "FHDB" {
		if at = prefix; !h.checksums {
			return nil
		}
	}
	if at < 0 || at+4 > len(c.b) {
		return c.fault("ends early")
	}
	sum := cursor{b: c.b[at:]}
	want := uint32(sum.uint(4))
	body := append([]byte(nil), c.b...)
	if clear(body[at : at+4]); sign == "FHIB" {
		body = body[:at]
	}
	if got := lookup3(body); got != want {
		return c.fault("checksum %#x, want %#x", got, want)
	}
	return nil
}
