package hdf5

import (
	"math"
	"math/bits"
	"slices"
)

// chunkIndex finds the chunks of an array.
type chunkIndex struct {
	*Array
	grid []uint64 // number of chunks in each dimension
	// widest is the same for the largest shape, by which chunks are numbered; the first is not used.
	widest []uint64
	bytes  uint64  // of a chunk
	chunks []chunk // by number within grid
}

// findChunks reads the index of the array's chunks.
func (a *Array) findChunks(grid []uint64, bytes uint64) ([]chunk, error) {
	x := &chunkIndex{Array: a, grid: grid, bytes: bytes}
	total := uint64(1)
	for i, n := range grid {
		total *= n
		if x.widest = append(x.widest, 0); i == 0 {
			continue
		}
		if a.most[i] == undefined {
			if a.layout.index == fixedIndex || a.layout.index == extensibleIndex || a.layout.index == implicitIndex {
				return nil, &Error{a.layout.at, a.Name +
					" can grow in another dimension than the first, which is not supported"}
			}
			continue
		}
		x.widest[i] = (a.most[i]-1)/a.layout.chunk[i] + 1
	}
	x.chunks = make([]chunk, total)
	for i := range x.chunks {
		x.chunks[i].addr = undefined
	}
	if total == 0 || a.layout.addr == undefined {
		return x.chunks, nil
	}
	var err error
	switch a.layout.index {
	case treeIndex:
		err = x.tree()
	case singleIndex:
		c := a.layout.single
		if c.addr = a.layout.addr; c.size == 0 {
			c.size = bytes
		}
		if total != 1 {
			return nil, &Error{a.layout.at, a.Name + " has one chunk for several"}
		}
		x.chunks[0] = c
	case implicitIndex:
		for i := range x.chunks {
			n, ok := x.number(uint64(i))
			if !ok || n > math.MaxInt64/bytes {
				return nil, &Error{a.layout.at, a.Name + " has chunks beyond its largest shape"}
			}
			x.chunks[i] = chunk{addr: a.layout.addr + n*bytes, size: bytes}
		}
	case fixedIndex:
		err = x.fixed()
	case extensibleIndex:
		err = x.extensible()
	case tree2Index:
		err = x.tree2()
	}
	return x.chunks, err
}

// number returns the number of a chunk by the largest shape from that by the present shape.
func (x *chunkIndex) number(i uint64) (n uint64, ok bool) {
	scale := uint64(1)
	for d := len(x.grid) - 1; d >= 0; d-- {
		at := i % x.grid[d]
		i /= x.grid[d]
		hi, lo := bits.Mul64(at, scale)
		n += lo
		if hi != 0 || n > math.MaxInt64 {
			return 0, false
		}
		if d > 0 {
			if hi, scale = bits.Mul64(scale, x.widest[d]); hi != 0 {
				return 0, false
			}
		}
	}
	return n, true
}

// tree reads a B-tree of version 1, whose keys are sizes and places of chunks.
func (x *chunkIndex) tree() error {
	rank := len(x.grid)
	return x.file.tree(x.layout.addr, 1, 8+8*(rank+1), func(key cursor, child uint64) error {
		c := chunk{addr: child, size: key.uint(4), mask: uint32(key.uint(4))}
		return x.put(&key, c, x.layout.chunk)
	})
}

// tree2 reads a B-tree of version 2.
func (x *chunkIndex) tree2() error {
	ones := slices.Repeat([]uint64{1}, len(x.grid))
	return x.file.tree2(x.layout.addr, func(kind uint64, record cursor) error {
		width := record.left() - 8*len(x.grid)
		switch kind {
		case chunkRecord, filteredRecord:
			x.width(&record, kind == filteredRecord, width)
		default:
			return record.fault("a record of type %d among chunks", kind)
		}
		if record.err != nil {
			return record.err
		}
		c := x.entry(&record, width)
		return x.put(&record, c, ones)
	})
}

