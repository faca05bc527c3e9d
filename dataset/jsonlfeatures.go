package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anndb/anndb/vector"
)

// jsonFeatures decodes the features of jsonl objects.
type jsonFeatures struct {
	out    *vector.Sparse
	limit  uint64
	kind   *featureKind // of the records before
	known  []string
	number map[string]uint32
}

func newJSONFeatures(o Options) jsonFeatures {
	s := jsonFeatures{limit: uint64(o.MaxFeatures), number: map[string]uint32{}}
	for _, name := range o.FeatureNames {
		s.number[name] = uint32(len(s.known))
		s.known = append(s.known, name)
	}
	return s
}

// featureKind is how a file identifies features; all records agree.
type featureKind uint8

const (
	unknownFeatures featureKind = iota
	namedFeatures
	numberedFeatures
)

func (k featureKind) String() string {
	if k == namedFeatures {
		return "names"
	}
	return "numbers"
}

// decode takes {"name": value}, {"indices": [], "values": []} or
// [[number, value]], all of the kind that the first record sets.
func (s *jsonFeatures) decode(out *vector.Sparse, raw json.RawMessage, kind *featureKind) error {
	s.out, s.kind = out, kind
	if isNull(raw) {
		return errors.New("missing")
	}
	var err error
	switch raw[0] {
	case '{':
		if parts, ok := asParts(raw); ok {
			err = s.decodeParts(parts)
		} else {
			err = s.decodeNamed(raw)
		}
	case '[':
		err = s.decodePairs(raw)
	default:
		err = errors.New("neither an object nor an array")
	}
	if err != nil {
		return err
	}
	if err = tidy(out, 0); errors.Is(err, errRepeatedFeature) && *s.kind == namedFeatures {
		err = errors.New("a name is given twice")
	}
	return err
}

// parts is a sparse vector in two arrays.
type parts struct {
	Indices []json.Number `json:"indices"`
	Values  []json.Number `json:"values"`
}

// asParts reports whether an object is that rather than one of named features,
// two of which may have the same names as the arrays.
func asParts(raw json.RawMessage) (parts, bool) {
	var p parts
	if !bytes.Contains(raw, []byte(`"indices"`)) {
		return p, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(&p)
	return p, err == nil && p.Indices != nil && p.Values != nil
}

// is holds all records to the kind of the first.
func (s *jsonFeatures) is(kind featureKind) error {
	if *s.kind == unknownFeatures {
		*s.kind = kind
	}
	if *s.kind != kind {
		return fmt.Errorf("features have %v here and %v in the records before", kind, *s.kind)
	}
	return nil
}

// decodeNamed reads tokens, not a map, so that a name that is given twice is
// seen and features are numbered in order of appearance.
func (s *jsonFeatures) decodeNamed(raw json.RawMessage) error {
	if err := s.is(namedFeatures); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if _, err := d.Token(); err != nil { // the brace
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		value, err := d.Token()
		if err != nil {
			return err
		}
		digits, ok := value.(json.Number)
		if !ok {
			return fmt.Errorf("feature %.40q: its value is not a number", name)
		}
		v, err := parseFinite(digits.String())
		if err != nil {
			return fmt.Errorf("feature %.40q: %w", name, err)
		}
		f, err := s.feature(name.(string))
		if err != nil {
			return err
		}
		s.add(f, v)
	}
	return nil
}

// feature is the number of a name.
func (s *jsonFeatures) feature(name string) (uint32, error) {
	f, ok := s.number[name]
	if !ok {
		if uint64(len(s.known)) >= s.limit {
			return 0, fmt.Errorf("feature %.40q is one more than %d", name, s.limit)
		}
		f = uint32(len(s.known))
		s.number[name] = f
		s.known = append(s.known, name)
	}
	return f, nil
}

func (s *jsonFeatures) decodeParts(p parts) error {
	if err := s.is(numberedFeatures); err != nil {
		return err
	}
	if len(p.Indices) != len(p.Values) {
		return fmt.Errorf("%d indices with %d values", len(p.Indices), len(p.Values))
	}
	for i := range p.Indices {
		if err := s.addNumbered(p.Indices[i], p.Values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *jsonFeatures) decodePairs(raw json.RawMessage) error {
	if err := s.is(numberedFeatures); err != nil {
		return err
	}
	var list [][]json.Number
	if err := json.Unmarshal(raw, &list); err != nil {
		return errors.New("not an array of [number, value]")
	}
	for i, pair := range list {
		if len(pair) != 2 {
			return fmt.Errorf("entry %d is not [number, value]", i)
		}
		if err := s.addNumbered(pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *jsonFeatures) addNumbered(feature, value json.Number) error {
	f, ok := parseNumber([]byte(feature))
	if !ok {
		return fmt.Errorf("feature %.40q is no whole number", feature)
	}
	if f >= s.limit {
		return fmt.Errorf("feature %d, there are at most %d", f, s.limit)
	}
	v, err := parseFinite(value.String())
	if err != nil {
		return fmt.Errorf("feature %d: %w", f, err)
	}
	s.add(uint32(f), v)
	return nil
}

func (s *jsonFeatures) add(f uint32, v float32) {
	s.out.Index = append(s.out.Index, f)
	s.out.Value = append(s.out.Value, v)
}
