package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
)

// elemKind is a number type of a binary format.
type elemKind uint8

const (
	kindU8 elemKind = iota
	kindI8
	kindI16
	kindI32
	kindI64
	kindF32
	kindF64
)

// elem is a number type with its byte order.
type elem struct {
	kind elemKind
	big  bool
}

// size is the number of bytes of one element.
func (e elem) size() int {
	switch e.kind {
	case kindU8, kindI8:
		return 1
	case kindI16:
		return 2
	case kindI32, kindF32:
		return 4
	}
	return 8
}

// integer reports whether e holds whole numbers.
func (e elem) integer() bool { return e.kind < kindF32 }

// decode turns raw, len(dst) elements, into dst. Numbers that are not finite,
// or whole numbers that float32 cannot hold, are errors naming the index: ids
// in an ivecs file, for one, must not change in passing. float64 is rounded.
func (e elem) decode(dst []float32, raw []byte) error {
	switch e.kind {
	case kindU8:
		for i := range dst {
			dst[i] = float32(raw[i])
		}
		return nil
	case kindF32:
		return e.decodeF32(dst, raw)
	case kindF64:
		for i := range dst {
			v := float32(math.Float64frombits(e.bits(raw, i)))
			if !finite(v) {
				return fmt.Errorf("value %d is %v: not finite as float32", i, math.Float64frombits(e.bits(raw, i)))
			}
			dst[i] = v
		}
		return nil
	}
	for i := range dst {
		n := e.int(raw, i)
		v := float32(n)
		// 2^63 rounds up out of int64's range; converting it back would be
		// undefined, so the largest magnitudes are refused first.
		if v >= 1<<63 || int64(v) != n {
			return fmt.Errorf("value %d is %d: float32 cannot hold it exactly", i, n)
		}
		dst[i] = v
	}
	return nil
}

func (e elem) decodeF32(dst []float32, raw []byte) error {
	raw = raw[:4*len(dst)]
	for i := range dst {
		b := binary.LittleEndian.Uint32(raw[4*i:])
		if e.big {
			b = binary.BigEndian.Uint32(raw[4*i:])
		}
		v := math.Float32frombits(b)
		if !finite(v) {
			return fmt.Errorf("value %d is %v: not finite", i, v)
		}
		dst[i] = v
	}
	return nil
}

// int returns whole number i of raw.
func (e elem) int(raw []byte, i int) int64 {
	switch b := e.bits(raw, i); e.kind {
	case kindI8:
		return int64(int8(b))
	case kindI16:
		return int64(int16(b))
	case kindI32:
		return int64(int32(b))
	default: // uint8 and int64
		return int64(b)
	}
}

// bits returns the bits of element i of raw, zero-extended.
func (e elem) bits(raw []byte, i int) uint64 {
	var order binary.ByteOrder = binary.LittleEndian
	if e.big {
		order = binary.BigEndian
	}
	switch e.size() {
	case 1:
		return uint64(raw[i])
	case 2:
		return uint64(order.Uint16(raw[2*i:]))
	case 4:
		return uint64(order.Uint32(raw[4*i:]))
	}
	return order.Uint64(raw[8*i:])
}
