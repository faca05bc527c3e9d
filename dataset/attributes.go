package dataset

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// AttributeType is the type of the values of an attribute.
type AttributeType uint8

// Values of AttributeType.
const (
	AnyType    AttributeType = iota // each value has its own, see the package documentation
	StringType                      // string
	IntType                         // int64
	FloatType                       // float64, not NaN
	BoolType                        // bool
	TimeType                        // time.Time in UTC, of the years 0 to 9999
)

// String returns the name of the type in headers of csv files: "string", "int", "float", "bool" or
// "time"; "any" for AnyType.
func (t AttributeType) String() string {
	return [...]string{"any", "string", "int", "float", "bool", "time"}[min(t, TimeType)]
}

// Attribute is a column or field whose values are an attribute of the records.
type Attribute struct {
	Name string
	Type AttributeType
}

// String returns the text that [ParseAttribute] parses, which also is the name of the column in a csv
// file: "price:int", or "price" for AnyType.
func (a Attribute) String() string {
	if a.Type == AnyType {
		return a.Name
	}
	return a.Name + ":" + a.Type.String()
}

// ParseAttribute parses "NAME" or "NAME:TYPE", where TYPE is string, int, float, bool or time. A name
// that has a colon needs a type. Errors: [ErrOption].
func ParseAttribute(text string) (Attribute, error) {
	if a, ok := typedName(text); ok {
		return a, nil
	}
	name, typ, typed := strings.Cut(text, ":")
	switch {
	case name == "":
		return Attribute{}, fmt.Errorf("dataset: %w: attribute %q has no name", ErrOption, text)
	case typed:
		return Attribute{}, fmt.Errorf("dataset: %w: attribute %q: "+
			"unknown type %q (want string, int, float, bool or time)", ErrOption, name, typ)
	}
	return Attribute{Name: name}, nil
}

// typedName parses "NAME:TYPE".
func typedName(text string) (Attribute, bool) {
	i := strings.LastIndexByte(text, ':')
	if i < 1 {
		return Attribute{}, false
	}
	for t := StringType; t <= TimeType; t++ {
		if text[i+1:] == t.String() {
			return Attribute{text[:i], t}, true
		}
	}
	return Attribute{}, false
}

// TypeOf returns the type of the value of an attribute. Errors say why no file holds the value: NaN, a
// time outside of the years 0 to 9999, another Go type than those of [AttributeType].
func TypeOf(v any) (AttributeType, error) {
	switch v := v.(type) {
	case string:
		return StringType, nil
	case int64:
		return IntType, nil
	case float64:
		if math.IsNaN(v) {
			return AnyType, errors.New("NaN")
		}
		return FloatType, nil
	case bool:
		return BoolType, nil
	case time.Time:
		return TimeType, checkYear(v)
	}
	return AnyType, fmt.Errorf("a value of type %T: want string, int64, float64, bool or time.Time", v)
}

// Parse returns the value that a csv cell has, nil for none: of AnyType an integer, a float, true or false, a
// time or else a string, as it looks. Errors say what the text is not.
func (t AttributeType) Parse(cell string) (any, error) {
	text := strings.TrimSpace(cell)
	switch {
	case cell == "" || text == "" && t != StringType:
		return nil, nil
	case t == AnyType:
		return inferValue(cell, text)
	case t == StringType:
		return cell, nil
	case t == IntType:
		return parseInt(text)
	case t == FloatType:
		return parseFloat(text)
	case t == BoolType:
		if v, ok := parseBool(text); ok {
			return v, nil
		}
		return nil, fmt.Errorf("%.40q is neither true nor false", text)
	}
	return parseTime(text)
}

// inferValue returns the value of a cell of AnyType; text is the cell without spaces around it.
func inferValue(cell, text string) (any, error) {
	if looksNumeric(text) {
		parse := parseFloat
		if !strings.ContainsAny(text, ".eE") {
			parse = parseInt
		}
		v, err := parse(text)
		if errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%w: declare the attribute as string or float", err)
		}
		if err == nil {
			return v, nil
		}
	}
	if v, ok := parseBool(text); ok {
		return v, nil
	}
	if len(text) >= len(time.DateOnly) && text[4] == '-' {
		if v, err := parseTime(text); err == nil {
			return v, nil
		}
	}
	return cell, nil
}

// looksNumeric reports whether a text has nothing but the characters of a decimal number, without a
// plus sign or leading zeros, which postal codes and telephone numbers have.
func looksNumeric(text string) bool {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || strings.Trim(digits, "0123456789.eE+-") != "" || digits[0] == '+' {
		return false
	}
	return digits[0] != '0' || len(digits) == 1 || strings.IndexByte(".eE", digits[1]) >= 0
}

func parseInt(text string) (any, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, fmt.Errorf("%.40q: %w of int64", text, strconv.ErrRange)
	case err != nil:
		return nil, fmt.Errorf("%.40q is not an integer", text)
	}
	return v, nil
}

func parseFloat(text string) (any, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return nil, fmt.Errorf("%.40q: %w of float64", text, strconv.ErrRange)
	case err != nil || math.IsNaN(v):
		return nil, fmt.Errorf("%.40q is not a number", text)
	}
	return v, nil
}

// parseBool parses true and false, in upper or lower case.
func parseBool(text string) (v, ok bool) {
	v = strings.EqualFold(text, "true")
	return v, v || strings.EqualFold(text, "false")
}

// timeForms are the forms of times, which are those of filters; a fraction of a second may follow the
// seconds. A time without an offset is in UTC.
var timeForms = []string{
	time.DateOnly, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", time.RFC3339,
}

func parseTime(text string) (any, error) {
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			t = t.UTC()
			return t, checkYear(t)
		}
	}
	return nil, fmt.Errorf("%.40q is neither a date (2026-01-02) nor a time (2026-01-02T03:04:05Z)", text)
}

// checkYear refuses times that RFC 3339 cannot hold.
func checkYear(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("a time of the year %d", y)
	}
	return nil
}

// appendTime appends a time as text.
func appendTime(dst []byte, t time.Time) []byte { return t.UTC().AppendFormat(dst, time.RFC3339Nano) }

// appendExpiry appends an expiry as text. Its error is that of a time that no text file holds.
func appendExpiry(dst []byte, at time.Time) ([]byte, error) {
	if err := checkYear(at); err != nil {
		return dst, fmt.Errorf("expiry: %w", err)
	}
	return appendTime(dst, at), nil
}

// appendFloat appends a float with a fraction or an exponent, which tells it from an integer.
func appendFloat(dst []byte, v float64) []byte {
	n := len(dst)
	dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
	if strings.Trim(string(dst[n:]), "-0123456789") == "" {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendValue appends a value as the text of a csv cell.
func appendValue(dst []byte, v any) []byte {
	switch v := v.(type) {
	case string:
		return append(dst, v...)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case bool:
		return strconv.AppendBool(dst, v)
	case time.Time:
		return appendTime(dst, v)
	}
	return dst
}
