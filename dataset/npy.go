package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	npyMagic = "\x93NUMPY"
	// maxNPYHeader bounds the header's text. NumPy itself refuses to parse
	// more than 10,000 bytes unless told to.
	maxNPYHeader = 64 << 10
	// maxNPYRank is NumPy's own limit on the number of dimensions.
	maxNPYRank = 64
)

// npyKinds maps the type part of a NumPy descr to a number type. The bytes of bools are 0 and 1.
var npyKinds = map[string]elemKind{
	"b1": kindU8, "u1": kindU8, "u2": kindU16, "u4": kindU32, "u8": kindU64, "i1": kindI8, "i2": kindI16,
	"i4": kindI32, "i8": kindI64, "f2": kindF16, "f4": kindF32, "f8": kindF64,
}

// openNPY reads a NumPy array file of two or more dimensions: the first counts the records, the
// others, multiplied, are the vector's dimensions. An array of one dimension is one query.
// Source: NumPy's format description, NEP 1.
func openNPY(s *source, o Options) (decoder, error) {
	start, text, err := npyText(s)
	if err != nil {
		return nil, err
	}
	h, err := parseNPYHeader(text, o)
	if err == nil && h.fortran && (len(h.shape) > 2 || s.at == nil) {
		err = errors.New("the array is in Fortran order, which is read from an " +
			"uncompressed file of two dimensions; save numpy.ascontiguousarray of it")
	}
	switch {
	case err != nil:
		return nil, s.bad(-1, start, err)
	case h.fortran:
		return newColumns(s, h.elem, h.dim, int64(h.shape[0]))
	}
	return newFixed(s, h.elem, h.dim, int64(h.shape[0]), false)
}

// npyText takes the magic number, the version and the header's text from s.
func npyText(s *source) (start int64, text string, err error) {
	var head [10]byte
	if err := s.readFull(head[:]); err != nil {
		return 0, "", s.fail(-1, err)
	}
	if string(head[:6]) != npyMagic {
		return 0, "", s.bad(-1, 0, fmt.Errorf("wrong magic number % x: not a npy file", head[:6]))
	}
	length := uint64(binary.LittleEndian.Uint16(head[8:]))
	switch major := head[6]; major {
	case 1:
	case 2, 3: // four length bytes; 3 differs from 2 only in allowing UTF-8 names
		var more [2]byte
		if err := s.readFull(more[:]); err != nil {
			return 0, "", s.fail(-1, err)
		}
		length |= uint64(binary.LittleEndian.Uint16(more[:])) << 16
	default:
		return 0, "", s.bad(-1, 6, fmt.Errorf("npy version %d, want 1, 2 or 3", major))
	}
	if length > maxNPYHeader {
		return 0, "", s.bad(-1, 8, fmt.Errorf("header of %d bytes, want at most %d", length, maxNPYHeader))
	}
	b := make([]byte, length)
	start = s.offset
	if err := s.readFull(b); err != nil {
		return 0, "", s.fail(-1, err)
	}
	return start, string(b), nil
}

// npyElem reads a descr such as "<f4"; a "|" means no byte order.
func npyElem(descr string) (elem, error) {
	if len(descr) == 3 {
		kind, ok := npyKinds[descr[1:]]
		e := elem{kind: kind, big: descr[0] == '>'}
		if ok && (strings.IndexByte("<>", descr[0]) >= 0 || descr[0] == '|' && e.size() == 1) {
			return e, nil
		}
	}
	return elem{}, fmt.Errorf("number type %.40q, want a float, an integer or a bool", descr)
}

// npyHeader has the values of the dictionary of a npy file, a literal of Python.
type npyHeader struct {
	elem    elem
	shape   []uint64 // records first
	dim     int
	fortran bool // the columns are stored one after the other
}

// npyFields match the values of the dictionary, which have any order.
var npyFields = [3]*regexp.Regexp{
	regexp.MustCompile(`["']descr["']\s*:\s*["']([^"']*)["']`),
	regexp.MustCompile(`["']fortran_order["']\s*:\s*(True|False)`),
	regexp.MustCompile(`["']shape["']\s*:\s*\(([^()]*)\)`),
}

func parseNPYHeader(text string, o Options) (h npyHeader, err error) {
	var values [3]string
	for i, field := range npyFields {
		m := field.FindStringSubmatch(text)
		if m == nil {
			return h, fmt.Errorf("npy header %.60q, want descr as a text, fortran_order and shape", text)
		}
		values[i] = m[1]
	}
	if h.elem, err = npyElem(values[0]); err != nil {
		return h, err
	}
	for size := range strings.SplitSeq(values[2], ",") {
		size = strings.TrimSuffix(strings.TrimSpace(size), "L") // of Python 2
		if size == "" {
			continue // behind the last comma
		}
		n, err := strconv.ParseUint(size, 10, 63)
		if err != nil || len(h.shape) == maxNPYRank {
			return h, fmt.Errorf("npy header: size %.20q, dimension %d of at most %d",
				size, len(h.shape)+1, maxNPYRank)
		}
		h.shape = append(h.shape, n)
	}
	if len(h.shape) == 1 && o.Queries {
		h.shape = []uint64{1, h.shape[0]}
	}
	if len(h.shape) < 2 {
		return h, fmt.Errorf("the array has %d dimensions, want rows and columns", len(h.shape))
	}
	h.dim, err = product(h.shape[1:], o.MaxDim)
	h.fortran = values[1] == "True" && h.dim > 1 && (h.shape[0] > 1 || len(h.shape) > 2)
	return h, err
}

// npyEncoder writes version 1, little-endian float32, C order.
type npyEncoder struct{ dim int }

// npyHeaderLength is that of a whole header: a multiple of 64, as NumPy aligns
// the data, with room for the largest shape.
const npyHeaderLength = 128

func newNPYEncoder(s Schema) (encoder, error) { return npyEncoder{s.Dim}, nil }

func (e npyEncoder) header(n int64) ([]byte, bool) {
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, e.dim)
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, npyHeaderLength-10)
	b = append(b, text...)
	b = append(b, bytes.Repeat([]byte(" "), npyHeaderLength-1-len(b))...)
	return append(b, '\n'), true
}

func (npyEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	return appendFloats(dst, rec.Vector), nil
}
