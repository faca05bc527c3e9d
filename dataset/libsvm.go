package dataset

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/vector"
)

// libsvm reads lines "label,label feature:value feature:value # comment". The query of a file for learning
// to rank, "label qid:1 feature:value", is the attribute qid.
type libsvm struct {
	pairs
	texts interned
	known []string
}

func openLibsvm(s *source, o Options) (decoder, error) {
	l := &libsvm{texts: interned{}, known: o.FeatureNames}
	l.limit = uint64(o.MaxFeatures)
	if n := len(o.FeatureNames); n > 0 {
		l.limit = uint64(n)
	}
	if o.Base == BaseOne || o.Base == BaseAuto && !hasFeatureZero(s.peek(bufferSize)) {
		l.base = 1
	}
	l.guessed = o.Base == BaseAuto
	return &lineDecoder{rowDecoder: l, lines: newLines(s)}, nil
}

// hasFeatureZero reports whether a field of the text begins with "0:".
func hasFeatureZero(head []byte) bool {
	for {
		at := bytes.Index(head, []byte("0:"))
		if at < 0 {
			return false
		}
		if at == 0 || isBlank(head[at-1]) || head[at-1] == '\n' {
			return true
		}
		head = head[at+1:]
	}
}

func (l *libsvm) schema() Schema {
	s := Schema{Kind: Sparse, Dim: len(l.known), Base: BaseZero, FeatureNames: l.known, Records: -1}
	if l.base == 1 {
		s.Base = BaseOne
	}
	return s
}

func (l *libsvm) end(n int64) error { return someRecords(n) }

func (l *libsvm) decode(rec *Record, line []byte) (bool, error) {
	line, _, _ = bytes.Cut(line, []byte("#"))
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false, nil
	}
	head, rest := cutField(line)
	if bytes.IndexByte(head, ':') >= 0 {
		rest = line // no labels
	} else {
		for label := range bytes.SplitSeq(head, []byte(",")) {
			if len(label) == 0 {
				return false, fmt.Errorf("empty label in %.40q", head)
			}
			if err := rec.addLabel(l.texts.get(withoutPlus(label))); err != nil {
				return false, err
			}
		}
	}
	if text, ok := bytes.CutPrefix(trimBlanks(rest), []byte(qidField)); ok {
		text, rest = cutField(text)
		n, ok := parseNumber(text)
		if !ok {
			return false, fmt.Errorf("the query number %.40q is no whole number", text)
		}
		if err := rec.setAttribute("qid", int64(n)); err != nil {
			return false, err
		}
	}
	return true, l.parse(&rec.Features, rest)
}

// qidField begins the field of the query number, which precedes the features.
const qidField = "qid:"

// withoutPlus makes +1 the same label as 1; the files of one collection differ
// in that.
func withoutPlus(label []byte) []byte {
	if len(label) > 1 && label[0] == '+' && label[1] >= '0' && label[1] <= '9' {
		return label[1:]
	}
	return label
}

// looksLibsvm reports whether the fields of a line could be a record: numbers
// before the colons of all but perhaps the first. A lone word is taken for a
// label only if it is made of numbers, since prose has words too.
func looksLibsvm(fields [][]byte) bool {
	for i, f := range fields {
		if bytes.HasPrefix(f, []byte("#")) {
			return i > 0
		}
		number, _, colon := bytes.Cut(f, []byte(":"))
		if !colon && i == 0 {
			if len(fields) > 1 {
				continue
			}
			for label := range bytes.SplitSeq(f, []byte(",")) {
				if _, err := strconv.ParseFloat(string(label), 64); err != nil {
					return false
				}
			}
			continue
		}
		if _, ok := parseNumber(number); !colon || !ok && (i > 1 || !bytes.HasPrefix(f, []byte(qidField))) {
			return false
		}
	}
	return len(fields) > 0
}

// hasPair reports whether a field is "feature:value".
func hasPair(fields [][]byte) bool {
	return slices.ContainsFunc(fields, func(f []byte) bool { return bytes.IndexByte(f, ':') > 0 })
}

// pairs reads fields "feature:value".
type pairs struct {
	what    string // "label", or empty for features
	base    uint64 // number of the first feature
	limit   uint64 // number of features allowed
	guessed bool   // base is a guess
}

func (p *pairs) parse(dst *vector.Sparse, text []byte) error {
	what := cmp.Or(p.what, "feature")
	for {
		text = trimBlanks(text)
		if len(text) == 0 {
			return tidy(dst, p.base)
		}
		var field []byte
		field, text = cutField(text)
		colon := bytes.IndexByte(field, ':')
		if colon < 0 {
			return fmt.Errorf("%.40q is no %s:value", field, what)
		}
		f, ok := parseNumber(field[:colon])
		if !ok {
			return fmt.Errorf("%.40q: the %s is no whole number", field, what)
		}
		if f < p.base {
			if p.guessed {
				return fmt.Errorf("%w, going by the first 64 KiB: the base must be given as 0", ErrFeatureZero)
			}
			return ErrFeatureZero
		}
		if f -= p.base; f >= p.limit {
			return fmt.Errorf("%s %d, there are at most %d from %d on", what, f+p.base, p.limit, p.base)
		}
		v, err := parseValue(field[colon+1:])
		if err != nil {
			return fmt.Errorf("%s %d: %w", what, f+p.base, err)
		}
		if err := appendFeature(dst, uint32(f), v); err != nil {
			return err
		}
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// trimBlanks drops what stands before the next field.
func trimBlanks(text []byte) []byte {
	for len(text) > 0 && isBlank(text[0]) {
		text = text[1:]
	}
	return text
}

// cutField parts the text after its first field.
func cutField(text []byte) (field, rest []byte) {
	for i, c := range text {
		if isBlank(c) {
			return text[:i], text[i:]
		}
	}
	return text, nil
}

// appendPairs writes " feature:value" for each feature that is not zero.
func appendPairs(dst []byte, rec *Record, base uint64) []byte {
	for i, f := range rec.Features.Index {
		if v := rec.Features.Value[i]; v != 0 {
			dst = append(dst, ' ')
			dst = strconv.AppendUint(dst, uint64(f)+base, 10)
			dst = append(dst, ':')
			dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
		}
	}
	return dst
}

// libsvmEncoder writes the first feature as base.
type libsvmEncoder struct {
	noHeader
	base uint64
}

func newLibsvmEncoder(s Schema) (encoder, error) {
	if s.Base == BaseZero {
		return libsvmEncoder{}, nil
	}
	return libsvmEncoder{base: 1}, nil
}

func (e libsvmEncoder) encode(dst []byte, rec *Record) ([]byte, error) {
	for i, l := range rec.Labels {
		// With any of these the label would not read back the same.
		if l == "" || strings.ContainsAny(l, ",:#") || strings.ContainsFunc(l, isSpaceLike) ||
			len(withoutPlus([]byte(l))) < len(l) {
			return dst, fmt.Errorf("a libsvm file cannot hold the label %.40q", l)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, l...)
	}
	start := len(dst)
	dst = appendPairs(dst, rec, e.base)
	if len(rec.Labels) == 0 {
		if len(dst) == start {
			return dst, errors.New("neither labels nor features: libsvm files have no empty records")
		}
		dst = slices.Delete(dst, start, start+1)
	}
	return append(dst, '\n'), nil
}

// isSpaceLike holds for control characters and the white space of Unicode.
func isSpaceLike(r rune) bool { return r < ' ' || strings.TrimSpace(string(r)) == "" }
