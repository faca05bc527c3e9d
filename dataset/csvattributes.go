package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// defaultExpiry is the column or field with the times at which records expire.
const defaultExpiry = "expires"

// attributeColumn is a column of a csv file that has an attribute.
type attributeColumn struct {
	column int
	Attribute
}

// decodeTyped decodes the attributes and the expiry of a row. With an error it returns the column.
func (d *delimited) decodeTyped(rec *Record, fields []string) (column int, err error) {
	for _, a := range d.typed {
		v, err := a.Type.Parse(fields[a.column])
		if err == nil && v != nil {
			err = rec.setAttribute(a.Name, v)
		}
		if err != nil {
			return a.column, err
		}
	}
	if d.expires < 0 {
		return 0, nil
	}
	v, err := TimeType.Parse(fields[d.expires])
	if v != nil && err == nil {
		rec.ExpiresAt = v.(time.Time)
	}
	return d.expires, err
}

// checkAttributes checks the attributes of a csv file to write.
func checkAttributes(attributes []Attribute) error {
	for i, a := range attributes {
		switch {
		case a.Name == "" || strings.Contains(a.Name, "\r\n"):
			return fmt.Errorf("attribute %.40q: the name is empty or has a carriage return and line feed", a.Name)
		case a.Type == AnyType || a.Type > TimeType:
			return fmt.Errorf("attribute %.40q has no type", a.Name)
		case slices.Contains(attributes[:i], a):
			return fmt.Errorf("attribute %.40q is given twice with the type %v", a.Name, a.Type)
		}
	}
	return nil
}

// appendTyped appends the cells of the attributes and the expiry.
func (e delimitedEncoder) appendTyped(dst []byte, rec *Record) ([]byte, error) {
	written := 0
	var text []byte
	for _, a := range e.attributes {
		dst = append(dst, e.comma)
		v, ok := rec.Attributes[a.Name]
		if !ok {
			continue
		}
		t, err := TypeOf(v)
		if err != nil {
			return dst, fmt.Errorf("attribute %.40q: %w", a.Name, err)
		}
		if t != a.Type {
			continue
		}
		if s, ok := v.(string); ok && (s == "" || strings.Contains(s, "\r\n")) {
			return dst, fmt.Errorf("attribute %.40q is empty or has a carriage return and line feed: "+
				"csv readers would change it, jsonl keeps it", a.Name)
		}
		text = appendValue(text[:0], v)
		dst = e.appendCell(dst, string(text))
		written++
	}
	if written < len(rec.Attributes) {
		return dst, e.missing(rec.Attributes)
	}
	switch {
	case e.expires:
		dst = append(dst, e.comma)
		if !rec.ExpiresAt.IsZero() {
			if err := checkYear(rec.ExpiresAt); err != nil {
				return dst, fmt.Errorf("expiry: %w", err)
			}
			dst = appendTime(dst, rec.ExpiresAt)
		}
	case !rec.ExpiresAt.IsZero():
		return dst, errors.New("the record has an expiry, and the file no column for it")
	}
	return dst, nil
}

// missing is the error of attributes that the file has no column for. It names the first by name.
func (e delimitedEncoder) missing(attributes map[string]any) error {
	var names []string
	for name, v := range attributes {
		t, _ := TypeOf(v)
		if a := (Attribute{name, t}); !slices.Contains(e.attributes, a) {
			names = append(names, a.String())
		}
	}
	slices.Sort(names)
	return fmt.Errorf("the file has no column for the attribute %.60q", names[0])
}
