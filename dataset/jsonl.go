package dataset

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/anndb/anndb/vector"
)

// Fields of a jsonl object besides those that Options can rename.
const (
	fieldKeyBase64     = "key_base64"
	fieldPayloadBase64 = "payload_base64"
)

// jsonl reads one JSON object a line.
type jsonl struct {
	payload          string // field names
	vector, features string
	text             string
	labels           []string
	ignore           map[string]bool
	first            jsonFirst
	begun            bool // a record has been read
	noVector, noText bool // the fields vector and text have other uses
	named            bool // the options name the vector
	both             bool // a text can have a vector: it is named, or the first record has its field
	maxDim           int
	object           map[string]json.RawMessage
	sparse           jsonFeatures
	attributes       jsonAttributes
	set              labelSet
}

// jsonFirst is what the first record decides for the others.
type jsonFirst struct {
	kind  Kind   // AnyKind before, if both will do
	key   string // field with the key
	keyed bool   // it has a key, so all must
	dim   int
	named featureKind
}

// openJSONL reads JSON lines.
func openJSONL(s *source, o Options) (decoder, error) {
	j := &jsonl{
		vector: o.VectorField, features: o.FeaturesField,
		labels: o.LabelColumns, payload: o.PayloadColumn,
		named: o.vectorNamed, ignore: map[string]bool{}, maxDim: o.MaxDim, object: map[string]json.RawMessage{},
	}
	j.first = jsonFirst{kind: o.Kind, key: o.KeyColumn}
	j.text = cmp.Or(o.TextColumn, defaultText)
	j.noText, j.noVector = o.TextColumn == "" && o.name(j.text), !o.vectorNamed && o.name(j.vector)
	if j.labels == nil {
		j.labels = []string{"labels"}
	}
	if j.payload == "" {
		j.payload = "payload"
	}
	for _, name := range o.IgnoreColumns {
		j.ignore[name] = true
	}
	j.sparse, j.attributes = newJSONFeatures(o), newJSONAttributes(o)
	return &lineDecoder{rowDecoder: j, lines: newLines(s)}, nil
}

func (j *jsonl) schema() Schema {
	s := Schema{Kind: j.first.kind, Dim: j.first.dim, Base: BaseZero, Records: -1, Keyed: j.first.keyed}
	if s.Kind == Sparse {
		s.FeatureNames = j.sparse.known
	}
	return s
}

func (j *jsonl) end(n int64) error { return someRecords(n) }

func (j *jsonl) decode(rec *Record, line []byte) (bool, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false, nil
	}
	before := j.first
	if err := j.decodeObject(rec, line); err != nil {
		if !j.begun { // a record that is rejected decides nothing
			j.first = before
		}
		return false, err
	}
	j.begun = true
	return true, nil
}

