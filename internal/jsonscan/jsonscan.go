// Package jsonscan takes a text of JSON apart in one pass, which also verifies it. Values are parts of
// the text. Strings are not checked for UTF-8.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrSyntax is the error of a text that is not JSON, or nested deeper than encoding/json reads it.
var ErrSyntax = errors.New("not JSON")

const deepest = 10000

// Items calls do with each item of an array.
func Items(text []byte, do func(item json.RawMessage) error) error {
	return whole(text, '[', func(_ []byte, from, to int) error { return do(text[from:to:to]) })
}

// Fields calls do with the name and the value of each field of an object.
func Fields(text []byte, do func(name string, value json.RawMessage) error) error {
	return whole(text, '{', func(quoted []byte, from, to int) error {
		name, err := Text(quoted)
		if err != nil {
			return err
		}
		return do(name, text[from:to:to])
	})
}

// Cut returns the value of the only field of an object that encoding/json takes for one of the name, and the
// object with null in its place. It reports false if there is none, or several, or no object.
func Cut(text []byte, name string) (value, rest []byte, ok bool) {
	n, begin, end := 0, 0, 0
	err := whole(text, '{', func(quoted []byte, from, to int) error {
		has, err := Text(quoted)
		if strings.EqualFold(has, name) {
			n, begin, end = n+1, from, to
		}
		return err
	})
	if err != nil || n != 1 {
		return nil, nil, false
	}
	return text[begin:end:end], slices.Concat(text[:begin], []byte("null"), text[end:]), true
}

// FieldsOf adds the fields of an object to a map. Names that are there already are refused, and fields beyond
// a number of them.
func FieldsOf(into map[string]json.RawMessage, text []byte, most int) error {
	return Fields(text, func(name string, value json.RawMessage) error {
		if _, twice := into[name]; twice {
			return fmt.Errorf("field %.40q is given twice", name)
		}
		if len(into) == most {
			return fmt.Errorf("more than %d fields", most)
		}
		into[name] = value
		return nil
	})
}

// Text returns the text of a string, which is valid.
func Text(quoted []byte) (text string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}

// whole calls do with the values, from where to where, of an array or an object, which is all of a text.
func whole(text []byte, first byte, do func(name []byte, from, to int) error) error {
	begin := blanks(text, 0)
	if begin == len(text) || text[begin] != first {
		return ErrSyntax
	}
	end, err := group(text, begin, deepest, do)
	if err == nil && blanks(text, end) != len(text) {
		err = ErrSyntax
	}
	return err
}

// group returns the index behind the array or object that begins at an index. do is nil, or called with the
// place of each value, and its name in quotes if it has one.
func group(s []byte, i, depth int, do func(name []byte, from, to int) error) (int, error) {
	end, object := s[i]+2, s[i] == '{' // of [ and {
	for first := true; ; first = false {
		i = blanks(s, i+1)
		if first && i < len(s) && s[i] == end {
			return i + 1, nil
		}
		var name []byte
		if object {
			behind := quoted(s, i)
			if behind < 0 {
				return 0, ErrSyntax
			}
			name = s[i:behind]
			if i = blanks(s, behind); i == len(s) || s[i] != ':' {
				return 0, ErrSyntax
			}
			i = blanks(s, i+1)
		}
		behind := value(s, i, depth)
		if behind < 0 {
			return 0, ErrSyntax
		}
		if do != nil {
			if err := do(name, i, behind); err != nil {
				return 0, err
			}
		}
		i = blanks(s, behind)
		if i < len(s) && s[i] == end {
			return i + 1, nil
		}
		if i == len(s) || s[i] != ',' {
			return 0, ErrSyntax
		}
	}
}

// value returns the index behind the value that begins at an index, below 0 if there is none.
func value(s []byte, i, depth int) int {
	if i == len(s) {
		return -1
	}
	switch s[i] {
	case '"':
		return quoted(s, i)
	case '[', '{':
		if depth == 1 {
			return -1
		}
		end, err := group(s, i, depth-1, nil)
		if err != nil {
			return -1
		}
		return end
	case 't':
		return word(s, i, "true")
	case 'f':
		return word(s, i, "false")
	case 'n':
		return word(s, i, "null")
	}
	return number(s, i)
}

func word(s []byte, i int, want string) int {
	if end := i + len(want); end <= len(s) && string(s[i:end]) == want {
		return end
	}
	return -1
}

func number(s []byte, i int) int {
	if i < len(s) && s[i] == '-' {
		i++
	}
	end := digits(s, i)
	if end < 0 || s[i] == '0' && end > i+1 {
		return -1
	}
	if end < len(s) && s[end] == '.' {
		if end = digits(s, end+1); end < 0 {
			return -1
		}
	}
	if end < len(s) && (s[end] == 'e' || s[end] == 'E') {
		if end++; end < len(s) && (s[end] == '+' || s[end] == '-') {
			end++
		}
		end = digits(s, end)
	}
	return end
}

// digits returns the index behind digits, below 0 if there are none.
func digits(s []byte, i int) int {
	begin := i
	for i < len(s) && s[i]-'0' <= 9 {
		i++
	}
	if i == begin {
		return -1
	}
	return i
}

func blanks(s []byte, i int) int {
	for i < len(s) && s[i] <= ' ' && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// quoted returns the index behind a string, below 0 if there is none.
func quoted(s []byte, i int) int {
	if i == len(s) || s[i] != '"' {
		return -1
	}
	i++
	if n := bytes.IndexByte(s[i:], '"'); n < 0 || control(s[i:i+n]) {
		return -1
	} else if bytes.IndexByte(s[i:i+n], '\\') < 0 {
		return i + n + 1
	}
	for ; i < len(s) && s[i] >= ' '; i++ {
		switch {
		case s[i] == '"':
			return i + 1
		case s[i] != '\\':
		case i+1 == len(s):
			return -1
		case s[i+1] == 'u':
			if len(s) < i+6 || bytes.IndexFunc(s[i+2:i+6], notHex) >= 0 {
				return -1
			}
			i += 5
		case bytes.IndexByte([]byte(`"\/bfnrt`), s[i+1]) < 0:
			return -1
		default:
			i++
		}
	}
	return -1
}

func notHex(r rune) bool {
	return (r < '0' || r > '9') && (r|0x20 < 'a' || r|0x20 > 'f')
}

// control reports whether a text has control characters.
func control(s []byte) bool {
	const blanks, high = 0x2020202020202020, 0x8080808080808080
	for ; len(s) >= 16; s = s[16:] {
		a, b := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
		// The high bit of a byte is set if it borrows and has no high bit of its own.
		if ((a-blanks)&^a|(b-blanks)&^b)&high != 0 {
			return true
		}
	}
	for _, c := range s {
		if c < ' ' {
			return true
		}
	}
	return false
}
