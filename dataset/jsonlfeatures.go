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

// decode takes {"name": value} or {"indices": [], "values": []}, all of the kind that the first record sets.
func (s *jsonFeatures) decode(out *vector.Sparse, raw json.RawMessage, kind *featureKind) error {
	s.out, s.kind = out, kind
	if isNull(raw) {
		return errors.New("missing")
	}
	if raw[0] != '{' {
		return errors.New("not an object")
	}
	p, ok, err := asParts(raw)
	switch {
	case err != nil:
	case ok:
		err = s.decodeParts(p)
	default:
		err = s.decodeNamed(raw)
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
	Indices, Values []json.Number
}

// asParts reports whether an object is that rather than one of named features,
// two of which may have the same names as the arrays.
func asParts(raw json.RawMessage) (p parts, ok bool, err error) {
	if !bytes.Contains(raw, []byte(`"indices"`)) {
		return p, false, nil
	}
	fields := map[string]json.RawMessage{}
	if fieldsOf(fields, raw, 2) != nil {
		return p, false, nil
	}
	indices, values := fields["indices"], fields["values"]
	if isNull(indices) || isNull(values) || indices[0] != '[' || values[0] != '[' {
		return p, false, nil
	}
	if p.Indices, err = numbersIn(indices); err == nil {
		p.Values, err = numbersIn(values)
	}
	return p, true, err
}

// numbersIn returns the numbers of an array.
func numbersIn(raw json.RawMessage) (list []json.Number, err error) {
	err = eachItem(raw, func(item json.RawMessage) error {
		if !isNumber(item) {
			return fmt.Errorf("%.40q is not a number", item)
		}
		if len(list) == maxRecordFeatures {
			return errManyNumbers
		}
		list = append(list, json.Number(item))
		return nil
	})
	return list, err
}

// isNumber reports whether a JSON value is a number.
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
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

// decodeNamed numbers features in order of appearance.
func (s *jsonFeatures) decodeNamed(raw json.RawMessage) error {
	if err := s.is(namedFeatures); err != nil {
		return err
	}
	return eachField(raw, func(name string, value json.RawMessage) error {
		if !isNumber(value) {
			return fmt.Errorf("feature %.40q: its value is not a number", name)
		}
		v, err := parseFinite(string(value))
		if err != nil {
			return fmt.Errorf("feature %.40q: %w", name, err)
		}
		f, err := s.feature(name)
		if err != nil {
			return err
		}
		return appendFeature(s.out, f, v)
	})
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
	return appendFeature(s.out, uint32(f), v)
}