// decodeObject decodes a line that is not empty.
func (j *jsonl) decodeObject(rec *Record, line []byte) error {
	var err error
	switch {
	case line[0] == '[':
		err = errors.New(
			"an array, not a JSON object: JSON lines have an object a line (jq -c '.[]' writes them so)")
	case string(line) == "{":
		err = errors.New("an object of several lines: JSON lines have an object a line (jq -c . writes them so)")
	}
	if err != nil && !j.begun {
		return allRecords{err}
	}
	if err != nil {
		return err
	}
	if err := j.parse(line); err != nil {
		return err
	}
	if err := j.decodeBody(rec); err != nil {
		return err
	}
	if err := j.decodeKey(rec); err != nil {
		return err
	}
	for _, name := range j.labels {
		var err error
		if rec.Labels, err = appendLabels(rec.Labels, j.object[name]); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	if j.first.kind == Sparse {
		rec.Labels = j.set.once(rec.Labels)
	}
	if err := j.decodePayload(rec); err != nil {
		return err
	}
	if err := j.attributes.decode(rec, j.object, j.ignore); err != nil {
		return err
	}
	return j.checkFields()
}

// parse takes a line apart into the fields of its object.
func (j *jsonl) parse(line []byte) error {
	// encoding/json would replace bad bytes silently.
	if !utf8.Valid(line) {
		return errors.New("not UTF-8")
	}
	clear(j.object)
	if !json.Valid(line) {
		var s *json.SyntaxError
		err := json.Unmarshal(line, &struct{}{})
		if errors.As(err, &s) {
			return fmt.Errorf("byte %d: %w", s.Offset, err)
		}
		return err
	}
	if line[0] != '{' {
		return errors.New("not a JSON object")
	}
	return fieldsOf(j.object, line, maxFields)
}

// decodeBody decodes the vector, the features or the text.
func (j *jsonl) decodeBody(rec *Record) error {
	vector, features, text := j.object[j.vector], j.object[j.features], j.object[j.text]
	if j.noVector {
		vector = nil
	}
	if j.noText {
		text = nil
	}
	if j.first.kind == AnyKind {
		switch {
		case !isNull(text) && isNull(features), len(text) > 0 && !isNull(vector):
			j.first.kind = Text
		case !isNull(vector):
			j.first.kind = Dense
		case !isNull(features):
			j.first.kind = Sparse
		default:
			return fmt.Errorf("field %q, %q or %q: missing", j.vector, j.features, j.text)
		}
	}
	if j.first.kind == Text {
		return j.decodeTexts(rec, text, vector)
	}
	if j.first.kind == Sparse {
		if err := j.sparse.decode(&rec.Features, features, &j.first.named); err != nil {
			return fmt.Errorf("field %q: %w", j.features, err)
		}
		return nil
	}
	if err := j.decodeVector(rec, vector); err != nil {
		return fmt.Errorf("field %q: %w", j.vector, err)
	}
	return nil
}

// decodeTexts decodes a text and the vector next to it. One of them can be missing.
func (j *jsonl) decodeTexts(rec *Record, text, vector json.RawMessage) error {
	if !j.begun {
		j.both = j.named || len(vector) > 0
	}
	if len(text) > 0 || isNull(vector) {
		if err := decodeText(rec, text); err != nil {
			return fmt.Errorf("field %q: %w", j.text, err)
		}
	}
	if isNull(vector) {
		return nil
	}
	if err := j.decodeVector(rec, vector); err != nil {
		return fmt.Errorf("field %q: %w", j.vector, err)
	}
	return nil
}

// awaits reports whether the dimension of the vectors next to texts is not known yet.
func (j *jsonl) awaits() bool { return j.both && j.first.dim == 0 }

// decodeText decodes the text of a record; null is an empty one.
func decodeText(rec *Record, raw json.RawMessage) (err error) {
	switch {
	case len(raw) == 0:
		return errors.New("missing")
	case isNull(raw):
		return nil
	case raw[0] != '"':
		return fmt.Errorf("%.40q is not a string", raw)
	}
	rec.Text, err = jsonText(raw)
	return err
}

func (j *jsonl) decodeVector(rec *Record, raw json.RawMessage) error {
	if isNull(raw) {
		return errors.New("missing")
	}
	if raw[0] != '[' {
		return errors.New("not an array of numbers")
	}
	// raw is valid JSON, so once every element is known to begin like a
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
	case j.first.dim == 0:
		j.first.dim = n
	case n != j.first.dim:
		return fmt.Errorf("%d values, the records before have %d", n, j.first.dim)
	}
	return nil
}

// keyField returns the field of the key where the options do not name it: id in a first record that has
// no key and where id is not an attribute.
func (j *jsonl) keyField() string {
	id := j.object["id"]
	if isNull(j.object["key"]) && isNull(j.object[fieldKeyBase64]) && !isNull(id) &&
		!j.ignore["id"] && !j.attributes.has("id") {
		return "id"
	}
	return "key"
}

func (j *jsonl) decodeKey(rec *Record) error {
	if j.first.key == "" {
		j.first.key = j.keyField()
	}
	field := j.first.key
	raw, raw64 := j.object[field], j.object[fieldKeyBase64]
	if field == fieldKeyBase64 {
		raw = nil
	}
	has := !isNull(raw) || !isNull(raw64)
	if !j.begun {
		j.first.keyed = has
	}
	if has != j.first.keyed {
		return fmt.Errorf("field %q: either all records have a key or none", field)
	}
	if !has {
		return nil
	}
	rec.Key = rec.Key[:0]
	var err error
	switch {
	case !isNull(raw) && !isNull(raw64):
		return fmt.Errorf("both %q and %q", field, fieldKeyBase64)
	case isNull(raw):
		if rec.Key, err = appendBase64(rec.Key, raw64); err != nil {
			return fmt.Errorf("field %q: %w", fieldKeyBase64, err)
		}
	default:
		text, err := scalar(raw)
		if err != nil {
			return fmt.Errorf("field %q: %w", field, err)
		}
		rec.Key = append(rec.Key, text...)
	}
	if len(rec.Key) == 0 {
		return fmt.Errorf("field %q: empty key", field)
	}
	return nil
}