// put puts a chunk in its place, whose coordinates follow in units of elements or chunks.
func (x *chunkIndex) put(key *cursor, c chunk, unit []uint64) error {
	i := uint64(0)
	for d, n := range x.grid {
		at := key.uint(8)
		if at%unit[d] != 0 {
			return key.fault("a chunk at %d, where chunks have %d", at, unit[d])
		}
		if at /= unit[d]; at >= n {
			return key.fault("a chunk beyond the shape %d", x.Shape)
		}
		i = i*n + at
	}
	if key.err == nil && x.chunks[i].addr != undefined {
		return key.fault("two chunks in one place")
	}
	x.chunks[i] = c
	return key.err
}

// entry takes the place of a chunk from a block of an index of version 4: an address, and with
// filters a size and a mask.
func (x *chunkIndex) entry(c *cursor, width int) chunk {
	e := chunk{addr: c.addr(), size: x.bytes}
	if n := width - x.file.offsets; n > 0 {
		e.size, e.mask = c.uint(n-4), uint32(c.uint(4))
	}
	return e
}

// width checks the number of bytes of an entry.
func (x *chunkIndex) width(c *cursor, filtered bool, n int) {
	o := x.file.offsets
	if c.err == nil && (filtered && (n < o+5 || n > o+12) || !filtered && n != o) {
		c.err = c.fault("entries of %d bytes", n)
	}
}

// place puts the entries of some numbers, which c has, in their places.
func (x *chunkIndex) place(c *cursor, numbers chunkNumbers, s span, width int) {
	for k := range s.n {
		e := x.entry(c, width)
		if i, ok := numbers.place[s.first+k]; ok && c.err == nil {
			x.chunks[i] = e
		}
	}
}

// chunkNumbers maps the numbers of chunks by the largest shape to their places by the present one.
type chunkNumbers struct {
	place map[uint64]int
	last  uint64 // the largest number
}

// numbers returns the numbers of the chunks.
func (x *chunkIndex) numbers() (chunkNumbers, error) {
	m := chunkNumbers{place: make(map[uint64]int, len(x.chunks))}
	for i := range x.chunks {
		n, ok := x.number(uint64(i))
		if !ok || n > uint64(x.file.size) {
			return m, &Error{x.layout.at, x.Name + " has chunks beyond its largest shape"}
		}
		m.place[n], m.last = i, max(m.last, n)
	}
	return m, nil
}

// fixed reads a fixed array.
func (x *chunkIndex) fixed() error {
	f := x.file
	numbers, err := x.numbers()
	if err != nil {
		return err
	}
	c := f.checked(x.layout.addr, uint64(12+f.lengths+f.offsets), "FAHD")
	c.version("fixed array", 0)
	filtered := c.uint(1) != 0
	width, pageBits, total := int(c.uint(1)), uint(c.uint(1)), c.length()
	block := c.addr()
	if x.width(&c, filtered, width); c.err != nil {
		return c.err
	}
	if numbers.last >= total || pageBits > 31 || total > uint64(f.size) {
		return c.fault("an index of %d chunks for chunk %d, in pages of 2^%d", total, numbers.last, pageBits)
	}
	prefix, page := uint64(6+f.offsets), uint64(1)<<pageBits
	if total <= page {
		c = f.checked(block, prefix+total*uint64(width)+4, "FADB")
		c.bytes(int(prefix) - 4)
		x.place(&c, numbers, span{0, total}, width)
		return c.err
	}
	pages := (total + page - 1) / page
	head := prefix + (pages+7)/8 + 4
	if c = f.checked(block, head, "FADB"); c.err != nil {
		return c.err
	}
	return x.pages(block+head, span{0, total}, numbers, width, page)
}

// span is a range of numbers of chunks.
type span struct{ first, n uint64 }

// pages reads the pages of a block at an address, as far as chunks go. The bits that precede them report
// which pages are there; where all chunks are, all pages are, and others have no valid checksum.
func (x *chunkIndex) pages(at uint64, s span, numbers chunkNumbers, width int, page uint64) error {
	for p := uint64(0); p < s.n && s.first+p <= numbers.last; p += page {
		n := min(page, s.n-p)
		c := x.file.checked(at, n*uint64(width)+4, "")
		if x.place(&c, numbers, span{s.first + p, n}, width); c.err != nil {
			return c.err
		}
		at += page*uint64(width) + 4
	}
	return nil
}
