package dataset

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// SparseWriter writes the sparse records of one file. A SparseWriter serves
// one goroutine at a time.
type SparseWriter interface {
	// Write appends a record; it keeps nothing of it. Errors that wrap
	// [ErrRecord] leave the file as it was. After any other error the writer
	// writes no more, and Close fails.
	Write(*SparseRecord) error
	// Chmod sets the mode of the file, which is 0600 otherwise. Pipes and devices
	// keep theirs.
	Chmod(fs.FileMode) error
	// Close finishes the file and puts it at its path, replacing what was
	// there. On error the path is as it was before CreateSparse.
	Close() error
	// Abort throws the file away. After Close it does nothing, so it can be
	// deferred.
	Abort() error
}

// SparseHeader says what a file's records have in common.
type SparseHeader struct {
	// Features is the number of features; 0 means as many as FeatureNames, or,
	// in xmc files, as the records turn out to need.
	Features int
	// FeatureNames names the features by number. ARFF and jsonl files carry
	// them; the other formats keep the numbers.
	FeatureNames []string
	// LabelNames has all labels. xmc files number labels by their place here,
	// ARFF files make them attributes.
	LabelNames []string
	// Base is the number of a libsvm file's first feature; BaseAuto means one.
	Base Base
}

// CreateSparse makes a file of sparse records. The format is one of
// FormatLibsvm, FormatXMC, FormatARFF, FormatJSONL, "" goes by the name; a name
// ending in .gz is compressed. The file takes its place on Close, as with
// [Create].
//
// Only jsonl keeps keys and payloads. Without LabelNames the labels of an xmc
// file must be numbers; an ARFF file needs them, and the number of features,
// and is written by Meka's convention, the labels first; [WriteLabelsXML] adds
// what Mulan wants. Values are written with the fewest digits that read back
// as the same float32.
//
// Errors: fs errors as they come, [ErrOption].
func CreateSparse(path, format string, h SparseHeader) (SparseWriter, error) {
	if format == "" {
		if format = SparseFormatOf(path); format == "" {
			return nil, fmt.Errorf("dataset: %w: %s: the name does not say the format", ErrOption, path)
		}
	}
	h, err := h.normal()
	if err != nil {
		return nil, err
	}
	var enc sparseEncoder
	switch format {
	case FormatLibsvm:
		enc = &libsvmEncoder{base: h.Base}
	case FormatXMC:
		enc = newXMCEncoder(h)
	case FormatARFF:
		if enc, err = newARFFEncoder(h); err != nil {
			return nil, err
		}
	case FormatJSONL:
		enc = sparseJSONLEncoder{names: h.FeatureNames}
	default:
		return nil, fmt.Errorf("dataset: %w: unknown format %q of sparse records", ErrOption, format)
	}
	w := &sparseWriter{fileWriter: fileWriter{path: path, frame: enc}, enc: enc, limit: uint64(DefaultMaxFeatures)}
	if h.Features > 0 {
		w.limit = uint64(h.Features)
	}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return w, nil
}

func (h SparseHeader) normal() (SparseHeader, error) {
	n := len(h.FeatureNames)
	switch {
	case h.Features < 0 || h.Features > DefaultMaxFeatures || n > DefaultMaxFeatures:
		return h, fmt.Errorf("dataset: %w: %d features, want 0..%d", ErrOption, max(h.Features, n), DefaultMaxFeatures)
	case n > 0 && h.Features > 0 && n != h.Features:
		return h, fmt.Errorf("dataset: %w: %d names for %d features", ErrOption, n, h.Features)
	case h.Base > BaseOne:
		return h, fmt.Errorf("dataset: %w: Base is %d", ErrOption, h.Base)
	}
	for _, list := range [][]string{h.FeatureNames, h.LabelNames} {
		if name, twice := repeated(list); twice {
			return h, fmt.Errorf("dataset: %w: the name %.40q stands twice", ErrOption, name)
		}
	}
	h.Features = max(h.Features, n)
	return h, nil
}