// decodePayload takes a string's text, or any other value's JSON unchanged.
func (j *jsonl) decodePayload(rec *Record) error {
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
	body := [...]string{Dense: j.vector, Sparse: j.features, Text: j.text}[j.first.kind]
	vector := j.vector
	if j.first.kind != Text {
		vector = body
	}
	unknown, found := "", false
	for name := range j.object {
		ok := name == j.first.key || name == body || name == vector || name == j.payload ||
			name == fieldKeyBase64 || name == fieldPayloadBase64 || j.ignore[name] ||
			j.attributes.has(name)
		for _, l := range j.labels {
			ok = ok || name == l
		}
		// The smallest, so that the message does not depend on map order.
		if !ok && (!found || name < unknown) {
			unknown, found = name, true
		}
	}
	if found {
		return fmt.Errorf("unknown field %.40q: name it among the columns to read or to ignore", unknown)
	}
	return nil
}

// appendLabels adds a label, or an array of them.
func appendLabels(dst []string, raw json.RawMessage) ([]string, error) {
	if isNull(raw) {
		return dst, nil
	}
	add := func(item json.RawMessage) error {
		text, err := scalar(item)
		if err != nil {
			return err
		}
		dst, err = appendLabel(dst, text)
		return err
	}
	if raw[0] != '[' {
		err := add(raw)
		return dst, err
	}
	err := eachItem(raw, add)
	return dst, err
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

var errEmptyKey = errors.New("empty key")

// jsonlEncoder writes one object a line, features by name if there are names.
type jsonlEncoder struct {
	noHeader
	kind  Kind
	dim   int
	names []string
}

func newJSONLEncoder(s Schema) (encoder, error) {
	return jsonlEncoder{kind: s.Kind, dim: s.Dim, names: s.FeatureNames}, nil
}

func (e jsonlEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	dst, err := appendText(append(dst, '{'), "key", fieldKeyBase64, rec.Key)
	if err != nil {
		return dst, err
	}
	switch {
	case e.kind == Text:
		if dst, err = appendString(append(dst, `,"text":`...), rec.Text); err != nil {
			return dst, err
		}
		if len(rec.Vector) > 0 {
			dst = appendNumbers(append(dst, `,"vector":`...), rec.Vector)
		} else if e.dim > 0 {
			dst = append(dst, `,"vector":null`...)
		}
	case e.kind != Sparse:
		dst = appendNumbers(append(dst, `,"vector":`...), rec.Vector)
	case e.names == nil:
		dst = append(dst, `,"features":{"indices":[`...)
		for i, f := range rec.Features.Index {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendUint(dst, uint64(f), 10)
		}
		dst = append(appendNumbers(append(dst, `],"values":`...), rec.Features.Value), '}')
	default:
		if dst, err = e.appendNamed(append(dst, `,"features":{`...), &rec.Features); err != nil {
			return dst, err
		}
	}
	for i, l := range rec.Labels {
		if i == 0 {
			dst = append(dst, `,"labels":[`...)
		} else {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, l); err != nil {
			return dst, fmt.Errorf("label %d: %w", i, err)
		}
	}
	if len(rec.Labels) > 0 {
		dst = append(dst, ']')
	}
	if len(rec.Payload) > 0 {
		if dst, err = appendText(append(dst, ','), "payload", fieldPayloadBase64, rec.Payload); err != nil {
			return dst, err
		}
	}
	dst, err = appendExtras(dst, rec)
	return append(dst, '}', '\n'), err
}

// appendNamed writes features by their names, and the closing brace.
func (e jsonlEncoder) appendNamed(dst []byte, v *vector.Sparse) ([]byte, error) {
	for i, f := range v.Index {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendString(dst, e.names[f]); err != nil {
			return dst, fmt.Errorf("feature %d: %w", f, err)
		}
		dst = append(dst, ':')
		dst = strconv.AppendFloat(dst, float64(v.Value[i]), 'g', -1, 32)
	}
	return append(dst, '}'), nil
}

// appendNumbers writes an array.
func appendNumbers(dst []byte, values []float32) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	return append(dst, ']')
}

// appendString writes a JSON string.
func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%.40q is not UTF-8", s)
	}
	quoted, err := json.Marshal(s)
	return append(dst, quoted...), err
}

// appendText writes a field as a string, or, since JSON has no other place for
// bytes that are not UTF-8, under its second name in base64.
func appendText(dst []byte, name, name64 string, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		dst = append(dst, '"')
		dst = append(dst, name64...)
		dst = append(dst, `":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, text)
		return append(dst, '"'), nil
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return dst, err
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	return append(dst, quoted...), nil
}
