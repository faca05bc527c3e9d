package dataset

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"
)

// Fields of a jsonl object besides those that Options can rename.
const (
	fieldKeyBase64     = "key_base64"
	fieldPayloadBase64 = "payload_base64"
)

// jsonl reads one JSON object a line.
type jsonl struct {
	lines   *lines
	key     string // field names
	vector  string
	labels  []string
	payload string
	ignore  map[string]bool
	keyed   bool // the first record has a key, so all must
	dim     int  // 0 until the first record is read
	maxDim  int
	object  map[string]json.RawMessage
	first   *Record                                      // read by openJSONL, still to be given
	body    func(rec *Record, raw json.RawMessage) error // decodes the vector's field
	i       int64
	failure error
}

// newJSONL takes nothing from s but a byte order mark.
func newJSONL(s *source, o Options) *jsonl {
	j := &jsonl{
		lines: newLines(s), key: o.KeyColumn, vector: o.VectorField, labels: o.LabelColumns, payload: o.PayloadColumn,
		ignore: map[string]bool{}, maxDim: o.MaxDim, object: map[string]json.RawMessage{},
	}
	j.body = j.decodeVector
	if j.key == "" {
		j.key = "key"
	}
	if j.labels == nil {
		j.labels = []string{"labels"}
	}
	if j.payload == "" {
		j.payload = "payload"
	}
	for _, name := range o.IgnoreColumns {
		j.ignore[name] = true
	}
	return j
}

// openJSONL reads the first record, which says the dimension.
func openJSONL(s *source, o Options) (Reader, error) {
	j := newJSONL(s, o)
	first := new(Record)
	if err := j.read(first); err == io.EOF {
		return nil, j.lines.bad(-1, errors.New("empty file"))
	} else if err != nil {
		return nil, err
	}
	j.first = first
	return j, nil
}

func (j *jsonl) Dim() int     { return j.dim }
func (j *jsonl) Len() int64   { return -1 }
func (j *jsonl) Close() error { return j.lines.src.Close() }

// Keyed implements Reader.
func (j *jsonl) Keyed() bool { return j.keyed }

func (j *jsonl) Read(rec *Record) error {
	if j.first != nil {
		rec.Key = append(rec.Key[:0], j.first.Key...)
		rec.Vector = append(rec.Vector[:0], j.first.Vector...)
		rec.Labels = append(rec.Labels[:0], j.first.Labels...)
		rec.Payload = append(rec.Payload[:0], j.first.Payload...)
		j.first = nil
		return nil
	}
	if j.failure == nil {
		j.failure = j.read(rec)
	}
	return j.failure
}