// sparseEncoder is what the formats of sparse records differ in.
type sparseEncoder interface {
	framing
	// encode appends the record, whose features are in order, finite and
	// within the limits.
	encode(dst []byte, rec *SparseRecord) ([]byte, error)
}

type sparseWriter struct {
	fileWriter
	enc   sparseEncoder
	limit uint64 // number of features
}

func (w *sparseWriter) Write(rec *SparseRecord) error {
	return w.write(func(dst []byte) ([]byte, error) {
		if err := rec.Features.Validate(); err != nil {
			return dst, err
		}
		if n := rec.Features.Len(); n > 0 && uint64(rec.Features.Index[n-1]) >= w.limit {
			return dst, fmt.Errorf("feature %d, there are %d", rec.Features.Index[n-1], w.limit)
		}
		return w.enc.encode(dst, rec)
	})
}

// appendPairs writes " feature:value" for each feature that is not zero.
func appendPairs(dst []byte, rec *SparseRecord, base uint64) []byte {
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

type libsvmEncoder struct{ base Base }

func (*libsvmEncoder) counted() bool                { return false }
func (*libsvmEncoder) header(int64) ([]byte, error) { return nil, nil }

func (e *libsvmEncoder) encode(dst []byte, rec *SparseRecord) ([]byte, error) {
	for i, l := range rec.Labels {
		// What stands in the way of reading the label back.
		if l == "" || strings.ContainsAny(l, ",:#") || strings.ContainsFunc(l, isSpaceLike) || len(withoutPlus([]byte(l))) < len(l) {
			return dst, fmt.Errorf("label %.40q cannot stand in a libsvm file", l)
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, l...)
	}
	base := uint64(1)
	if e.base == BaseZero {
		base = 0
	}
	start := len(dst)
	dst = appendPairs(dst, rec, base)
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

// xmcEncoder numbers labels by their names, or takes numbers as they are.
type xmcEncoder struct {
	number   map[string]uint32 // nil: labels are numbers
	features int               // 0: as many as needed
	labels   uint64
	needed   uint64
	largest  uint64 // label number + 1
}

func newXMCEncoder(h SparseHeader) *xmcEncoder {
	e := &xmcEncoder{features: h.Features, labels: uint64(len(h.LabelNames))}
	if h.LabelNames != nil {
		e.number = numbersOf(h.LabelNames)
	}
	return e
}

func numbersOf(names []string) map[string]uint32 {
	m := make(map[string]uint32, len(names))
	for i, name := range names {
		m[name] = uint32(i)
	}
	return m
}

// xmcHeaderLength holds the largest numbers; the rest is blanks before the
// line feed, so that the counts can be put in place at the end.
const xmcHeaderLength = 64

func (*xmcEncoder) counted() bool { return true }

func (e *xmcEncoder) header(n int64) ([]byte, error) {
	features, labels := uint64(e.features), e.labels
	if features == 0 {
		features = e.needed
	}
	if e.number == nil {
		labels = e.largest
	}
	return fmt.Appendf(nil, "%-*s\n", xmcHeaderLength-1, fmt.Sprintf("%d %d %d", n, features, labels)), nil
}

func (e *xmcEncoder) encode(dst []byte, rec *SparseRecord) ([]byte, error) {
	largest := e.largest
	for i, l := range rec.Labels {
		n, err := e.labelNumber(l)
		if err != nil {
			return dst, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(dst, n, 10)
		largest = max(largest, n+1)
	}
	dst = append(appendPairs(dst, rec, 0), '\n')
	e.largest = largest
	if n := rec.Features.Len(); n > 0 {
		e.needed = max(e.needed, uint64(rec.Features.Index[n-1])+1)
	}
	return dst, nil
}

func (e *xmcEncoder) labelNumber(l string) (uint64, error) {
	if e.number != nil {
		n, ok := e.number[l]
		if !ok {
			return 0, fmt.Errorf("label %.40q is none of the label names", l)
		}
		return uint64(n), nil
	}
	n, ok := parseNumber([]byte(l))
	if !ok || n >= math.MaxUint32 || strconv.FormatUint(n, 10) != l {
		return 0, fmt.Errorf("label %.40q is no number, and no label names were given", l)
	}
	return n, nil
}

// arffEncoder writes sparse rows, the labels first.
type arffEncoder struct {
	head   []byte
	labels map[string]uint32
	row    []uint32
}

func newARFFEncoder(h SparseHeader) (*arffEncoder, error) {
	if h.Features == 0 {
		return nil, fmt.Errorf("dataset: %w: an ARFF file needs the number of features", ErrOption)
	}
	if h.LabelNames == nil {
		return nil, fmt.Errorf("dataset: %w: an ARFF file needs the names of the labels", ErrOption)
	}
	e := &arffEncoder{labels: numbersOf(h.LabelNames)}
	e.head = fmt.Appendf(nil, "@relation 'anndb: -C %d'\n\n", len(h.LabelNames))
	for _, name := range h.LabelNames {
		if name == "" {
			return nil, fmt.Errorf("dataset: %w: empty label name", ErrOption)
		}
		e.head = append(appendARFFName(append(e.head, "@attribute "...), name), " {0,1}\n"...)
	}
	for i := range h.Features {
		name := "f" + strconv.Itoa(i)
		if h.FeatureNames != nil {
			name = h.FeatureNames[i]
		}
		if _, both := e.labels[name]; both || name == "" {
			return nil, fmt.Errorf("dataset: %w: feature %d is named %.40q, which is empty or a label", ErrOption, i, name)
		}
		e.head = append(appendARFFName(append(e.head, "@attribute "...), name), " numeric\n"...)
	}
	e.head = append(e.head, "\n@data\n"...)
	return e, nil
}

// appendARFFName quotes a name unless it is made of plain letters and digits.
func appendARFFName(dst []byte, name string) []byte {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '-' || r == '.'
	}
	if !strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
		return append(dst, name...)
	}
	dst = append(dst, '\'')
	for i := range len(name) {
		switch c := name[i]; c {
		case '\'', '\\', '"', '%':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '\'')
}

func (*arffEncoder) counted() bool                  { return false }
func (e *arffEncoder) header(int64) ([]byte, error) { return e.head, nil }

func (e *arffEncoder) encode(dst []byte, rec *SparseRecord) ([]byte, error) {
	e.row = e.row[:0]
	for _, l := range rec.Labels {
		n, ok := e.labels[l]
		if !ok {
			return dst, fmt.Errorf("label %.40q is none of the label names", l)
		}
		e.row = append(e.row, n)
	}
	slices.Sort(e.row)
	dst = append(dst, '{')
	for _, n := range slices.Compact(e.row) {
		dst = strconv.AppendUint(dst, uint64(n), 10)
		dst = append(dst, " 1,"...)
	}
	for i, f := range rec.Features.Index {
		if v := rec.Features.Value[i]; v != 0 {
			dst = strconv.AppendUint(dst, uint64(f)+uint64(len(e.labels)), 10)
			dst = append(dst, ' ')
			dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
			dst = append(dst, ',')
		}
	}
	return append(bytes.TrimSuffix(dst, []byte(",")), '}', '\n'), nil
}

// sparseJSONLEncoder writes one object a line, features by name if there are
// names.
type sparseJSONLEncoder struct{ names []string }

func (sparseJSONLEncoder) counted() bool                { return false }
func (sparseJSONLEncoder) header(int64) ([]byte, error) { return nil, nil }

func (e sparseJSONLEncoder) encode(dst []byte, rec *SparseRecord) ([]byte, error) {
	if len(rec.Key) == 0 {
		return dst, errEmptyKey
	}
	dst, err := appendText(append(dst, '{'), "key", fieldKeyBase64, rec.Key)
	if err != nil {
		return dst, err
	}
	dst = append(dst, `,"features":{`...)
	if e.names == nil {
		dst = append(dst, `"indices":[`...)
		for i, f := range rec.Features.Index {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendUint(dst, uint64(f), 10)
		}
		dst = append(dst, `],"values":[`...)
		for i, v := range rec.Features.Value {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
		}
		dst = append(dst, ']')
	} else {
		for i, f := range rec.Features.Index {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendString(dst, e.names[f]); err != nil {
				return dst, fmt.Errorf("feature %d: %w", f, err)
			}
			dst = append(dst, ':')
			dst = strconv.AppendFloat(dst, float64(rec.Features.Value[i]), 'g', -1, 32)
		}
	}
	dst = append(dst, '}')
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
	return append(dst, '}', '\n'), nil
}

// appendString writes a JSON string.
func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%.40q is not UTF-8", s)
	}
	quoted, err := json.Marshal(s)
	return append(dst, quoted...), err
}

