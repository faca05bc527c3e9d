package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anndb/anndb/internal/jsonscan"
	"github.com/anndb/anndb/vector"
)

// jsonFeatures decodes the features of jsonl objects.
type jsonFeatures struct {
	limit  uint64
	known  []string
	number map[string]uint32
}

func newJSONFeatures(o Options) jsonFeatures {
	s := jsonFeatures{limit: uint64(o.MaxFeatures), known: o.FeatureNames, number: map[string]uint32{}}
	for i, name := range o.FeatureNames {
		s.number[name] = uint32(i)
	}
	return s
}

// featureKind is how a file identifies features; all records agree.
type featureKind string

const (
	namedFeatures    featureKind = "names"
	numberedFeatures featureKind = "numbers"
)

// decode reads {"name": value} or {"indices": [], "values": []}, all of the kind that the first record sets.
func (s *jsonFeatures) decode(out *vector.Sparse, raw json.RawMessage, kind *featureKind) error {
	if isNull(raw) {
		return errors.New("missing")
	}
	if raw[0] != '{' {
		return errors.New("not an object")
	}
	indices, values := arraysOf(raw)
	has := namedFeatures
	if indices != nil {
		has = numberedFeatures
	}
	if *kind == "" {
		*kind = has
	}
	switch {
	case *kind != has:
		return fmt.Errorf("features have %v here and %v in the records before", has, *kind)
	case has == numberedFeatures:
		if err := s.decodeNumbered(out, indices, values); err != nil {
			return err
		}
		return tidy(out, 0)
	}
	if err := s.decodeNamed(out, raw); err != nil {
		return err
	}
	err := tidy(out, 0)
	if errors.Is(err, errRepeatedFeature) {
		err = errors.New("a name is given twice")
	}
	return err
}

// arraysOf returns the two arrays of a sparse vector; nil if the object has named features, two of which may
// have the same names as the arrays.
func arraysOf(raw json.RawMessage) (indices, values json.RawMessage) {
	fields := map[string]json.RawMessage{}
	if !bytes.Contains(raw, []byte(`"indices"`)) || jsonscan.FieldsOf(fields, raw, 2) != nil {
		return nil, nil
	}
	indices, values = fields["indices"], fields["values"]
	if isNull(indices) || isNull(values) || indices[0] != '[' || values[0] != '[' {
		return nil, nil
	}
	return indices, values
}

// isNumber reports whether a JSON value is a number.
func isNumber(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

func (s *jsonFeatures) decodeNumbered(out *vector.Sparse, indices, values json.RawMessage) error {
	err := jsonscan.Items(indices, func(item json.RawMessage) error {
		f, ok := parseNumber(item)
		if !ok {
			return fmt.Errorf("feature %.40q is no whole number", item)
		}
		if f >= s.limit {
			return fmt.Errorf("feature %d, there are at most %d", f, s.limit)
		}
		return appendFeature(out, uint32(f), 0)
	})
	if err != nil {
		return err
	}
	n := 0
	err = jsonscan.Items(values, func(item json.RawMessage) (err error) {
		switch {
		case !isNumber(item):
			return fmt.Errorf("%.40q is not a number", item)
		case n < len(out.Value):
			if out.Value[n], err = parseFinite(string(item)); err != nil {
				return fmt.Errorf("feature %d: %w", out.Index[n], err)
			}
		}
		n++
		return nil
	})
	if err == nil && n != len(out.Index) {
		err = fmt.Errorf("%d indices with %d values", len(out.Index), n)
	}
	return err
}

// decodeNamed numbers features in order of appearance.
func (s *jsonFeatures) decodeNamed(out *vector.Sparse, raw json.RawMessage) error {
	return jsonscan.Fields(raw, func(name string, value json.RawMessage) error {
		if !isNumber(value) {
			return fmt.Errorf("feature %.40q: its value is not a number", name)
		}
		v, err := parseFinite(string(value))
		if err != nil {
			return fmt.Errorf("feature %.40q: %w", name, err)
		}
		f, ok := s.number[name]
		if !ok {
			if uint64(len(s.known)) >= s.limit {
				return fmt.Errorf("feature %.40q is one more than %d", name, s.limit)
			}
			f = uint32(len(s.known))
			s.number[name], s.known = f, append(s.known, name)
		}
		return appendFeature(out, f, v)
	})
}
