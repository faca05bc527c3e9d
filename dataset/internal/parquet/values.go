package parquet

import (
	"errors"
	"math/bits"
)

var errShort = errors.New("a page ends within its values")

// sizes are the bytes of values of fixed size.
var sizes = map[int]int{Int32: 4, Int64: 8, Int96: 12, Float: 4, Double: 8}

// littleEndian reads up to eight bytes.
func littleEndian(b []byte) (v uint64) {
	for i := len(b) - 1; i >= 0; i-- {
		v = v<<8 | uint64(b[i])
	}
	return v
}

// levels decodes the hybrid of runs and packed bits that levels and indexes have. The zero value is 0
// for ever, as levels of which the largest is 0 are.
type levels struct {
	b      []byte
	width  int // bits of a number
	left   uint64
	value  int    // of a run
	packed []byte // of a run of packed numbers
	bit    uint64
}

// newLevels decodes numbers of at most most.
func newLevels(b []byte, most int) levels { return levels{b: b, width: bits.Len(uint(most))} }

func (l *levels) next() (int, error) {
	if l.width == 0 {
		return 0, nil
	}
	for l.left == 0 {
		if err := l.run(); err != nil {
			return 0, err
		}
	}
	l.left--
	if l.packed == nil {
		return l.value, nil
	}
	at := l.bit / 8
	v := littleEndian(l.packed[at:min(at+5, uint64(len(l.packed)))]) >> (l.bit % 8) & (1<<l.width - 1)
	l.bit += uint64(l.width)
	return int(v), nil
}

// run begins a run of equal numbers, or of groups of eight packed ones.
func (l *levels) run() error {
	d := thriftReader{b: l.b}
	head := d.varint()
	if d.err != nil {
		return errShort
	}
	n := head >> 1
	if head&1 == 0 {
		b := d.bytes(uint64(l.width+7) / 8)
		if d.err != nil || n == 0 {
			return errShort
		}
		l.value, l.left, l.packed = int(littleEndian(b)), n, nil
		l.b = l.b[d.pos:]
		return nil
	}
	room := uint64(len(l.b) - d.pos)
	if n == 0 || n > room { // a group has a byte at least
		return errShort
	}
	size := n * uint64(l.width)
	if l.left = 8 * n; size > room { // the last group may be cut short
		size = room
		l.left = 8 * room / uint64(l.width)
	}
	l.packed, l.bit = d.bytes(size), 0
	l.b = l.b[d.pos:]
	if l.left == 0 {
		return errShort
	}
	return nil
}

// decoder decodes the values of a page.
type decoder interface {
	next() (Value, error)
}

// plain decodes values one after the other.
type plain struct {
	kind   int
	length int
	b      []byte
	bit    int // of booleans
}

func (p *plain) next() (Value, error) {
	switch p.kind {
	case Boolean:
		if p.bit/8 >= len(p.b) {
			return Value{}, errShort
		}
		v := Value{Bits: uint64(p.b[p.bit/8]>>(p.bit%8)) & 1}
		p.bit++
		return v, nil
	case ByteArray:
		if len(p.b) < 4 {
			return Value{}, errShort
		}
		n := littleEndian(p.b[:4])
		if n > uint64(len(p.b)-4) {
			return Value{}, errShort
		}
		v := Value{Bytes: p.b[4 : 4+n]}
		p.b = p.b[4+n:]
		return v, nil
	}
	n := p.length
	if p.kind != FixedLenByteArray {
		n = sizes[p.kind]
	}
	if n > len(p.b) {
		return Value{}, errShort
	}
	v := Value{}
	if n > 8 || p.kind == FixedLenByteArray {
		v.Bytes = p.b[:n]
	} else {
		v.Bits = littleEndian(p.b[:n])
	}
	p.b = p.b[n:]
	return v, nil
}

// booleans are packed, or in runs.
type booleans struct{ levels }

func (b *booleans) next() (Value, error) {
	v, err := b.levels.next()
	return Value{Bits: uint64(v)}, err
}

// indexed has the numbers of values in a dictionary.
type indexed struct {
	levels
	dict []Value
}

func (x *indexed) next() (Value, error) {
	i, err := x.levels.next()
	if err != nil {
		return Value{}, err
	}
	if i >= len(x.dict) {
		return Value{}, errors.New("a number beyond the dictionary")
	}
	return x.dict[i], nil
}

// split has the first bytes of all values, then the second ones, and so on.
type split struct {
	size, n, i int
	b          []byte
}

func (s *split) next() (Value, error) {
	if s.i == s.n {
		return Value{}, errShort
	}
	v := Value{}
	for j := s.size - 1; j >= 0; j-- {
		v.Bits = v.Bits<<8 | uint64(s.b[j*s.n+s.i])
	}
	s.i++
	return v, nil
}
