package dataset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// maxFields bounds the fields of an object, those that are ignored among them.
const maxFields = 1 << 12

// validJSON is json.Valid, without its pass over the text of a vector in base64.
func validJSON(line []byte) bool {
	const mark = `"base64":"`
	if i := bytes.Index(line, []byte(mark)); i >= 0 {
		begin := i + len(mark)
		end := bytes.IndexByte(line[begin:], '"')
		if end >= 0 && plain(line[begin:begin+end]) {
			// The string is valid. Without it, the rest is valid if all is.
			line = slices.Concat(line[:begin], line[begin+end:])
		}
	}
	return json.Valid(line)
}

// plain reports whether text in quotes is a string of JSON without escapes.
func plain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	return true
}

// eachItem calls do with each item of an array. Text is valid JSON that begins with a bracket.
func eachItem(text []byte, do func(item json.RawMessage) error) error {
	for rest := bytes.TrimLeft(text[1:], jsonSpace); len(rest) > 0 && rest[0] != ']'; {
		var item []byte
		item, rest = cutValue(rest)
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}

// eachField calls do with the name and the value of each field of an object. Text is valid JSON that begins
// with a brace.
func eachField(text []byte, do func(name string, value json.RawMessage) error) error {
	for rest := bytes.TrimLeft(text[1:], jsonSpace); len(rest) > 0 && rest[0] != '}'; {
		var quoted, value []byte
		quoted, rest = cutValue(rest)
		name, err := jsonText(quoted)
		if err != nil {
			return err
		}
		value, rest = cutValue(rest)
		if err := do(name, value); err != nil {
			return err
		}
	}
	return nil
}

// fieldsOf adds the fields of an object to a map. Their values share the memory of the text.
func fieldsOf(into map[string]json.RawMessage, text []byte, most int) error {
	return eachField(text, func(name string, value json.RawMessage) error {
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

const jsonSpace = " \t\r\n"

// cutValue cuts valid JSON behind its first value and the comma or colon after that.
func cutValue(text []byte) (value, rest []byte) {
	end := valueLength(text)
	rest = bytes.TrimLeft(text[end:], jsonSpace)
	if len(rest) > 0 && (rest[0] == ',' || rest[0] == ':') {
		rest = bytes.TrimLeft(rest[1:], jsonSpace)
	}
	return text[:end], rest
}

// valueLength returns the length of the value at the front of valid JSON.
func valueLength(text []byte) int {
	switch text[0] {
	case '"':
		return stringLength(text)
	case '[', '{':
		depth := 0
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i += stringLength(text[i:]) - 1
			case '[', '{':
				depth++
			case ']', '}':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(text)
	}
	if i := bytes.IndexAny(text, ",]}"+jsonSpace); i >= 0 {
		return i
	}
	return len(text)
}

// stringLength returns the length of the string at the front of valid JSON, with its quotes.
func stringLength(text []byte) int {
	if i := bytes.IndexByte(text[1:], '"'); i >= 0 && bytes.IndexByte(text[1:1+i], '\\') < 0 {
		return i + 2
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// jsonText returns the text of a string.
func jsonText(quoted []byte) (text string, err error) {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) > 1 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	err = json.Unmarshal(quoted, &text)
	return text, err
}
