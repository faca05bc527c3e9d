package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
	h, err := parseNPYHeader(text)
	if err != nil {
		return nil, s.bad(-1, start, err)
	}
	e, err := npyElem(h.descr)
	if err != nil {
		return nil, s.bad(-1, start, err)
	}
	if len(h.shape) == 1 && o.Queries {
		h.shape, h.fortran = []uint64{1, h.shape[0]}, false
	}
	if len(h.shape) < 2 {
		return nil, s.bad(-1, start, fmt.Errorf("the array has %d dimensions, want rows and columns", len(h.shape)))
	}
	if h.shape[0] > math.MaxInt64 {
		return nil, s.bad(-1, start, fmt.Errorf("%d records", h.shape[0]))
	}
	dim, err := product(h.shape[1:], o.MaxDim)
	if err != nil {
		return nil, s.bad(-1, start, err)
	}
	if !h.fortran || h.shape[0] == 1 && len(h.shape) == 2 || dim == 1 {
		return newFixed(s, e, dim, int64(h.shape[0]), false)
	}
	if len(h.shape) > 2 || s.at == nil {
		return nil, s.bad(-1, start, errors.New("the array is in Fortran order, which is read from an "+
			"uncompressed file of two dimensions; save numpy.ascontiguousarray of it"))
	}
	return newColumns(s, e, dim, int64(h.shape[0]))
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

// npyElem reads a descr such as "<f4".
func npyElem(descr string) (elem, error) {
	if len(descr) == 3 {
		kind, ok := npyKinds[descr[1:]]
		e := elem{kind: kind, big: descr[0] == '>'}
		switch descr[0] {
		case '<', '>':
			if ok {
				return e, nil
			}
		case '|': // no byte order: only single bytes
			if ok && e.size() == 1 {
				return e, nil
			}
		}
	}
	return elem{}, fmt.Errorf("number type %.40q, want a float, an integer or a bool", descr)
}

// npyHeader is the content of a npy file's dictionary.
type npyHeader struct {
	descr   string
	fortran bool
	shape   []uint64
}

// parseNPYHeader reads the header's text: a Python dictionary literal with
// exactly the keys descr, fortran_order and shape, in any order.
func parseNPYHeader(text string) (npyHeader, error) {
	p := npyParser{rest: text}
	var h npyHeader
	seen := map[string]bool{}
	p.expect("{")
	for p.err == nil && !p.accept("}") {
		key := p.str()
		p.expect(":")
		if p.err != nil {
			break
		}
		if seen[key] {
			p.fail("key %q twice", key)
		}
		seen[key] = true
		switch key {
		case "descr":
			h.descr = p.str()
		case "fortran_order":
			h.fortran = p.boolean()
		case "shape":
			h.shape = p.tuple()
		default:
			p.fail("unknown key %.40q", key)
		}
		if !p.accept(",") {
			p.expect("}")
			break
		}
	}
	if p.space(); p.err == nil && p.rest != "" {
		p.fail("text after the dictionary")
	}
	if p.err == nil && len(seen) != 3 {
		p.fail("keys missing, want descr, fortran_order and shape")
	}
	return h, p.err
}

// npyParser consumes rest and keeps the first error.
type npyParser struct {
	rest string
	err  error
}

func (p *npyParser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("npy header: "+format, args...)
	}
}

func (p *npyParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *npyParser) accept(token string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, token)
	if ok && p.err == nil {
		p.rest = rest
		return true
	}
	return false
}

func (p *npyParser) expect(token string) {
	if !p.accept(token) {
		p.fail("want %q at %.20q", token, p.rest)
	}
}

// str reads a quoted string without escapes; none of the keys or types that
// are accepted has any.
func (p *npyParser) str() string {
	p.space()
	if p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		if end := strings.IndexByte(p.rest[1:], p.rest[0]); end >= 0 {
			s := p.rest[1 : 1+end]
			p.rest = p.rest[end+2:]
			return s
		}
	}
	p.fail("want a string at %.20q", p.rest)
	return ""
}

func (p *npyParser) boolean() bool {
	if p.accept("True") {
		return true
	}
	p.expect("False")
	return false
}

// tuple reads a tuple of sizes; Python 2 wrote long integers with an L.
func (p *npyParser) tuple() []uint64 {
	var t []uint64
	p.expect("(")
	for p.err == nil && !p.accept(")") {
		p.space()
		digits := 0
		for digits < len(p.rest) && p.rest[digits] >= '0' && p.rest[digits] <= '9' {
			digits++
		}
		n, err := strconv.ParseUint(p.rest[:digits], 10, 64)
		if err != nil {
			p.fail("want a size at %.20q", p.rest)
			return nil
		}
		p.rest = p.rest[digits:]
		p.accept("L")
		if t = append(t, n); len(t) > maxNPYRank {
			p.fail("more than %d dimensions", maxNPYRank)
		}
		if !p.accept(",") {
			p.expect(")")
			break
		}
	}
	return t
}

// npyEncoder writes version 1, little-endian float32, C order.
type npyEncoder struct{ dim int }

// npyHeaderLength is that of a whole header: a multiple of 64, as NumPy aligns
// the data, with room for the largest shape.
const npyHeaderLength = 128

func newNPYEncoder(s Schema) (encoder, error) { return npyEncoder{s.Dim}, nil }

func (npyEncoder) counted() bool { return true }

func (e npyEncoder) header(n int64) ([]byte, error) {
	text := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", n, e.dim)
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, npyHeaderLength-10)
	b = append(b, text...)
	b = append(b, bytes.Repeat([]byte(" "), npyHeaderLength-1-len(b))...)
	return append(b, '\n'), nil
}

func (npyEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	return appendFloats(dst, rec.Vector), nil
}
