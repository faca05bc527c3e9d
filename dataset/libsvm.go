package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/anndb/anndb/vector"
)

// libsvm reads lines "label,label feature:value feature:value # comment".
type libsvm struct {
	pairs
	set   labelSet
	texts interned
	known []string
}

func openLibsvm(s *source, o SparseOptions) rowDecoder {
	l := &libsvm{texts: interned{}, known: o.FeatureNames}
	l.limit = uint64(o.MaxFeatures)
	if n := len(o.FeatureNames); n > 0 {
		l.limit = uint64(n)
	}
	if o.Base == BaseOne || o.Base == BaseAuto && !hasFeatureZero(s.peek(bufferSize)) {
		l.base = 1
	}
	l.guessed = o.Base == BaseAuto
	return l
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

func (l *libsvm) names() sparseNames {
	n := sparseNames{features: -1, labels: -1, featureNames: l.known}
	if l.known != nil {
		n.features = len(l.known)
	}
	return n
}

func (l *libsvm) end() error { return nil }

// first is the number of the first feature.
func (p *pairs) first() Base {
	if p.base == 1 {
		return BaseOne
	}
	return BaseZero
}

func (l *libsvm) decode(rec *SparseRecord, line []byte) (bool, error) {
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
			rec.Labels = append(rec.Labels, l.texts.get(withoutPlus(label)))
		}
		rec.Labels = l.set.once(rec.Labels)
	}
	return true, l.parse(&rec.Features, rest)
}

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
		if _, ok := parseNumber(number); !ok || !colon {
			return false
		}
	}
	return len(fields) > 0
}

// pairs reads fields "feature:value".
type pairs struct {
	base    uint64 // number of the first feature
	limit   uint64 // number of features allowed
	guessed bool   // base is a guess
}

func (p *pairs) parse(dst *vector.Sparse, text []byte) error {
	for {
		text = trimBlanks(text)
		if len(text) == 0 {
			return tidy(dst, p.base)
		}
		var field []byte
		field, text = cutField(text)
		colon := bytes.IndexByte(field, ':')
		if colon < 0 {
			return fmt.Errorf("%.40q is no feature:value", field)
		}
		f, ok := parseNumber(field[:colon])
		if !ok {
			return fmt.Errorf("%.40q: the feature is no whole number", field)
		}
		if f < p.base {
			if p.guessed {
				return fmt.Errorf("%w, going by the first 64 KiB: the base must be given as 0", ErrFeatureZero)
			}
			return ErrFeatureZero
		}
		if f -= p.base; f >= p.limit {
			return fmt.Errorf("feature %d, there are at most %d from %d on", f+p.base, p.limit, p.base)
		}
		v, err := parseValue(field[colon+1:])
		if err != nil {
			return fmt.Errorf("feature %d: %w", f+p.base, err)
		}
		dst.Index = append(dst.Index, uint32(f))
		dst.Value = append(dst.Value, v)
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

// xmc reads the format of the extreme classification repository. A line is a
// record even if nothing stands in it, up to the number promised.
type xmc struct {
	pairs
	set      labelSet
	features int
	labels   uint64
	left     int64 // records promised and not yet read
	numbers  map[uint32]string
	o        SparseOptions
}

// isXMCHeader reports whether a line is three whole numbers.
func isXMCHeader(line []byte) bool {
	fields := bytes.Fields(line)
	if len(fields) != 3 {
		return false
	}
	for _, f := range fields {
		if _, ok := parseNumber(f); !ok {
			return false
		}
	}
	return true
}

func openXMC(in *lines, o SparseOptions) (rowDecoder, int64, error) {
	line, err := in.next(-1)
	if err == io.EOF {
		return nil, 0, in.bad(-1, errors.New("empty file"))
	}
	if err != nil {
		return nil, 0, err
	}
	if !isXMCHeader(line) {
		return nil, 0, in.bad(-1, fmt.Errorf("%.40q is no header \"rows features labels\"", bytes.TrimSpace(line)))
	}
	var n [3]uint64
	for i, f := range bytes.Fields(line) {
		n[i], _ = parseNumber(f) // isXMCHeader has checked
	}
	switch {
	case n[1] > uint64(o.MaxFeatures):
		return nil, 0, in.bad(-1, fmt.Errorf("%d features, at most %d are read", n[1], o.MaxFeatures))
	case n[2] > maxLabels:
		return nil, 0, in.bad(-1, fmt.Errorf("%d labels, at most %d are read", n[2], uint64(maxLabels)))
	case o.FeatureNames != nil && uint64(len(o.FeatureNames)) != n[1]:
		return nil, 0, in.bad(-1, fmt.Errorf("%d features, %d feature names were given", n[1], len(o.FeatureNames)))
	case o.LabelNames != nil && uint64(len(o.LabelNames)) != n[2]:
		return nil, 0, in.bad(-1, fmt.Errorf("%d labels, %d label names were given", n[2], len(o.LabelNames)))
	}
	x := &xmc{features: int(n[1]), labels: n[2], left: int64(n[0]), numbers: map[uint32]string{}, o: o}
	x.limit = n[1]
	return x, x.left, nil
}

func (x *xmc) names() sparseNames {
	return sparseNames{
		features: x.features, labels: int(x.labels),
		featureNames: x.o.FeatureNames, labelNames: x.o.LabelNames,
	}
}

func (x *xmc) end() error {
	if x.left > 0 {
		return fmt.Errorf("truncated: the header promises %d more records: %w", x.left, io.ErrUnexpectedEOF)
	}
	return nil
}

func (x *xmc) decode(rec *SparseRecord, line []byte) (bool, error) {
	line = bytes.TrimRight(line, " \t\r\n")
	if x.left == 0 {
		if len(line) > 0 {
			return false, errors.New("more records than the header promises")
		}
		return false, nil
	}
	x.left--
	// A line that begins with a blank has no labels; nor has one that begins
	// with a feature.
	head, rest := cutField(line)
	if bytes.IndexByte(head, ':') >= 0 {
		head, rest = nil, line
	}
	for len(head) > 0 {
		text, tail, more := bytes.Cut(head, []byte(","))
		l, ok := parseNumber(text)
		if !ok {
			return false, fmt.Errorf("label %.40q is no whole number", text)
		}
		if l >= x.labels {
			return false, fmt.Errorf("label %d, the header promises %d from 0 on", l, x.labels)
		}
		if more && len(tail) == 0 {
			return false, errors.New("a comma after the last label")
		}
		rec.Labels = append(rec.Labels, x.label(uint32(l)))
		head = tail
	}
	rec.Labels = x.set.once(rec.Labels)
	return true, x.parse(&rec.Features, rest)
}

func (x *xmc) label(l uint32) string {
	if x.o.LabelNames != nil {
		return x.o.LabelNames[l]
	}
	s, ok := x.numbers[l]
	if !ok {
		s = strconv.FormatUint(uint64(l), 10)
		if len(x.numbers) < maxInterned {
			x.numbers[l] = s
		}
	}
	return s
}
