package hdf5

import (
	"fmt"
	"math"
)

// Classes of layouts.
const (
	compact    = 0
	contiguous = 1
	chunked    = 2
	virtual    = 3
)

// layout is how the elements of an array are stored.
type layout struct {
	class int
	addr  uint64   // contiguous, or of the index of chunks
	size  uint64   // contiguous
	at    int64    // of the message in the file
	chunk []uint64 // shape of a chunk
}

// chunk is where a chunk is stored. Its address is undefined if it is not.
type chunk struct {
	addr uint64
	size uint64
	mask uint32 // bit i: filter i was not applied
}

// layoutMessage reads how the array is stored.
func (a *Array) layoutMessage(m *message) {
	l := &a.layout
	l.at = m.at
	v := m.uint(1)
	l.class = int(m.uint(1))
	switch {
	case m.err != nil:
	case l.class == virtual:
		a.unsupported("it is virtual: its elements are in other files (%s)", copyArray)
	case v != 3:
		a.unsupported("its layout has version %d, and only 3 is read (%s)", v, repack)
	case l.class == compact:
		a.unsupported("its layout is compact, and only contiguous and chunked ones are read (%s)", copyArray)
	case l.class == contiguous:
		l.addr, l.size = m.uint(8), m.uint(8)
	case l.class == chunked:
		rank := int(m.uint(1))
		l.addr = m.uint(8)
		if m.err == nil && (rank < 2 || rank > maxRank+1) {
			m.err = m.fault("chunks of %d dimensions", rank-1)
			return
		}
		for range rank - 1 { // the last one is the size of an element
			n := m.uint(4)
			if m.err == nil && n == 0 {
				m.err = m.fault("chunks of size %d", n)
			}
			l.chunk = append(l.chunk, n)
		}
	default:
		m.err = m.fault("layout of class %d", l.class)
	}
}

// shape checks the shapes and returns the number of bytes of a row, of a chunk, and the number of chunks
// in each dimension.
func (a *Array) shape() (row, chunkBytes uint64, grid []uint64, err error) {
	bad := func(format string, args ...any) error { return &Error{a.layout.at, fmt.Sprintf(format, args...)} }
	if len(a.Shape) == 0 {
		return 0, 0, nil, bad("%s is a scalar", a.Name)
	}
	row = uint64(a.Type.Size)
	for _, n := range a.Shape[1:] {
		if n == 0 || row > math.MaxInt32/n {
			return 0, 0, nil, bad("%s has rows of shape %d", a.Name, a.Shape[1:])
		}
		row *= n
	}
	if a.Shape[0] > math.MaxInt64/row {
		return 0, 0, nil, bad("%s has %d rows", a.Name, a.Shape[0])
	}
	if a.layout.class != chunked {
		return row, 0, nil, nil
	}
	if len(a.layout.chunk) != len(a.Shape) {
		return 0, 0, nil, bad("%s has %d dimensions, its chunks %d", a.Name, len(a.Shape), len(a.layout.chunk))
	}
	chunkBytes = uint64(a.Type.Size)
	total := uint64(1)
	for i, n := range a.layout.chunk {
		if chunkBytes > maxChunk/n {
			return 0, 0, nil, bad("%s has chunks of shape %d, more than %d bytes", a.Name, a.layout.chunk, maxChunk)
		}
		chunkBytes *= n
		in := (a.Shape[i] + n - 1) / n
		if in > 0 && total > uint64(a.file.size)/4/in {
			return 0, 0, nil, bad("%s has more chunks than the file has room for", a.Name)
		}
		total *= in
		grid = append(grid, in)
	}
	return row, chunkBytes, grid, nil
}

// findChunks reads the index of the array's chunks, a B-tree whose keys are sizes and places of chunks.
// They are numbered by their place in a grid.
func (a *Array) findChunks(grid []uint64) ([]chunk, error) {
	total := uint64(1)
	for _, n := range grid {
		total *= n
	}
	chunks := make([]chunk, total)
	for i := range chunks {
		chunks[i].addr = undefined
	}
	if total == 0 || a.layout.addr == undefined {
		return chunks, nil
	}
	err := a.file.tree(a.layout.addr, 1, 8+8*(len(grid)+1), func(key cursor, child uint64) error {
		c := chunk{addr: child, size: key.uint(4), mask: uint32(key.uint(4))}
		i := uint64(0)
		for d, n := range grid {
			at := key.uint(8)
			if at%a.layout.chunk[d] != 0 {
				return key.fault("a chunk at %d, where chunks have %d", at, a.layout.chunk[d])
			}
			if at /= a.layout.chunk[d]; at >= n {
				return key.fault("a chunk beyond the shape %d", a.Shape)
			}
			i = i*n + at
		}
		if key.err == nil && chunks[i].addr != undefined {
			return key.fault("two chunks in one place")
		}
		chunks[i] = c
		return key.err
	})
	return chunks, err
}
