package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anndb/anndb/internal/jsonscan"
)

// Names of the values that JSON has no type for, as in {"$time": "2026-01-02T03:04:05Z"}.
const (
	tagTime  = "$time"
	tagFloat = "$float" // infinities
)

// decodeAttributes adds the attributes and the expiry of an object.
func (j *jsonl) decodeAttributes(rec *Record) error {
	if raw := j.object[j.o.AttributesField]; !isNull(raw) && !j.ignore[j.o.AttributesField] {
		err := errors.New("not an object")
		if raw[0] == '{' {
			err = jsonscan.Fields(raw, func(name string, raw json.RawMessage) error {
				if isNull(raw) || j.ignore[name] {
					return nil
				}
				return decodeAttribute(rec, Attribute{Name: name}, raw)
			})
		}
		if err != nil {
			return fmt.Errorf("field %q: %w", j.o.AttributesField, err)
		}
	}
	for _, a := range j.o.Attributes {
		if raw := j.object[a.Name]; !isNull(raw) {
			if err := decodeAttribute(rec, a, raw); err != nil {
				return err
			}
		}
	}
	if raw := j.object[j.expires]; !isNull(raw) && !j.ignore[j.expires] {
		v, err := attributeValue(raw, TimeType)
		if err != nil {
			return fmt.Errorf("field %q: %w", j.expires, err)
		}
		rec.ExpiresAt = v.(time.Time)
	}
	return nil
}

func decodeAttribute(rec *Record, a Attribute, raw json.RawMessage) error {
	v, err := attributeValue(raw, a.Type)
	if err == nil {
		err = rec.setAttribute(a.Name, v)
	}
	if err != nil {
		return fmt.Errorf("attribute %.40q: %w", a.Name, err)
	}
	return nil
}

// attributeValue decodes a value that is not null.
func attributeValue(raw json.RawMessage, want AttributeType) (v any, err error) {
	switch raw[0] {
	case '"':
		var s string
		if err = json.Unmarshal(raw, &s); err == nil && want == TimeType {
			return parseTime(s)
		}
		v = s
	case 't', 'f':
		v = raw[0] == 't'
	case '{':
		v, err = objectValue(raw)
	case '[':
		v, err = compactJSON(raw)
	default:
		parse := parseInt
		if want == FloatType || bytes.ContainsAny(raw, ".eE") {
			parse = parseFloat
		}
		v, err = parse(string(raw))
	}
	if err != nil {
		return nil, err
	}
	if have, err := TypeOf(v); err != nil || want != AnyType && have != want {
		return nil, fmt.Errorf("%.40s has the type %v, want %v", raw, have, want)
	}
	return v, nil
}

// objectValue decodes {"$time": "…"} and {"$float": "Inf"}. Any other object is its JSON.
func objectValue(raw json.RawMessage) (any, error) {
	tagged := map[string]json.RawMessage{}
	if err := jsonscan.FieldsOf(tagged, raw, 1); err != nil {
		return compactJSON(raw)
	}
	for tag, parse := range map[string]func(string) (any, error){tagTime: parseTime, tagFloat: parseFloat} {
		raw, ok := tagged[tag]
		if !ok {
			continue
		}
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("%s: not a string", tag)
		}
		return parse(text)
	}
	return compactJSON(raw)
}

// compactJSON returns the JSON of an array or an object as a text without blanks between its parts.
func compactJSON(raw json.RawMessage) (any, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.String(), err
}

// MarshalAttributes returns attributes as the JSON object that jsonl files have, ascending by name.
// Errors name the attribute that cannot be written: NaN, a text that is not UTF-8, a time outside of
// the years 0 to 9999, a value of another type than those of [AttributeType].
func MarshalAttributes(attributes map[string]any) ([]byte, error) {
	return appendAttributes(nil, attributes)
}

func appendAttributes(dst []byte, attributes map[string]any) ([]byte, error) {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(attributes)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		_, err := TypeOf(attributes[name])
		if err == nil {
			dst, err = appendString(dst, name)
		}
		if err == nil {
			dst, err = appendJSONValue(append(dst, ':'), attributes[name])
		}
		if err != nil {
			return dst, fmt.Errorf("attribute %.40q: %w", name, err)
		}
	}
	return append(dst, '}'), nil
}

// appendJSONValue appends a value that TypeOf accepts.
func appendJSONValue(dst []byte, v any) ([]byte, error) {
	tag := ""
	switch v := v.(type) {
	case string:
		return appendString(dst, v)
	case time.Time:
		tag = tagTime
	case float64:
		if math.IsInf(v, 0) {
			tag = tagFloat
		}
	}
	if tag == "" {
		return appendValue(dst, v), nil
	}
	dst = append(append(append(dst, `{"`...), tag...), `":"`...)
	return append(appendValue(dst, v), `"}`...), nil
}

// appendExtras appends the attributes and the expiry of a record as fields.
func appendExtras(dst []byte, rec *Record) (_ []byte, err error) {
	if len(rec.Attributes) > 0 {
		if dst, err = appendAttributes(append(dst, `,"attributes":`...), rec.Attributes); err != nil {
			return dst, err
		}
	}
	if !rec.ExpiresAt.IsZero() {
		dst, err = appendExpiry(append(dst, `,"`+defaultExpiry+`":"`...), rec.ExpiresAt)
		dst = append(dst, '"')
	}
	return dst, err
}
