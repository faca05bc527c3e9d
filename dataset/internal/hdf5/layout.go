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

// Kinds of chunk indexes.
const (
	treeIndex       = 0 // a B-tree of version 1
	singleIndex     = 1
	implicitIndex   = 2
	fixedIndex      = 3
	extensibleIndex = 4
	tree2Index      = 5 // a B-tree of version 2
)

// layout is how the elements of an array are stored.
type layout struct {
	class int
	data  []byte // compact
	addr  uint64 // contiguous, or of the index
	size  uint64 // contiguous
	at    int64  // of the message in the file

	chunk    []uint64 // shape of a chunk
	index    int
	rawEdges bool  // chunks that reach beyond the array are not filtered
	single   chunk // the only one
}

// chunk is where a chunk is stored. Its address is undefined if it is not.
type chunk struct {
	addr uint64
	size uint64
	mask uint32 // bit i: filter i was not applied
}

// layoutMessage reads how the array is stored.
func (a *Array) layoutMessage(m *message) {
	a.layout.at = m.at
	v := m.uint(1)
	if m.err == nil && v != 3 && v != 4 {
		a.unsupported("its layout has version %d", v)
		return
	}
	a.layout.class = int(m.uint(1))
	switch a.layout.class {
	case compact:
		a.layout.data = m.bytes(int(m.uint(2)))
	case contiguous:
		a.layout.addr, a.layout.size = m.addr(), m.length()
	case chunked:
		if v == 3 {
			rank := int(m.uint(1))
			a.layout.addr = m.addr()
			a.chunkShape(m, rank, 4)
		} else {
			a.chunks4(m)
		}
	case virtual:
		a.unsupported("it is virtual: its elements are in other files")
	default:
		a.unsupported("its layout is of class %d", a.layout.class)
	}
}

// chunkShape reads the shape of a chunk, whose last dimension is the size of an element.
func (a *Array) chunkShape(m *message, rank, width int) {
	if m.err == nil && (rank < 2 || rank > maxRank+1) {
		m.err = m.fault("chunks of %d dimensions", rank-1)
	}
	if m.err != nil {
		return
	}
	for range rank - 1 {
		n := m.uint(width)
		if m.err == nil && (n == 0 || n > math.MaxUint32) {
			m.err = m.fault("chunks of size %d", n)
		}
		a.layout.chunk = append(a.layout.chunk, n)
	}
	m.uint(width)
}

// chunks4 reads the layout of chunks in version 4.
func (a *Array) chunks4(m *message) {
	l := &a.layout
	flags := m.uint(1)
	l.rawEdges = flags&1 != 0
	rank, width := int(m.uint(1)), int(m.uint(1))
	if m.err == nil && (width < 1 || width > 8) {
		m.err = m.fault("numbers of %d bytes", width)
	}
	a.chunkShape(m, rank, width)
	switch l.index = int(m.uint(1)); l.index {
	case singleIndex:
		if flags&2 != 0 {
			l.single.size, l.single.mask = m.length(), uint32(m.uint(4))
		}
	case implicitIndex:
	case fixedIndex:
		m.bytes(1) // what its header says as well
	case extensibleIndex:
		m.bytes(5)
	case tree2Index:
		m.bytes(6)
	default:
		a.unsupported("its chunks have an index of kind %d", l.index)
		return
	}
	l.addr = m.addr()
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
