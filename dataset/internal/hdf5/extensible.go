package hdf5

import "math/bits"

// extensibleArray is an index of chunks that grows: an index block with the first elements, then data
// blocks of elements, the first of which the index block points to and others secondary blocks. The
// numbers of blocks and of their elements double in turn.
type extensibleArray struct {
	*chunkIndex
	numbers chunkNumbers
	width   int    // bytes of an element
	page    uint64 // elements of a page
	offset  int    // bytes of the offset of a block
}

// extensible reads an extensible array.
func (x *chunkIndex) extensible() error {
	f := x.file
	numbers, err := x.numbers()
	if err != nil {
		return err
	}
	c := f.checked(x.layout.addr, uint64(16+6*f.lengths+f.offsets), "EAHD")
	c.version("extensible array", 0)
	filtered := c.uint(1) != 0
	e := &extensibleArray{chunkIndex: x, numbers: numbers, width: int(c.uint(1))}
	maxBits, inIndex, minElems, minBlocks := uint(c.uint(1)), c.uint(1), c.uint(1), c.uint(1)
	pageBits := uint(c.uint(1))
	c.bytes(6 * f.lengths)
	block := c.addr()
	if x.width(&c, filtered, e.width); c.err != nil {
		return c.err
	}
	if maxBits > 62 || pageBits > 31 || !powerOfTwo(minElems) || !powerOfTwo(minBlocks) || minBlocks < 2 {
		return c.fault("an extensible array of 2^%d elements, pages of 2^%d, blocks of %d and %d",
			maxBits, pageBits, minElems, minBlocks)
	}
	e.page, e.offset = 1<<pageBits, int(maxBits+7)/8
	log := uint(bits.TrailingZeros64(minElems))
	if maxBits < log {
		return c.fault("an extensible array of 2^%d elements in blocks of %d", maxBits, minElems)
	}
	direct := 2 * bits.TrailingZeros64(minBlocks) // super blocks whose data blocks are in the index block
	supers := 1 + int(maxBits-log)
	dataBlocks := 2 * (minBlocks - 1)
	secondary := max(0, supers-direct)
	pointers := (dataBlocks + uint64(secondary)) * uint64(f.offsets)
	c = f.checked(block, uint64(6+f.offsets)+inIndex*uint64(e.width)+pointers+4, "EAIB")
	c.bytes(2 + f.offsets)
	x.place(&c, numbers, span{0, inIndex}, e.width)
	first := inIndex
	for s := 0; s < supers && c.err == nil && first <= numbers.last; s++ {
		blocks, elems := uint64(1)<<(s/2), minElems<<((s+1)/2)
		if s >= direct {
			err = e.secondary(c.addr(), first, blocks, elems)
			first += blocks * elems
		}
		for b := uint64(0); s < direct && b < blocks && err == nil; b++ {
			err = e.data(c.addr(), span{first, elems})
			first += elems
		}
		if err != nil {
			return err
		}
	}
	return c.err
}

func powerOfTwo(n uint64) bool { return bits.OnesCount64(n) == 1 }

// secondary reads a secondary block of data blocks of as many elements each.
func (e *extensibleArray) secondary(addr, first, blocks, elems uint64) error {
	if addr == undefined {
		return nil
	}
	f := e.file
	bitmap := uint64(0) // a bit for each page
	if elems > e.page {
		bitmap = (elems/e.page + 7) / 8
	}
	c := f.checked(addr, uint64(6+f.offsets+e.offset)+blocks*(bitmap+uint64(f.offsets))+4, "EASB")
	c.bytes(2 + f.offsets + e.offset + int(blocks*bitmap))
	for b := uint64(0); b < blocks && c.err == nil && first <= e.numbers.last; b++ {
		if err := e.data(c.addr(), span{first, elems}); err != nil {
			return err
		}
		first += elems
	}
	return c.err
}

// data reads a data block.
func (e *extensibleArray) data(addr uint64, s span) error {
	if addr == undefined {
		return nil
	}
	f := e.file
	prefix := uint64(6 + f.offsets + e.offset)
	if s.n > e.page {
		if c := f.checked(addr, prefix+4, "EADB"); c.err != nil {
			return c.err
		}
		return e.pages(addr+prefix+4, s, e.numbers, e.width, e.page)
	}
	c := f.checked(addr, prefix+s.n*uint64(e.width)+4, "EADB")
	c.bytes(int(prefix) - 4)
	e.place(&c, e.numbers, s, e.width)
	return c.err
}
