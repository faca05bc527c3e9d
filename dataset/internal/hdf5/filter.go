package hdf5

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
)

// Filters by their registered numbers.
const (
	deflate = 1
	shuffle = 2
)

// otherFilters names filters that are not read. Source: the list of registered filters of The HDF Group.
var otherFilters = map[uint64]string{
	3: "fletcher32", 4: "szip", 5: "nbit", 6: "scale-offset",
	305: "lzo", 307: "bzip2", 32000: "lzf", 32001: "blosc",
	32004: "lz4", 32008: "bitshuffle", 32013: "zfp", 32015: "zstd", 32026: "blosc2",
}

// maxRatio is more than deflate can compress: a byte holds at most 1,032.
const maxRatio = 1040

// filter is one of an array's filters, in the order in which a chunk was written.
type filter struct {
	id   uint64
	size int // of an element that shuffle takes apart
}

// filterMessage reads the filters of an array.
func (a *Array) filterMessage(m *message) {
	m.version("filters", 1)
	n := m.uint(1)
	m.bytes(6)
	for range n {
		id := m.uint(2)
		name := int(m.uint(2))
		m.bytes(2) // flags
		values := int(m.uint(2))
		from := m.pos
		m.bytes(name)
		m.align(from)
		f := filter{id: id, size: 1}
		for i := range values {
			if x := m.uint(4); i == 0 && id == shuffle {
				f.size = int(x)
			}
		}
		if values%2 == 1 {
			m.bytes(4)
		}
		switch {
		case m.err != nil:
			return
		case id != deflate && id != shuffle:
			a.unsupported("its chunks have the filter %s, and only gzip and shuffle are read (%s)",
				cmp.Or(otherFilters[id], fmt.Sprint(id)), copyArray)
		case f.size < 1:
			m.err = m.fault("shuffled elements of %d bytes", f.size)
		}
		a.filters = append(a.filters, f)
	}
}

// unfilter undoes the filters of a chunk of want bytes. mask has the bits of filters that were not applied.
func unfilter(filters []filter, mask uint32, b []byte, want int) ([]byte, error) {
	for i := len(filters) - 1; i >= 0; i-- {
		f := filters[i]
		if i < 32 && mask>>i&1 != 0 {
			continue
		}
		switch f.id {
		case shuffle:
			b = unshuffle(b, f.size)
		case deflate:
			z, err := zlib.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, err
			}
			var out bytes.Buffer
			out.Grow(min(want, maxRatio*len(b)) + 512)
			if _, err := io.Copy(&out, io.LimitReader(z, int64(want)+1)); err != nil {
				return nil, err
			}
			b = out.Bytes()
		}
	}
	if len(b) != want {
		return nil, fmt.Errorf("a chunk of %d bytes, want %d", len(b), want)
	}
	return b, nil
}

// unshuffle puts the bytes of elements together: stored are the first bytes of all, then the second ones.
func unshuffle(b []byte, size int) []byte {
	n := len(b) / size
	if size == 1 || n <= 1 {
		return b
	}
	out := make([]byte, len(b))
	for j := range size {
		for i, c := range b[j*n : (j+1)*n] {
			out[i*size+j] = c
		}
	}
	copy(out[n*size:], b[n*size:])
	return out
}
