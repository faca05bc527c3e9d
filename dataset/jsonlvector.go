package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	raw, err = appendBase64(nil, text)
	switch {
	case err != nil:
		return dst, fmt.Errorf("base64: %w", err)
	case len(raw)%4 != 0:
		return dst, fmt.Errorf("base64: %d bytes, which is no number of float32", len(raw))
	case len(raw)/4 > most:
		return dst, fmt.Errorf("more than %d values", most)
	}
	begin := len(dst)
	for dst = slices.Grow(dst, len(raw)/4); len(raw) > 0; raw = raw[4:] {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	for i, v := range dst[begin:] {
		if !finite(v) {
			return dst, fmt.Errorf("value %d is not finite", i)
		}
	}
	return dst, nil
}

// AppendBase64 appends a vector in the form {"base64": "…"}, which AppendVector reads.
func AppendBase64(dst []byte, x []float32) []byte {
	dst = slices.Grow(append(dst, `{"base64":"`...), base64.StdEncoding.EncodedLen(4*len(x))+2)
	var raw [384]byte // a multiple of 3, so that parts need no padding
	for part := range slices.Chunk(x, len(raw)/4) {
		for i, v := range part {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
		}
		dst = base64.StdEncoding.AppendEncode(dst, raw[:4*len(part)])
	}
	return append(dst, `"}`...)
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
