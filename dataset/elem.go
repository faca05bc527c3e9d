package dataset

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
)

// elemKind is a number type of a binary format.
type elemKind uint8

const (
	kindU8 elemKind = iota
	kindI8
	kindU16
	kindI16
	kindU32
	kindI32
	kindU64
	kindI64
	kindF16
	kindBF16
	kindF32
	kindF64
)

// elemSizes has the number of bytes of each kind.
var elemSizes = [...]int{1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8}

// elem is a number type with its byte order.
type elem struct {
	kind elemKind
	big  bool
}

// size is the number of bytes of one element.
func (e elem) size() int { return elemSizes[e.kind] }

// integer reports whether e holds whole numbers.
func (e elem) integer() bool { return e.kind < kindF16 }

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
	case kindF16, kindBF16, kindF64:
		for i := range dst {
			b := e.bits(raw, i)
			v := math.Float64frombits(b)
			switch e.kind {
			case kindF16:
				v = float64(half(uint16(b)))
			case kindBF16: // the upper half of a float32
				v = float64(math.Float32frombits(uint32(b) << 16))
			}
			if dst[i] = float32(v); !finite(dst[i]) {
				return fmt.Errorf("value %d is %v: not finite as float32", i, v)
			}
		}
		return nil
	}
	for i := range dst {
		n := e.int(raw, i)
		v := float32(n)
		// 2^63 rounds up out of int64's range; converting it back would be
		// undefined, so the largest magnitudes are refused first.
		if e.kind == kindU64 && n < 0 || v >= 1<<63 || int64(v) != n {
			text := strconv.FormatInt(n, 10)
			if e.kind == kindU64 {
				text = strconv.FormatUint(uint64(n), 10)
			}
			return fmt.Errorf("value %d is %s: float32 cannot hold it exactly", i, text)
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
	default: // int64, and types without a sign
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

// half returns the value of a float16: a sign, 5 bits of exponent, 10 of mantissa. Source: IEEE 754.
func half(b uint16) float32 {
	sign, exponent, mantissa := uint32(b>>15)<<31, uint32(b>>10&31), uint32(b&1023)
	switch exponent {
	case 0: // a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(mantissa)/(1<<24)))
	case 31: // an infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}