// WriteLabelsXML writes the label names as the XML file that Mulan wants
// beside an ARFF file. The names must differ, be neither empty nor hold
// characters that XML has no place for: [ErrOption] otherwise. The file takes
// its place when it is whole.
func WriteLabelsXML(path string, names []string) error {
	if name, twice := repeated(names); twice {
		return fmt.Errorf("dataset: %w: the label name %.40q stands twice", ErrOption, name)
	}
	var b bytes.Buffer
	b.WriteString("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<labels xmlns=\"http://mulan.sourceforge.net/labels\">\n")
	for _, name := range names {
		var text bytes.Buffer
		if err := xml.EscapeText(&text, []byte(name)); err != nil {
			return fmt.Errorf("dataset: %w", err)
		}
		// EscapeText puts U+FFFD in the place of what XML cannot hold.
		if name == "" || !utf8.ValidString(name) || strings.Count(text.String(), "\uFFFD") > strings.Count(name, "\uFFFD") {
			return fmt.Errorf("dataset: %w: label name %.40q cannot stand in XML", ErrOption, name)
		}
		fmt.Fprintf(&b, "<label name=\"%s\"></label>\n", text.Bytes())
	}
	b.WriteString("</labels>\n")
	return replaceFile(path, b.Bytes())
}

// WriteNames writes a list of names, one a line, as [ReadNames] reads it; a
// path ending in .gz is compressed. The file has the given mode and takes its place
// when it is whole. Errors: fs errors, and [ErrOption] for names that are blank or
// hold a line's end.
func WriteNames(path string, names []string, mode fs.FileMode) error {
	w := &fileWriter{path: path, frame: noFrame{}}
	for _, name := range names {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "\r\n") {
			return fmt.Errorf("dataset: %w: name %.40q cannot stand on a line", ErrOption, name)
		}
	}
	if err := w.open(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	if err := w.Chmod(mode); err != nil {
		_ = w.Abort()
		return err
	}
	for _, name := range names {
		if err := w.write(func(dst []byte) ([]byte, error) { return append(append(dst, name...), '\n'), nil }); err != nil {
			_ = w.Abort()
			return err
		}
	}
	return w.Close()
}

// replaceFile puts the bytes at the path.
func replaceFile(path string, data []byte) error {
	w := &fileWriter{path: path, frame: noFrame{}}
	if err := w.open(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	if err := w.write(func(dst []byte) ([]byte, error) { return append(dst, data...), nil }); err != nil {
		_ = w.Abort()
		return err
	}
	return w.Close()
}

// noFrame is a file of nothing but rows.
type noFrame struct{}

func (noFrame) header(int64) ([]byte, error) { return nil, nil }
func (noFrame) counted() bool                { return false }
