package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/anndb/anndb/internal/jsonscan"
)

// AppendVector appends the values of a vector as jsonl files have it: an array of numbers, or
// {"base64": "…"} of float32 in little-endian order. raw is valid JSON. It refuses vectors without values
// and those of more than most values.
func AppendVector(dst []float32, raw json.RawMessage, most int) ([]float32, error) {
	begin := len(dst)
	var err error
	switch raw[0] {
	case '[':
		dst, err = appendArray(dst, raw, begin+most)
	case '{':
		dst, err = appendBase64Floats(dst, raw, most)
	default:
		err = errors.New("not an array of numbers")
	}
	if err == nil && len(dst) == begin {
		err = errors.New("no values")
	}
	return dst, err
}

// appendArray appends numbers until dst has most. Once a value of valid JSON is known to begin like a number,
// it ends before the next comma, bracket or blank.
func appendArray(dst []float32, raw json.RawMessage, most int) ([]float32, error) {
	for i := 1; ; {
		for raw[i] <= ' ' || raw[i] == ',' {
			i++
		}
		if raw[i] == ']' {
			return dst, nil
		}
		begin := i
		if !isNumber(raw[i:]) {
			cell, _, _ := bytes.Cut(raw[i:len(raw)-1], []byte(","))
			return dst, fmt.Errorf("value %d: %.40q is not a number", len(dst), bytes.TrimSpace(cell))
		}
		for raw[i] > ',' && raw[i] != ']' || raw[i] == '+' {
			i++
		}
		if len(dst) == most {
			return dst, fmt.Errorf("more than %d values", most)
		}
		v, err := parseValue(raw[begin:i])
		if err != nil {
			return dst, fmt.Errorf("value %d: %w", len(dst), err)
		}
		dst = append(dst, v)
	}
}

func appendBase64Floats(dst []float32, raw json.RawMessage, most int) ([]float32, error) {
	var text json.RawMessage
	err := jsonscan.Fields(raw, func(name string, value json.RawMessage) error {
		if text != nil || name != "base64" {
			return errors.New("another field")
		}
		text = value
		return nil
	})
	if err != nil || text == nil {
		return dst, errors.New(`not an array of numbers or {"base64": "…"} of float32 in little-endian order`)
	}
	if text[0] != '"' {
		return dst, errors.New("base64: not a string")
	}
	begin := len(dst)
	dst = slices.Grow(dst, min(len(text)*3/16, most)) // 16 digits are 3 values
	dst, rest := appendDigits(dst, text[1:len(text)-1], begin+most)
	rest, err = appendBase64(nil, slices.Concat([]byte{'"'}, rest, []byte{'"'}))
	if err != nil {
		_, err = appendBase64(nil, text) // for the offset of the error
	}
	switch n := len(dst) - begin; {
	case err != nil:
		return dst, fmt.Errorf("base64: %w", err)
	case len(rest)%4 != 0:
		return dst, fmt.Errorf("base64: %d bytes, which is no number of float32", 4*n+len(rest))
	case n+len(rest)/4 > most:
		return dst, fmt.Errorf("more than %d values", most)
	}
	for ; len(rest) > 0; rest = rest[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(rest)))
	}
	for i, v := range dst[begin:] {
		if !finite(v) {
			return dst, fmt.Errorf("value %d is not finite", i)
		}
	}
	return dst, nil
}

// The digits of base64, by value: two for 12 bits, the first one in the low byte; and by digit: the
// bytes, the first one lowest, that have the bits of a digit in each of four places. notDigit marks bytes
// that are none.
const notDigit = 1 << 24

var (
	base64Pairs  [1 << 12]uint16
	base64Places [4][256]uint32
)

func init() {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	for place := range base64Places {
		for c := range base64Places[place] {
			base64Places[place][c] = notDigit
		}
		for v, c := range []byte(digits) {
			base64Places[place][c] = bits.ReverseBytes32(uint32(v) << (18 - 6*place) << 8)
		}
	}
	for v := range base64Pairs {
		base64Pairs[v] = uint16(digits[v>>6]) | uint16(digits[v&63])<<8
	}
}

// appendDigits appends numbers of base64 at the front of a text, three at a time, until dst has most. It
// stops at what are no digits, and returns the rest of the text.
func appendDigits(dst []float32, text []byte, most int) ([]float32, []byte) {
	p := &base64Places
	for len(text) >= 16 && len(dst)+3 <= most {
		t := text[:16]
		a := p[0][t[0]] | p[1][t[1]] | p[2][t[2]] | p[3][t[3]]
		b := p[0][t[4]] | p[1][t[5]] | p[2][t[6]] | p[3][t[7]]
		c := p[0][t[8]] | p[1][t[9]] | p[2][t[10]] | p[3][t[11]]
		d := p[0][t[12]] | p[1][t[13]] | p[2][t[14]] | p[3][t[15]]
		if a|b|c|d >= notDigit {
			break
		}
		dst = append(dst, math.Float32frombits(a|b<<24), math.Float32frombits(b>>8|c<<16),
			math.Float32frombits(c>>16|d<<8))
		text = text[16:]
	}
	return dst, text
}

// AppendBase64 appends a vector in the form {"base64": "…"}, which AppendVector reads.
func AppendBase64(dst []byte, x []float32) []byte {
	dst = slices.Grow(append(dst, `{"base64":"`...), base64.StdEncoding.EncodedLen(4*len(x))+2)
	for ; len(x) >= 3; x = x[3:] {
		a, b := bits.ReverseBytes32(math.Float32bits(x[0])), bits.ReverseBytes32(math.Float32bits(x[1]))
		c := bits.ReverseBytes32(math.Float32bits(x[2]))
		dst = binary.LittleEndian.AppendUint64(dst, uint64(base64Pairs[a>>20])|uint64(base64Pairs[a>>8&0xfff])<<16|
			uint64(base64Pairs[a<<4&0xfff|b>>28])<<32|uint64(base64Pairs[b>>16&0xfff])<<48)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(base64Pairs[b>>4&0xfff])|
			uint64(base64Pairs[b<<8&0xfff|c>>24])<<16|uint64(base64Pairs[c>>12&0xfff])<<32|
			uint64(base64Pairs[c&0xfff])<<48)
	}
	var raw [8]byte
	for i, v := range x {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	return append(base64.StdEncoding.AppendEncode(dst, raw[:4*len(x)]), `"}`...)
}

// appendNumbers writes an array.
func appendNumbers(dst []byte, values []float32) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendNumber(dst, v)
	}
	return append(dst, ']')
}

// appendNumber writes a number, with a short way for whole ones of few digits.
func appendNumber(dst []byte, v float32) []byte {
	if n := int32(v); float32(n) == v && -1e6 < n && n < 1e6 && (n != 0 || !math.Signbit(float64(v))) {
		return strconv.AppendInt(dst, int64(n), 10)
	}
	return strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
}
