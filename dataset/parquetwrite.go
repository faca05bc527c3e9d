package dataset

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anndb/anndb/dataset/internal/parquet"
)

// parquetEncoder writes a Parquet file with the columns key, vector or text, labels, payload, those of the
// attributes, expires, and, next to a text, vector.
type parquetEncoder struct {
	attributes []Attribute
	expires    bool
	texts      bool
	vectors    int // column of the vectors; 0 without
	rows       *parquet.Writer
}

// Columns of a Parquet file, before those of the attributes.
const (
	parquetKey  = iota
	parquetBody // vector or text
	parquetLabels
	parquetPayload
	parquetAttributes
)

func newParquetEncoder(s Schema) (encoder, error) {
	if err := checkAttributes(s.Attributes); err != nil {
		return nil, fmt.Errorf("dataset: %w: %w", ErrOption, err)
	}
	fields := []parquet.Field{
		parquetKey:     {Name: "key", Type: parquet.ByteArray, Meaning: parquet.Text},
		parquetBody:    {Name: "vector", Type: parquet.Float, List: true},
		parquetLabels:  {Name: "labels", Type: parquet.ByteArray, Meaning: parquet.Text, List: true},
		parquetPayload: {Name: "payload", Type: parquet.ByteArray},
	}
	body := "vector"
	if s.Kind == Text {
		body = defaultText
		fields[parquetBody] = parquet.Field{Name: body, Type: parquet.ByteArray, Meaning: parquet.Text}
	}
	taken := []string{"key", "id", body, "vector", "label", "labels", "payload", defaultExpiry}
	for _, a := range s.Attributes {
		f := [...]parquet.Field{
			StringType: {Type: parquet.ByteArray, Meaning: parquet.Text}, IntType: {Type: parquet.Int64},
			FloatType: {Type: parquet.Double}, BoolType: {Type: parquet.Boolean},
			TimeType: {Type: parquet.Int64, Meaning: parquet.Nanos},
		}[a.Type]
		f.Name = a.Name
		if _, typed := typedName(a.Name); typed || slices.Contains(taken, strings.ToLower(a.Name)) {
			f.Name = a.String() // the type is dropped when it is read
		}
		taken = append(taken, strings.ToLower(f.Name))
		fields = append(fields, f)
	}
	if s.Expires {
		fields = append(fields, parquet.Field{Name: defaultExpiry, Type: parquet.Int64, Meaning: parquet.Nanos})
	}
	e := &parquetEncoder{attributes: s.Attributes, expires: s.Expires, texts: s.Kind == Text}
	switch {
	case !e.texts:
		e.vectors = parquetBody
	case s.Dim > 0:
		e.vectors = len(fields)
		fields = append(fields, parquet.Field{Name: "vector", Type: parquet.Float, List: true})
	}
	var err error
	e.rows, err = parquet.NewWriter(fields)
	return e, err
}

func (*parquetEncoder) header(int64) ([]byte, bool) { return []byte(parquet.Magic), false }
func (e *parquetEncoder) trailer(dst []byte) []byte { return e.rows.Footer(dst) }

func (e *parquetEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	if err := e.check(rec); err != nil {
		return dst, err
	}
	e.rows.Bytes(parquetKey, 0, rec.Key)
	if e.texts {
		e.rows.Bytes(parquetBody, 0, []byte(rec.Text))
	}
	for i, v := range rec.Vector {
		e.rows.Number(e.vectors, i, uint64(math.Float32bits(v)))
	}
	if e.texts && e.vectors > 0 && len(rec.Vector) == 0 {
		e.rows.Missing(e.vectors)
	}
	for i, label := range rec.Labels {
		e.rows.Bytes(parquetLabels, i, []byte(label))
	}
	if len(rec.Labels) == 0 {
		e.rows.Missing(parquetLabels)
	}
	if len(rec.Payload) > 0 {
		e.rows.Bytes(parquetPayload, 0, rec.Payload)
	} else {
		e.rows.Missing(parquetPayload)
	}
	for i, a := range e.attributes {
		e.attribute(parquetAttributes+i, a, rec.Attributes[a.Name])
	}
	if e.expires {
		column := parquetAttributes + len(e.attributes)
		if rec.ExpiresAt.IsZero() {
			e.rows.Missing(column)
		} else {
			e.rows.Number(column, 0, uint64(rec.ExpiresAt.UnixNano()))
		}
	}
	return e.rows.EndRow(dst), nil
}

// attribute adds the value of an attribute if it has the type of the column.
func (e *parquetEncoder) attribute(column int, a Attribute, v any) {
	if typ, err := TypeOf(v); err != nil || typ != a.Type {
		e.rows.Missing(column)
		return
	}
	switch v := v.(type) {
	case string:
		e.rows.Bytes(column, 0, []byte(v))
	case int64:
		e.rows.Number(column, 0, uint64(v))
	case float64:
		e.rows.Number(column, 0, math.Float64bits(v))
	case bool:
		bits := uint64(0)
		if v {
			bits = 1
		}
		e.rows.Number(column, 0, bits)
	case time.Time:
		e.rows.Number(column, 0, uint64(v.UnixNano()))
	}
}

// check refuses records that the columns cannot hold.
func (e *parquetEncoder) check(rec *Record) error {
	switch {
	case len(rec.Key) == 0:
		return errEmptyKey
	case !utf8.Valid(rec.Key):
		return fmt.Errorf("key %q is not UTF-8, which texts of parquet files are", rec.Key)
	case !e.expires && !rec.ExpiresAt.IsZero():
		return errors.New("the schema has no expiry")
	}
	for i, label := range rec.Labels {
		if label == "" || !utf8.ValidString(label) {
			return fmt.Errorf("label %d, %.40q, is empty or not UTF-8", i, label)
		}
	}
	written := 0
	for _, a := range e.attributes {
		v, ok := rec.Attributes[a.Name]
		if typ, err := TypeOf(v); !ok || err != nil || typ != a.Type {
			continue
		}
		written++
		if s, ok := v.(string); ok && !utf8.ValidString(s) {
			return fmt.Errorf("attribute %.40q: %.40q is not UTF-8", a.Name, s)
		}
		if t, ok := v.(time.Time); ok && !inNanos(t) {
			return fmt.Errorf("attribute %.40q: the time %v is outside of what parquet files hold, 1678 to 2261",
				a.Name, t)
		}
	}
	if written < len(rec.Attributes) {
		return errors.New("an attribute is not in the schema, or has a value of another type")
	}
	if !rec.ExpiresAt.IsZero() && !inNanos(rec.ExpiresAt) {
		return fmt.Errorf("the expiry %v is outside of what parquet files hold, 1678 to 2261", rec.ExpiresAt)
	}
	return nil
}

// inNanos reports whether a time is a number of nanoseconds since 1970 of 64 bits.
func inNanos(t time.Time) bool { return time.Unix(0, t.UnixNano()).Equal(t) }
