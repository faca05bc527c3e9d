package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// maxIDXRank bounds the number of dimensions of an idx file: images with
// channels and frames have five.
const maxIDXRank = 8

// idxKinds maps the third byte of an idx file to its number type. Source: the
// format description on the MNIST page.
var idxKinds = map[byte]elemKind{
	0x08: kindU8, 0x09: kindI8, 0x0b: kindI16, 0x0c: kindI32, 0x0d: kindF32, 0x0e: kindF64,
}

// idxMagic reads the first four bytes of an idx file: two zeros, the number
// type, the number of dimensions.
func idxMagic(b []byte) (elem, bool) {
	if len(b) < 4 || b[0] != 0 || b[1] != 0 || b[3] < 1 || b[3] > maxIDXRank {
		return elem{}, false
	}
	kind, ok := idxKinds[b[2]]
	return elem{kind: kind, big: true}, ok
}

// idxHeader takes the header from s: number type and sizes.
func idxHeader(s *source) (elem, []uint64, error) {
	var head [4]byte
	if err := s.readFull(head[:]); err != nil {
		return elem{}, nil, s.fail(-1, err)
	}
	e, ok := idxMagic(head[:])
	if !ok {
		return elem{}, nil, s.bad(-1, 0, fmt.Errorf("wrong magic number % x: not an idx file", head))
	}
	sizes := make([]uint64, head[3])
	for i := range sizes {
		var b [4]byte
		if err := s.readFull(b[:]); err != nil {
			return elem{}, nil, s.fail(-1, err)
		}
		sizes[i] = uint64(binary.BigEndian.Uint32(b[:]))
	}
	return e, sizes, nil
}

// openIDX reads an idx file of two or more dimensions: the first counts the
// records, the others, multiplied, are the vector's dimensions.
func openIDX(s *source, o Options) (decoder, error) {
	e, sizes, err := idxHeader(s)
	if err != nil {
		return nil, err
	}
	if len(sizes) == 1 {
		return nil, s.bad(-1, 3, errors.New("one dimension: an idx file of labels, not of vectors"))
	}
	dim, err := product(sizes[1:], o.MaxDim)
	if err != nil {
		return nil, s.bad(-1, 8, err)
	}
	return newFixed(s, e, dim, int64(sizes[0]), false)
}
