package hdf5

import (
	"fmt"
	"io"
	"slices"
)

const (
	// maxChunk bounds the bytes of a chunk, and of the chunks that hold the same rows.
	maxChunk = 1 << 30
	// readBytes is about how much of a contiguous array is read at a time.
	readBytes = 1 << 20
)

// Rows reads an array row by row.
type Rows struct {
	array  *Array
	width  uint64 // bytes of a row
	chunk  uint64 // bytes of a chunk
	grid   []uint64
	chunks []chunk
	next   uint64 // row
	block  []byte // rows from first on
	first  uint64
	held   uint64
}

// Rows begins to read an array. It checks that the file has all of it. Errors are *[Error], or those of
// the file.
func (a *Array) Rows() (*Rows, error) {
	if a.Unsupported != "" {
		return nil, &Error{a.layout.at, a.Name + " cannot be read: " + a.Unsupported}
	}
	r := &Rows{array: a}
	var err error
	if r.width, r.chunk, r.grid, err = a.shape(); err != nil {
		return nil, err
	}
	l := &a.layout
	want := r.width * a.Shape[0]
	room := uint64(a.file.size)
	switch {
	case l.class == chunked:
		return r, r.findChunks()
	case len(a.filters) > 0:
		return nil, &Error{l.at, a.Name + " has filters and no chunks"}
	case want > 0 && (l.addr > room || l.size > room-l.addr):
		return nil, a.fault("%d bytes at address %d are not in the file", l.size, l.addr)
	case l.size != want:
		return nil, a.fault("%d bytes stored for %d rows of %d bytes", l.size, a.Shape[0], r.width)
	}
	return r, nil
}

// fault makes an error of how the array is stored.
func (a *Array) fault(format string, args ...any) error {
	return &Error{a.layout.at, a.Name + ": " + fmt.Sprintf(format, args...)}
}

// findChunks finds the chunks and checks that all are there.
func (r *Rows) findChunks() (err error) {
	a := r.array
	if r.chunks, err = a.findChunks(r.grid); err != nil {
		return err
	}
	room := uint64(a.file.size)
	for i, c := range r.chunks {
		switch {
		case c.addr == undefined:
			return a.fault("chunk %d of %d is not in the file", i, len(r.chunks))
		case c.addr > room || c.size > room-c.addr:
			return a.fault("chunk %d is beyond the end of the file", i)
		case len(a.filters) == 0 && c.size != r.chunk, c.size > 2*r.chunk+1024, r.chunk > maxRatio*c.size:
			return a.fault("chunk %d has %d bytes for %d", i, c.size, r.chunk)
		}
	}
	if rows := min(a.Shape[0], a.layout.chunk[0]); rows*r.width > maxChunk {
		return a.fault("chunks of %d rows of %d bytes", rows, r.width)
	}
	return nil
}

// Next returns the bytes of the next row, which hold until the next call; io.EOF after the last.
func (r *Rows) Next() ([]byte, error) {
	if r.next == r.array.Shape[0] {
		return nil, io.EOF
	}
	if r.next == r.first+r.held {
		if err := r.load(); err != nil {
			return nil, err
		}
	}
	at := (r.next - r.first) * r.width
	r.next++
	return r.block[at : at+r.width], nil
}

// load reads the rows that follow.
func (r *Rows) load() error {
	a := r.array
	r.first = r.next
	left := a.Shape[0] - r.first
	if a.layout.class == contiguous {
		r.held = min(left, max(1, readBytes/r.width))
		r.block = sized(r.block, r.held*r.width)
		_, err := r.readAt(r.block, a.layout.addr+r.first*r.width)
		return err
	}
	r.held = min(left, a.layout.chunk[0])
	r.block = sized(r.block, r.held*r.width)
	perRow := len(r.chunks) / int(r.grid[0])
	from := int(r.first/a.layout.chunk[0]) * perRow
	for i := range perRow {
		if err := r.loadChunk(from + i); err != nil {
			return err
		}
	}
	return nil
}

func sized(b []byte, n uint64) []byte {
	if uint64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// readAt fills b from an address.
func (r *Rows) readAt(b []byte, addr uint64) (int, error) {
	at := int64(addr)
	n, err := r.array.file.r.ReadAt(b, at)
	if n < len(b) && (err == nil || err == io.EOF) {
		return n, &Error{at, "truncated"}
	}
	if n == len(b) {
		err = nil
	}
	return n, err
}

// loadChunk reads a chunk and copies what is in the array into the block.
func (r *Rows) loadChunk(i int) error {
	a := r.array
	c := r.chunks[i]
	b := make([]byte, c.size)
	if _, err := r.readAt(b, c.addr); err != nil {
		return err
	}
	// Where the chunk begins, in elements.
	rank := len(a.Shape)
	start := make([]uint64, rank)
	for d, k := rank-1, uint64(i); d >= 0; d-- {
		start[d] = k % r.grid[d] * a.layout.chunk[d]
		k /= r.grid[d]
	}
	b, err := unfilter(a.filters, c.mask, b, int(r.chunk))
	if err != nil {
		return &Error{int64(c.addr), fmt.Sprintf("%s: chunk %d: %v", a.Name, i, err)}
	}
	r.copyChunk(b, start)
	return nil
}

// copyChunk copies the lines of a chunk, along its last dimension, into the block.
func (r *Rows) copyChunk(b []byte, start []uint64) {
	a := r.array
	last := len(a.Shape) - 1
	size := uint64(a.Type.Size)
	line := a.layout.chunk[last] * size
	run := min(a.layout.chunk[last], a.Shape[last]-start[last]) * size
	at := slices.Clone(start) // of the line, in the array
	for from := uint64(0); from < uint64(len(b)); from += line {
		inside, to := true, uint64(0)
		for d, pos := range at {
			inside = inside && pos < a.Shape[d]
			if d == 0 {
				pos -= r.first
			}
			to = to*a.Shape[d] + pos
		}
		if inside {
			copy(r.block[to*size:], b[from:from+run])
		}
		for d := last - 1; d >= 0; d-- {
			if at[d]++; at[d] < start[d]+a.layout.chunk[d] {
				break
			}
			at[d] = start[d]
		}
	}
}
