package dataset

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/anndb/anndb/internal/jsonscan"
	"github.com/anndb/anndb/vector"
)

// Fields of a jsonl object besides those that Options can rename.
const (
	fieldKeyBase64     = "key_base64"
	fieldPayloadBase64 = "payload_base64"
)

// maxFields bounds the fields of an object, those that are ignored among them.
const maxFields = 1 << 12

// jsonl reads one JSON object a line.
type jsonl struct {
	o                      Options
	text, payload, expires string // names of fields
	labels                 []string
	ignore                 map[string]bool
	known                  map[string]bool // fields that are read; nil until a record has been read
	first                  jsonFirst
	begun                  bool // a record has been read
	noVector, noText       bool // the fields vector and text have other uses
	both                   bool // a text can have a vector: it is named, or the first record has its field
	object                 map[string]json.RawMessage
	sparse                 jsonFeatures
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
	return &lineDecoder{rowDecoder: newJSONL(o), lines: newLines(s)}, nil
}

func newJSONL(o Options) *jsonl {
	j := &jsonl{
		o: o, text: cmp.Or(o.TextColumn, defaultText), payload: cmp.Or(o.PayloadColumn, "payload"),
		expires: cmp.Or(o.ExpiryColumn, defaultExpiry), labels: o.LabelColumns, ignore: map[string]bool{},
		first: jsonFirst{kind: o.Kind, key: o.KeyColumn}, noVector: !o.vectorNamed && o.name(o.VectorField),
		object: map[string]json.RawMessage{}, sparse: newJSONFeatures(o),
	}
	j.noText = o.TextColumn == "" && o.name(j.text)
	if j.labels == nil {
		j.labels = []string{"labels"}
	}
	for _, name := range o.IgnoreColumns {
		j.ignore[name] = true
	}
	return j
}

func (j *jsonl) schema() Schema {
	s := Schema{Kind: j.first.kind, Dim: j.first.dim, Base: BaseZero, Records: -1, Keyed: j.first.keyed}
	if s.Kind == Sparse {
		s.Dim, s.FeatureNames = 0, j.sparse.known
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
		if err := rec.addLabels(j.object[name]); err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
	}
	if err := j.decodePayload(rec); err != nil {
		return err
	}
	if err := j.decodeAttributes(rec); err != nil {
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
	err := jsonscan.FieldsOf(j.object, line, maxFields)
	if err != jsonscan.ErrSyntax {
		return err
	}
	var s *json.SyntaxError
	if err := json.Unmarshal(line, &struct{}{}); errors.As(err, &s) {
		return fmt.Errorf("byte %d: %w", s.Offset, err)
	}
	return errors.New("not a JSON object")
}

// decodeBody decodes the vector, the features or the text.
func (j *jsonl) decodeBody(rec *Record) error {
	vector, features, text := j.object[j.o.VectorField], j.object[j.o.FeaturesField], j.object[j.text]
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
		case !isNull(features):
			j.first.kind = Sparse
		case !isNull(vector):
			j.first.kind = Dense
		default:
			return fmt.Errorf("field %q, %q or %q: missing", j.o.VectorField, j.o.FeaturesField, j.text)
		}
	}
	if j.first.kind == Text {
		return j.decodeTexts(rec, text, vector)
	}
	if j.first.kind == Sparse && (!isNull(features) || isNull(vector)) {
		if err := j.sparse.decode(&rec.Features, features, &j.first.named); err != nil {
			return fmt.Errorf("field %q: %w", j.o.FeaturesField, err)
		}
		if isNull(vector) {
			return nil
		}
	}
	if err := j.decodeVector(rec, vector); err != nil {
		return fmt.Errorf("field %q: %w", j.o.VectorField, err)
	}
	return nil
}