// read takes the next line that is not blank.
func (j *jsonl) read(rec *Record) error {
	for {
		line, err := j.lines.next(j.i)
		if err != nil {
			return err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if err := j.decode(rec, line); err != nil {
			return j.lines.bad(j.i, err)
		}
		j.i++
		return nil
	}
}

// decode turns one object into rec; the caller counts i.
func (j *jsonl) decode(rec *Record, line []byte) error {
	// encoding/json would replace bad bytes silently.
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	clear(j.object)
	if err := json.Unmarshal(line, &j.object); err != nil {
		var s *json.SyntaxError
		if errors.As(err, &s) {
			return fmt.Errorf("byte %d: %w", s.Offset, err)
		}
		return errors.New("not a JSON object")
	}
	if j.object == nil { // the line was null
		j.object = map[string]json.RawMessage{}
		return errors.New("not a JSON object")
	}
	if err := j.body(rec, j.object[j.vector]); err != nil {
		return fmt.Errorf("field %q: %w", j.vector, err)
	}
	if err := j.decodeKey(rec); err != nil {
		return err
	}
	rec.Labels = rec.Labels[:0]
	for _, name := range j.labels {
		var err error
		if rec.Labels, err = appendLabels(rec.Labels, j.object[name]); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	if err := j.decodePayload(rec); err != nil {
		return err
	}
	return j.checkFields()
}

func (j *jsonl) decodeVector(rec *Record, raw json.RawMessage) error {
	if isNull(raw) {
		return errors.New("missing")
	}
	if raw[0] != '[' {
		return errors.New("not an array of numbers")
	}
	rec.Vector = rec.Vector[:0]
	// raw is sound JSON, so once every element is known to begin like a
	// number there are no commas but those between elements.
	rest := bytes.TrimSpace(raw[1 : len(raw)-1])
	for len(rest) > 0 {
		cell, tail, more := bytes.Cut(rest, []byte(","))
		cell = bytes.TrimSpace(cell)
		if c := cell[0]; c != '-' && (c < '0' || c > '9') {
			return fmt.Errorf("value %d: %.40q is not a number", len(rec.Vector), cell)
		}
		if len(rec.Vector) == j.maxDim {
			return fmt.Errorf("more than %d values", j.maxDim)
		}
		v, err := parseFinite(string(cell))
		if err != nil {
			return fmt.Errorf("value %d: %w", len(rec.Vector), err)
		}
		rec.Vector = append(rec.Vector, v)
		if !more {
			break
		}
		rest = tail
	}
	switch n := len(rec.Vector); {
	case n == 0:
		return errors.New("no values")
	case j.dim == 0:
		j.dim = n
	case n != j.dim:
		return fmt.Errorf("%d values, the records before have %d", n, j.dim)
	}
	return nil
}

func (j *jsonl) decodeKey(rec *Record) error {
	raw, raw64 := j.object[j.key], j.object[fieldKeyBase64]
	if j.key == fieldKeyBase64 {
		raw = nil
	}
	has := !isNull(raw) || !isNull(raw64)
	if j.i == 0 {
		j.keyed = has
	}
	if has != j.keyed {
		return fmt.Errorf("field %q: either all records have a key or none", j.key)
	}
	rec.Key = rec.Key[:0]
	var err error
	switch {
	case !isNull(raw) && !isNull(raw64):
		return fmt.Errorf("both %q and %q", j.key, fieldKeyBase64)
	case !has:
		rec.Key = strconv.AppendInt(rec.Key, j.i, 10)
	case isNull(raw):
		if rec.Key, err = appendBase64(rec.Key, raw64); err != nil {
			return fmt.Errorf("field %q: %w", fieldKeyBase64, err)
		}
	default:
		text, err := scalar(raw)
		if err != nil {
			return fmt.Errorf("field %q: %w", j.key, err)
		}
		rec.Key = append(rec.Key, text...)
	}
	if len(rec.Key) == 0 {
		return fmt.Errorf("field %q: empty key", j.key)
	}
	return nil
}

// decodePayload takes a string's text, or any other value's JSON as it stands.
func (j *jsonl) decodePayload(rec *Record) error {
	rec.Payload = rec.Payload[:0]
	raw, raw64 := j.object[j.payload], j.object[fieldPayloadBase64]
	if j.payload == fieldPayloadBase64 {
		raw = nil
	}
	var err error
	switch {
	case !isNull(raw) && !isNull(raw64):
		return fmt.Errorf("both %q and %q", j.payload, fieldPayloadBase64)
	case !isNull(raw64):
		if rec.Payload, err = appendBase64(rec.Payload, raw64); err != nil {
			return fmt.Errorf("field %q: %w", fieldPayloadBase64, err)
		}
	case isNull(raw):
	case raw[0] == '"':
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return fmt.Errorf("field %q: %w", j.payload, err)
		}
		rec.Payload = append(rec.Payload, text...)
	default:
		rec.Payload = append(rec.Payload, raw...)
	}
	return nil
}

// checkFields refuses fields that nothing reads.
func (j *jsonl) checkFields() error {
	unknown := ""
	for name := range j.object {
		ok := name == j.key || name == j.vector || name == j.payload ||
			name == fieldKeyBase64 || name == fieldPayloadBase64 || j.ignore[name]
		for _, l := range j.labels {
			ok = ok || name == l
		}
		// The smallest, so that the message does not depend on map order.
		if !ok && (unknown == "" || name < unknown) {
			unknown = name
		}
	}
	if unknown != "" {
		return fmt.Errorf("unknown field %.40q: name it among the columns to read or to ignore", unknown)
	}
	return nil
}

// appendLabels adds a label, or an array of them.
func appendLabels(dst []string, raw json.RawMessage) ([]string, error) {
	if isNull(raw) {
		return dst, nil
	}
	list := []json.RawMessage{raw}
	if raw[0] == '[' {
		list = nil
		if err := json.Unmarshal(raw, &list); err != nil {
			return dst, err
		}
	}
	for _, item := range list {
		text, err := scalar(item)
		if err != nil {
			return dst, err
		}
		dst = append(dst, text)
	}
	return dst, nil
}

// scalar returns a string's text or a number's digits.
func scalar(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		return string(raw), nil
	}
	return "", fmt.Errorf("%.40q is neither a string nor a number", raw)
}

func appendBase64(dst []byte, raw json.RawMessage) ([]byte, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return dst, errors.New("not a string")
	}
	return base64.StdEncoding.AppendDecode(dst, []byte(text))
}

func isNull(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null"
}
