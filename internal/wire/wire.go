// Package wire has the JSON of requests to a server of databases, and of its answers. Rows have the form
// of jsonl files. Floats have the fewest digits that read back as the same number.
package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/dataset/rows"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// Types of content.
const (
	JSON  = "application/json"
	Lines = "application/x-ndjson" // rows, one a line
)

// Unmarshal decodes a body. It refuses unknown fields and whatever follows the value.
func Unmarshal(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = fmt.Errorf("byte %d: more than one value", d.InputOffset())
		}
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the body is empty")
	}
	switch {
	case err == nil || errors.Is(err, db.ErrInvalid): // of a filter
		return err
	case errors.Is(err, vector.ErrMetric):
		return fmt.Errorf("%w: %w", db.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", ErrJSON, err)
}

// All returns what of makes of each element: forms, or what forms stand for.
func All[In, Out any](list []In, of func(*In) (Out, error)) ([]Out, error) {
	out := make([]Out, len(list))
	for i := range list {
		var err error
		if out[i], err = of(&list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Key is the key of a row: a text, or bytes that are none in base64.
type Key struct {
	Text  string `json:"key,omitempty"`
	Bytes []byte `json:"key_base64,omitempty"`
}

// NewKey returns the form of a key.
func NewKey(key []byte) Key {
	if utf8.Valid(key) {
		return Key{Text: string(key)}
	}
	return Key{Bytes: key}
}

// Get returns the key, nil if there is none.
func (k Key) Get() ([]byte, error) {
	switch {
	case k.Text != "" && k.Bytes != nil:
		return nil, fmt.Errorf(`%w: both "key" and "key_base64"`, ErrJSON)
	case k.Text != "":
		return []byte(k.Text), nil
	}
	return k.Bytes, nil
}

// Vector is an array of numbers, or {"base64": "…"} of float32 in little-endian order, as it is written.
type Vector []float32

// UnmarshalJSON reads either form.
func (v *Vector) UnmarshalJSON(raw []byte) (err error) {
	if string(raw) == "null" {
		return nil
	}
	if *v, err = dataset.AppendVector((*v)[:0], raw, dataset.DefaultMaxDim); err != nil {
		return fmt.Errorf("vector: %w", err)
	}
	return nil
}

// MarshalJSON writes base64.
func (v Vector) MarshalJSON() ([]byte, error) {
	return dataset.AppendBase64(nil, v), nil
}

// Features are those of a row as jsonl files have them: {"name": value} or {"indices": [], "values": []}.
type Features struct {
	Named    []vector.Feature // nil if they have numbers
	Numbered vector.Sparse
}

// UnmarshalJSON reads either form.
func (f *Features) UnmarshalJSON(raw []byte) error {
	line := append(append([]byte(`{"features":`), raw...), '}')
	rec, schema, err := dataset.ParseJSON(line, dataset.Options{Kind: dataset.Sparse})
	if err != nil {
		return err
	}
	var row db.Row
	rows.Of(&row, &rec, schema)
	f.Named, f.Numbered = row.Features, row.Sparse
	return nil
}

// MarshalJSON writes the form that the features have.
func (f Features) MarshalJSON() ([]byte, error) {
	if f.Named == nil {
		if f.Numbered.Len() == 0 { // the lists would be null
			return []byte(`{"indices":[],"values":[]}`), nil
		}
		return json.Marshal(map[string]any{"indices": f.Numbered.Index, "values": f.Numbered.Value})
	}
	values := map[string]float32{}
	for _, x := range f.Named {
		values[x.Name] = x.Value
	}
	return json.Marshal(values)
}

// Attributes are those of a row as jsonl files have them.
type Attributes map[string]any

// UnmarshalJSON keeps the types of the values.
func (a *Attributes) UnmarshalJSON(raw []byte) error {
	line := append(append([]byte(`{"text":"","attributes":`), raw...), '}')
	rec, _, err := dataset.ParseJSON(line, dataset.Options{Kind: dataset.Text})
	*a = rec.Attributes
	return err
}

// MarshalJSON writes the names in ascending order.
func (a Attributes) MarshalJSON() ([]byte, error) { return dataset.MarshalAttributes(a) }

// ParseRow reads a row of a collection; nil stands for one of any schema.
func ParseRow(line []byte, info *db.CollectionInfo) (row db.Row, err error) {
	rec, schema, err := dataset.ParseJSON(line, RowOptions(info))
	if err != nil {
		return row, fmt.Errorf("%w: row: %w", ErrJSON, err)
	}
	rows.Of(&row, &rec, schema)
	return row, nil
}

// RowOptions are those that read rows of a collection; nil stands for one of any schema.
func RowOptions(info *db.CollectionInfo) dataset.Options {
	o := dataset.Options{Format: dataset.FormatJSONL, KeyColumn: "key"}
	if info != nil {
		o.Kind = rows.Schema(info).Kind
	}
	return o
}

// Version returns the version of a row, a hash of its JSON line. Rows of equal content have equal versions.
func Version(line []byte) string {
	sum := sha256.Sum256(bytes.TrimSuffix(line, []byte("\n")))
	return hex.EncodeToString(sum[:16])
}

// PathKey returns a key, or a name, as a part of a path.
func PathKey(key []byte) string {
	if s := string(key); s == "." || s == ".." {
		return strings.ReplaceAll(s, ".", "%2E") // which nothing on the way takes for a folder
	}
	return url.PathEscape(string(key))
}