// decodeTexts decodes a text and the vector next to it. One of them can be missing.
func (j *jsonl) decodeTexts(rec *Record, text, vector json.RawMessage) error {
	if !j.begun {
		j.both = j.o.vectorNamed || len(vector) > 0
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
		return fmt.Errorf("field %q: %w", j.o.VectorField, err)
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
	rec.Text, err = jsonscan.Text(raw)
	return err
}

func (j *jsonl) decodeVector(rec *Record, raw json.RawMessage) (err error) {
	if isNull(raw) {
		return errors.New("missing")
	}
	if rec.Vector, err = AppendVector(rec.Vector, raw, j.o.MaxDim); err != nil {
		return err
	}
	switch n := len(rec.Vector); {
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
	attribute := slices.ContainsFunc(j.o.Attributes, func(a Attribute) bool { return a.Name == "id" })
	if isNull(j.object["key"]) && isNull(j.object[fieldKeyBase64]) && !isNull(j.object["id"]) &&
		!j.ignore["id"] && !attribute {
		return "id"
	}
	return "key"
}

func (j *jsonl) decodeKey(rec *Record) error {
	if j.first.key == "" {
		j.first.key = j.keyField()
	}
	field := j.first.key
	raw, is64, err := j.either(field, fieldKeyBase64)
	if err != nil {
		return err
	}
	has := !isNull(raw)
	if !j.begun {
		j.first.keyed = has
	}
	if has != j.first.keyed {
		return fmt.Errorf("field %q: either all records have a key or none", field)
	}
	if !has {
		return nil
	}
	if is64 {
		rec.Key, err = appendBase64(rec.Key[:0], raw)
		field = fieldKeyBase64
	} else {
		var text string
		text, err = scalar(raw)
		rec.Key = append(rec.Key[:0], text...)
	}
	if err == nil && len(rec.Key) == 0 {
		err = errEmptyKey
	}
	if err != nil {
		return fmt.Errorf("field %q: %w", field, err)
	}
	return nil
}

// either returns a field, or that which has the same in base64.
func (j *jsonl) either(field, field64 string) (raw json.RawMessage, is64 bool, err error) {
	raw, raw64 := j.object[field], j.object[field64]
	switch {
	case isNull(raw64):
		return raw, false, nil
	case field != field64 && !isNull(raw):
		return nil, false, fmt.Errorf("both %q and %q", field, field64)
	}
	return raw64, true, nil
}

// decodePayload takes a string's text, or any other value's JSON unchanged.
func (j *jsonl) decodePayload(rec *Record) error {
	raw, is64, err := j.either(j.payload, fieldPayloadBase64)
	field := j.payload
	switch {
	case err != nil:
		return err
	case is64:
		rec.Payload, err = appendBase64(rec.Payload, raw)
		field = fieldPayloadBase64
	case isNull(raw):
	case raw[0] == '"':
		var text string
		text, err = jsonscan.Text(raw)
		rec.Payload = append(rec.Payload, text...)
	default:
		rec.Payload = append(rec.Payload, raw...)
	}
	if err != nil {
		return fmt.Errorf("field %q: %w", field, err)
	}
	return nil
}

// checkFields refuses fields that nothing reads.
func (j *jsonl) checkFields() error {
	if !j.begun { // the first record decides which are read
		body := [...]string{Dense: j.o.VectorField, Sparse: j.o.FeaturesField, Text: j.text}[j.first.kind]
		j.known = map[string]bool{
			j.first.key: true, body: true, j.payload: true, fieldKeyBase64: true, fieldPayloadBase64: true,
			j.o.AttributesField: true, j.expires: true,
		}
		if j.first.kind != Dense {
			j.known[j.o.VectorField] = true
		}
		for _, c := range j.o.names() {
			j.known[c.name] = true
		}
		for _, label := range j.labels {
			j.known[label] = true
		}
	}
	var unknown []string
	for name := range j.object {
		if !j.known[name] {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 { // the smallest, so that the message does not depend on map order
		return fmt.Errorf("unknown field %.40q: name it among the columns to read or to ignore",
			slices.Min(unknown))
	}
	return nil
}

// addLabels adds a label, or an array of them.
func (r *Record) addLabels(raw json.RawMessage) error {
	add := func(item json.RawMessage) error {
		text, err := scalar(item)
		if err != nil {
			return err
		}
		return r.addLabel(text)
	}
	switch {
	case isNull(raw):
		return nil
	case raw[0] == '[':
		return jsonscan.Items(raw, add)
	}
	return add(raw)
}

// scalar returns a string's text or a number's digits.
func scalar(raw json.RawMessage) (string, error) {
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		return jsonscan.Text(raw)
	case isNumber(raw):
		return string(raw), nil
	}
	return "", fmt.Errorf("%.40q is neither a string nor a number", raw)
}

func appendBase64(dst []byte, raw json.RawMessage) ([]byte, error) {
	if raw[0] != '"' {
		return dst, errors.New("not a string")
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return base64.StdEncoding.AppendDecode(dst, raw[1:len(raw)-1])
	}
	text, err := jsonscan.Text(raw)
	if err != nil {
		return dst, err
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
	kind   Kind
	dim    int
	names  []string
	base64 bool
}

func newJSONLEncoder(s Schema) (encoder, error) {
	return jsonlEncoder{kind: s.Kind, dim: s.Dim, names: s.FeatureNames, base64: s.Base64}, nil
}

// AppendJSON appends a record as a line of a jsonl file with the schema, with the line feed. Values are not
// compared with the schema.
func AppendJSON(dst []byte, s Schema, rec *Record) ([]byte, error) {
	e, _ := newJSONLEncoder(s) // without errors
	return e.encode(dst, rec)
}

// ParseJSON reads a record as the only one of a jsonl file, and its schema. The record has no key if the
// line has none. Errors: ErrFormat, ErrOption.
func ParseJSON(line []byte, o Options) (rec Record, s Schema, err error) {
	o.Format = FormatJSONL
	if o, err = o.normal(); err != nil {
		return rec, s, err
	}
	j := newJSONL(o)
	ok, err := j.decode(&rec, line)
	if err == nil && !ok {
		err = errNoRecords
	}
	if err != nil {
		return rec, s, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return rec, j.schema(), nil
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
			dst = e.appendVector(dst, rec.Vector)
		} else if e.dim > 0 {
			dst = append(dst, `,"vector":null`...)
		}
	case e.kind != Sparse:
		dst = e.appendVector(dst, rec.Vector)
	case e.names == nil:
		dst = append(dst, `,"features":{"indices":[`...)
		for _, f := range rec.Features.Index {
			dst = append(strconv.AppendUint(dst, uint64(f), 10), ',')
		}
		dst = appendNumbers(append(bytes.TrimSuffix(dst, []byte(",")), `],"values":`...), rec.Features.Value)
		dst = append(dst, '}')
	default:
		if dst, err = e.appendNamed(append(dst, `,"features":{`...), &rec.Features); err != nil {
			return dst, err
		}
	}
	if e.kind == Sparse && len(rec.Vector) > 0 {
		dst = e.appendVector(dst, rec.Vector)
	}
	if len(rec.Labels) > 0 {
		dst = append(dst, `,"labels":[`...)
		for i, l := range rec.Labels {
			if dst, err = appendString(dst, l); err != nil {
				return dst, fmt.Errorf("label %d: %w", i, err)
			}
			dst = append(dst, ',')
		}
		dst[len(dst)-1] = ']'
	}
	if len(rec.Payload) > 0 {
		if dst, err = appendText(append(dst, ','), "payload", fieldPayloadBase64, rec.Payload); err != nil {
			return dst, err
		}
	}
	dst, err = appendExtras(dst, rec)
	return append(dst, '}', '\n'), err
}

// appendVector writes the field of a vector.
func (e jsonlEncoder) appendVector(dst []byte, x []float32) []byte {
	dst = append(dst, `,"vector":`...)
	if e.base64 {
		return AppendBase64(dst, x)
	}
	return appendNumbers(dst, x)
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
		dst = appendNumber(dst, v.Value[i])
	}
	return append(dst, '}'), nil
}

// appendString writes a JSON string.
func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%.40q is not UTF-8", s)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, err := json.Marshal(s)
			return append(dst, quoted...), err
		}
	}
	return append(append(append(dst, '"'), s...), '"'), nil
}

// appendText writes a field as a string, or, since JSON has no other place for
// bytes that are not UTF-8, under its second name in base64.
func appendText(dst []byte, name, name64 string, text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		dst = append(append(append(dst, '"'), name64...), `":"`...)
		return append(base64.StdEncoding.AppendEncode(dst, text), '"'), nil
	}
	return appendString(append(append(append(dst, '"'), name...), `":`...), string(text))
}
