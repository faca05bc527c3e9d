// Package attribute has the values of attributes and their order-preserving encoding as bytes.
package attribute

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"time"
	"unicode/utf8"
)

// MaxString is the largest length of a string value in bytes.
const MaxString = 512

// Classes of values, the first byte of a key. Values of different classes are never equal, and
// a comparison holds only within the class of its value.
const (
	classBool byte = iota + 1
	classNumber
	classTime
	classString
)

// Range is the set of the keys k with From <= k < To, bytewise. A nil To is no bound.
type Range struct{ From, To []byte }

// Contains reports whether the range has the key.
func (r Range) Contains(key []byte) bool {
	return string(key) >= string(r.From) && (r.To == nil || string(key) < string(r.To))
}

// Normalize returns the value in the form in which attributes have it: bool, int64, float64,
// string or time.Time in UTC without a monotonic clock reading.
//
// Integers of any type become int64, and floats of any type float64, with zero for minus zero. Errors
// say what is wrong with the value: a type that no attribute has, an integer above the largest
// int64, NaN, a string that is too long or not UTF-8, a time outside of the years 1678 to 2261.
func Normalize(v any) (any, error) {
	switch v := v.(type) {
	case time.Time:
		return normalTime(v)
	case nil:
		return nil, fmt.Errorf("no value: an attribute is a string, a number, a bool or a time")
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Bool:
		return r.Bool(), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() > math.MaxInt64 {
			return nil, fmt.Errorf("integer %d exceeds %d: use a float or a string", r.Uint(), int64(math.MaxInt64))
		}
		return int64(r.Uint()), nil
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(r.Float()) {
			return nil, fmt.Errorf("value is NaN, which has no order: leave the attribute out")
		}
		return r.Float() + 0, nil // -0 + 0 is 0
	case reflect.String:
		return normalString(r.String())
	}
	return nil, fmt.Errorf("value of type %T: an attribute is a string, a number, a bool or a time", v)
}

func normalString(s string) (any, error) {
	if len(s) > MaxString {
		return nil, fmt.Errorf("string of %d bytes, at most %d: keep long texts in the payload", len(s), MaxString)
	}
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("string %q is not UTF-8", s)
	}
	return s, nil
}

func normalTime(t time.Time) (any, error) {
	t = t.Round(0).UTC()
	if !time.Unix(0, t.UnixNano()).Equal(t) {
		return nil, fmt.Errorf("time %s is not within the years 1678 to 2261", t.Format(time.RFC3339))
	}
	return t, nil
}

// AppendKey appends the key of a value that Normalize has returned: the keys of two values are
// ordered as the values, and equal if and only if the values are equal.
//
// A key begins with the class of the value: bool, number, time, string, in this order. A bool is one
// byte. Integers and floats have one order: the nearest float64 in 8 bytes, then by how much an
// integer exceeds it, in 2. A time has its nanoseconds since 1970 in 8 bytes. A string has
// its bytes.
func AppendKey(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, classBool, 1)
		}
		return append(dst, classBool, 0)
	case int64:
		f := float64(v)
		// The nearest float64 of the largest integers is 2^63, which no int64 has. Unsigned
		// arithmetic wraps around to the right difference, at most 512.
		whole := uint64(1) << 63
		if f < 1<<63 {
			whole = uint64(int64(f))
		}
		return appendNumber(dst, f, int16(uint64(v)-whole))
	case float64:
		return appendNumber(dst, v, 0)
	case time.Time:
		return binary.BigEndian.AppendUint64(append(dst, classTime), uint64(v.UnixNano())^1<<63)
	case string:
		return append(append(dst, classString), v...)
	}
	panic(fmt.Sprintf("attribute: %T is no normalized value", v))
}

func appendNumber(dst []byte, f float64, exceeds int16) []byte {
	bits := math.Float64bits(f)
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	dst = binary.BigEndian.AppendUint64(append(dst, classNumber), bits)
	return binary.BigEndian.AppendUint16(dst, uint16(exceeds)^1<<15)
}

// All is the range of the keys of all values.
func All() Range { return Range{} }

// Equal is the range of the values equal to a normalized value.
func Equal(v any) Range {
	k := AppendKey(nil, v)
	return Range{k, after(k)}
}

// Less is the range of the values below v that are of its class: numbers for a number, strings
// for a string. So are AtMost, Greater and AtLeast.
func Less(v any) Range {
	k := AppendKey(nil, v)
	return Range{k[:1:1], k}
}

// AtMost is the range of the values of v's class that do not exceed it.
func AtMost(v any) Range {
	k := AppendKey(nil, v)
	return Range{k[:1:1], after(k)}
}

// Greater is the range of the values of v's class that exceed it.
func Greater(v any) Range {
	k := AppendKey(nil, v)
	return Range{after(k), []byte{k[0] + 1}}
}

// AtLeast is the range of the values of v's class that are not below it.
func AtLeast(v any) Range {
	k := AppendKey(nil, v)
	return Range{k, []byte{k[0] + 1}}
}

// Prefix is the range of the strings with a prefix.
func Prefix(prefix string) Range {
	from := AppendKey(nil, prefix)
	to := append([]byte{}, from...)
	for to[len(to)-1] == math.MaxUint8 {
		to = to[:len(to)-1] // ends at the class
	}
	to[len(to)-1]++
	return Range{from, to}
}

// after returns the least bytes above a key.
func after(key []byte) []byte { return append(key[:len(key):len(key)], 0) }

// NumberOf returns the number of a key, that of a time in seconds since 1970, as the nearest float64. ok is
// false for keys of other values.
func NumberOf(key []byte) (x float64, ok bool) {
	switch {
	case len(key) == 11 && key[0] == classNumber:
		bits := binary.BigEndian.Uint64(key[1:])
		if bits>>63 == 1 {
			return math.Float64frombits(bits &^ (1 << 63)), true
		}
		return math.Float64frombits(^bits), true
	case len(key) == 9 && key[0] == classTime:
		return float64(int64(binary.BigEndian.Uint64(key[1:])^1<<63)) / 1e9, true
	}
	return 0, false
}

// TimeOf returns the time of a key.
func TimeOf(key []byte) (time.Time, error) {
	if len(key) != 9 || key[0] != classTime {
		return time.Time{}, fmt.Errorf("%w: key %x is no time", errTable, key)
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(key[1:])^1<<63)).UTC(), nil
}
