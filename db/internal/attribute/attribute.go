package attribute

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of the attributes of rows.
const (
	// MaxName is the longest name of an attribute in bytes.
	MaxName = 255
	// MaxAttributes is the largest number of attributes of one row.
	MaxAttributes = 256
	// MaxRow is the largest stored size of the attributes of one row.
	MaxRow = 3 + MaxAttributes*(2+MaxName+1+2+MaxString)
)

// Expiry is the name of the attribute that holds the time at which a row expires. Users cannot
// give an attribute this name.
const Expiry = ""

// Attribute is a named value of a row.
type Attribute struct {
	Name string
	// Value is a normalized value, see Normalize.
	Value any
}

// CheckName checks the name of an attribute given by a user.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || !utf8.ValidString(name) {
		return fmt.Errorf("name %q (want 1 to %d bytes of UTF-8)", name, MaxName)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("name %q has control characters", name)
	}
	return nil
}

// Set returns attributes as they are stored: with normalized values, ascending by name. A zero
// expiry means that the row does not expire.
func Set(values map[string]any, expiry time.Time) ([]Attribute, error) {
	if len(values)+1 > MaxAttributes {
		return nil, fmt.Errorf("%d attributes, want at most %d", len(values), MaxAttributes-1)
	}
	out := make([]Attribute, 0, len(values)+1)
	for name, v := range values {
		if err := CheckName(name); err != nil {
			return nil, err
		}
		value, err := Normalize(v)
		if err != nil {
			return nil, fmt.Errorf("attribute %q: %w", name, err)
		}
		out = append(out, Attribute{name, value})
	}
	if !expiry.IsZero() {
		value, err := Normalize(expiry)
		if err != nil {
			return nil, fmt.Errorf("expiry: %w", err)
		}
		out = append(out, Attribute{Expiry, value})
	}
	slices.SortFunc(out, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) })
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// Split returns stored attributes as users see them.
func Split(attributes []Attribute) (values map[string]any, expiry time.Time) {
	for _, a := range attributes {
		if a.Name == Expiry {
			expiry, _ = a.Value.(time.Time)
			continue
		}
		if values == nil {
			values = make(map[string]any, len(attributes))
		}
		values[a.Name] = a.Value
	}
	return values, expiry
}

// Same reports whether two lists of attributes are equal: of the same types, to the bit.
func Same(a, b []Attribute) bool {
	return slices.EqualFunc(a, b, func(x, y Attribute) bool {
		if t, ok := x.Value.(time.Time); ok {
			u, ok := y.Value.(time.Time)
			return ok && x.Name == y.Name && t.Equal(u)
		}
		return x == y
	})
}

// Size returns the approximate size of the attributes in bytes.
func Size(attributes []Attribute) (n int) {
	for _, a := range attributes {
		n += len(a.Name) + 10
		if s, ok := a.Value.(string); ok {
			n += len(s)
		}
	}
	return n
}

// The types of stored values.
const (
	typeBool byte = 1 + iota
	typeInt
	typeFloat
	typeTime
	typeString
)

// Append appends the stored form of a row's attributes: their number, then for each the length of
// the name, the name, the type of the value and the value. Lengths are unsigned varints, integers
// and times (nanoseconds since 1970) signed varints, floats 8 bytes, little-endian.
func Append(dst []byte, attributes []Attribute) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(attributes)))
	for _, a := range attributes {
		dst = binary.AppendUvarint(dst, uint64(len(a.Name)))
		dst = append(dst, a.Name...)
		switch v := a.Value.(type) {
		case bool:
			dst = append(dst, typeBool, 0)
			if v {
				dst[len(dst)-1] = 1
			}
		case int64:
			dst = binary.AppendVarint(append(dst, typeInt), v)
		case float64:
			dst = binary.LittleEndian.AppendUint64(append(dst, typeFloat), math.Float64bits(v))
		case time.Time:
			dst = binary.AppendVarint(append(dst, typeTime), v.UnixNano())
		case string:
			dst = binary.AppendUvarint(append(dst, typeString), uint64(len(v)))
			dst = append(dst, v...)
		}
	}
	return dst
}

var errDecode = errors.New("attributes do not decode")

// Decode decodes the attributes at the start of b, and returns what follows them. The attributes do
// not alias b.
func Decode(b []byte) (out []Attribute, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > MaxAttributes {
		return nil, nil, errDecode
	}
	b = b[w:]
	for i := range n {
		var a Attribute
		if a.Name, b, err = decodeString(b, MaxName); err != nil {
			return nil, nil, err
		}
		if i > 0 && a.Name <= out[i-1].Name {
			return nil, nil, errDecode
		}
		if a.Value, b, err = decodeValue(b); err != nil {
			return nil, nil, err
		}
		if _, isTime := a.Value.(time.Time); a.Name == Expiry && !isTime {
			return nil, nil, errDecode
		}
		out = append(out, a)
	}
	return out, b, nil
}

func decodeString(b []byte, limit uint64) (string, []byte, error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > limit || n > uint64(len(b)-w) {
		return "", nil, errDecode
	}
	s := string(b[w : w+int(n)])
	if !utf8.ValidString(s) {
		return "", nil, errDecode
	}
	return s, b[w+int(n):], nil
}

func decodeValue(b []byte) (v any, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errDecode
	}
	what, b := b[0], b[1:]
	switch what {
	case typeBool:
		if b[0] > 1 {
			return nil, nil, errDecode
		}
		return b[0] == 1, b[1:], nil
	case typeInt, typeTime:
		i, w := binary.Varint(b)
		if w <= 0 {
			return nil, nil, errDecode
		}
		if what == typeTime {
			return time.Unix(0, i).UTC(), b[w:], nil
		}
		return i, b[w:], nil
	case typeFloat:
		if len(b) < 8 {
			return nil, nil, errDecode
		}
		f := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if math.IsNaN(f) || f == 0 && math.Signbit(f) {
			return nil, nil, errDecode
		}
		return f, b[8:], nil
	case typeString:
		s, rest, err := decodeString(b, MaxString)
		return s, rest, err
	}
	return nil, nil, errDecode
}
