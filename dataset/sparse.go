package dataset

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/anndb/anndb/vector"
)

// Names of the formats of sparse records, as taken by [SparseOptions].Format
// and [CreateSparse]; FormatJSONL is one more.
const (
	FormatLibsvm = "libsvm" // "label,label feature:value feature:value" a line
	FormatXMC    = "xmc"    // the same, everything numbered from 0, after a line "rows features labels"
	FormatARFF   = "arff"   // Weka's attribute files in the conventions of Mulan and Meka
)

// Limits on feature numbers, which a few bytes can make large.
const (
	// DefaultMaxFeatures is the number of features read or written when
	// SparseOptions.MaxFeatures is 0.
	DefaultMaxFeatures = 1 << 28
	// maxMaxFeatures bounds SparseOptions.MaxFeatures: feature numbers have 32
	// bits.
	maxMaxFeatures = 1 << 32
)

// SparseRecord is one row of a sparse, labelled data set.
type SparseRecord struct {
	// Key identifies the record. Files without keys give the record number,
	// from 0, in decimal.
	Key []byte
	// Features has the values that are not zero, by feature number from 0.
	// They are finite; negative ones are for the reader to judge.
	Features vector.Sparse
	// Labels is the record's set of labels, without repetitions, in the order
	// of the file.
	Labels []string
	// Payload is whatever else belongs to the record; empty when the file has
	// none.
	Payload []byte
}

// SparseReader gives the records of one file in file order. Its memory does
// not grow with the number of records, only with the names it has met. A
// SparseReader serves one goroutine at a time.
type SparseReader interface {
	// Format is the file's format, as given or detected.
	Format() string
	// Keyed reports whether the file, or the one of SparseOptions.KeysPath, gives the
	// records keys; otherwise they are record numbers. In jsonl the first record tells.
	Keyed() bool
	// Base is the number that the file gives its first feature: BaseOne for libsvm
	// files that count from 1, as SparseOptions.Base says or was guessed, BaseZero
	// for all others.
	Base() Base
	// Len is the number of records promised by a header, -1 where none is. A
	// wrong promise surfaces as an error of Read.
	Len() int64
	// NumFeatures is the number of features promised by a header or given by
	// names, -1 where neither is: then the numbers met are all there is to
	// know. All feature numbers are below it.
	NumFeatures() int
	// FeatureNames has the names of the features by number; nil where features
	// have numbers only. In jsonl features are numbered in order of appearance,
	// behind SparseOptions.FeatureNames, and the list grows while reading.
	FeatureNames() []string
	// NumLabels is the number of distinct labels that a header promises, those
	// that no record has among them; -1 where none does.
	NumLabels() int
	// LabelNames has all labels in the order of the file or the options; nil
	// where neither lists them.
	LabelNames() []string
	// Read overwrites *SparseRecord with the next record and reuses its
	// slices, so they hold only until the next Read with the same record. It
	// returns io.EOF after the last record, and then only once the rest of the
	// file has proved sound. After an error every further Read returns it; the
	// record is then undefined.
	Read(*SparseRecord) error
	// Close releases the files. A second Close does nothing.
	Close() error
}

// Base says how a libsvm file numbers its first feature.
type Base uint8

// Values of Base.
const (
	BaseAuto Base = iota // one, unless a zero stands in the first 64 KiB
	BaseZero
	BaseOne
)

// ErrFeatureZero says that a libsvm file has a feature 0 although its features were
// said, or taken, to count from 1.
var ErrFeatureZero = errors.New("feature 0, but features count from 1")

// SparseOptions says how to read a file of sparse records. The zero value
// detects the format and reads everything.
type SparseOptions struct {
	// Format is one of FormatLibsvm, FormatXMC, FormatARFF, FormatJSONL; ""
	// detects it from the content.
	Format string
	// Base is the number of the first feature in a libsvm file.
	Base Base
	// FeatureNames names the features of libsvm and xmc files by number. In
	// jsonl it begins the numbering of named features, so that a second file
	// gets the numbers of the first: give it the first reader's FeatureNames.
	FeatureNames []string
	// LabelNames names the labels of an xmc file by number; without it a
	// label's name is its number. The names must differ.
	LabelNames []string
	// LabelsXML is the Mulan file that tells which attributes of an ARFF file
	// are labels. "" means the one beside it that has its name: among the
	// files X.xml of the same folder, that with the longest X that the ARFF
	// file's name begins with. Failing that, Meka's "-C n" in the relation's
	// name says so: the first n attributes, or the last -n.
	LabelsXML string
	// KeysPath is a text file (gzip or not) with the record keys, one a line,
	// as many as there are records. "" means none.
	KeysPath string
	// KeyField, FeaturesField, PayloadField and LabelFields name the fields of
	// a jsonl object; "" and nil mean "key", "features", "payload", "labels".
	KeyField, FeaturesField, PayloadField string
	LabelFields                           []string
	// IgnoreFields are jsonl fields to skip; any other unknown field is an
	// error.
	IgnoreFields []string
	// Max stops after that many records; 0 reads all.
	Max int64
	// MaxFeatures refuses feature numbers from there on; 0 means
	// DefaultMaxFeatures.
	MaxFeatures int
}

func (o SparseOptions) normal() (SparseOptions, error) {
	if o.Format != "" && !slices.Contains(SparseFormats(), o.Format) {
		return o, fmt.Errorf("dataset: %w: unknown format %q of sparse records", ErrOption, o.Format)
	}
	if o.Max < 0 {
		return o, fmt.Errorf("dataset: %w: Max is %d", ErrOption, o.Max)
	}
	if o.Base > BaseOne {
		return o, fmt.Errorf("dataset: %w: Base is %d", ErrOption, o.Base)
	}
	if o.MaxFeatures < 0 || o.MaxFeatures > maxMaxFeatures {
		return o, fmt.Errorf("dataset: %w: MaxFeatures is %d, want 0..%d", ErrOption, o.MaxFeatures, maxMaxFeatures)
	}
	if o.MaxFeatures == 0 {
		o.MaxFeatures = DefaultMaxFeatures
	}
	if o.FeaturesField == "" {
		o.FeaturesField = "features"
	}
	if len(o.FeatureNames) > o.MaxFeatures {
		return o, fmt.Errorf("dataset: %w: %d feature names, more than MaxFeatures", ErrOption, len(o.FeatureNames))
	}
	for _, names := range [][]string{o.FeatureNames, o.LabelNames} {
		if name, twice := repeated(names); twice {
			return o, fmt.Errorf("dataset: %w: the name %.40q stands twice", ErrOption, name)
		}
	}
	return o, nil
}

// repeated returns a name that stands twice.
func repeated(names []string) (string, bool) {
	seen := make(map[string]struct{}, len(names))
	for _, name := range names {
		if _, ok := seen[name]; ok {
			return name, true
		}
		seen[name] = struct{}{}
	}
	return "", false
}

// SparseFormats returns the names of the formats of sparse records.
func SparseFormats() []string {
	return []string{FormatLibsvm, FormatXMC, FormatARFF, FormatJSONL}
}

// SparseFormatOf returns the format of sparse records that a file name
// suggests, "" when it suggests none. A final .gz or .bz2 is looked through.
func SparseFormatOf(path string) string {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".bz2")
	switch filepath.Ext(name) {
	case ".libsvm", ".svm", ".svmlight":
		return FormatLibsvm
	case ".xmc", ".txt":
		return FormatXMC
	case ".arff":
		return FormatARFF
	case ".jsonl", ".ndjson":
		return FormatJSONL
	}
	return ""
}

// byFeature sorts a vector whose file did not.
type byFeature vector.Sparse

func (v *byFeature) Len() int           { return len(v.Index) }
func (v *byFeature) Less(i, j int) bool { return v.Index[i] < v.Index[j] }
func (v *byFeature) Swap(i, j int) {
	v.Index[i], v.Index[j] = v.Index[j], v.Index[i]
	v.Value[i], v.Value[j] = v.Value[j], v.Value[i]
}

var errRepeatedFeature = errors.New("stands twice")

// tidy brings features into order and drops zeros, which say nothing. Which of
// two values of a feature holds cannot be told, so that is an error; base is
// added to the number it names. What is kept never moves onto the entry before
// the one looked at, so entries i-1 and i can be compared.
func tidy(v *vector.Sparse, base uint64) error {
	if !slices.IsSorted(v.Index) {
		sort.Sort((*byFeature)(v))
	}
	n := 0
	for i, f := range v.Index {
		if i > 0 && f == v.Index[i-1] {
			return fmt.Errorf("feature %d %w", uint64(f)+base, errRepeatedFeature)
		}
		if v.Value[i] != 0 {
			v.Index[n], v.Value[n] = f, v.Value[i]
			n++
		}
	}
	v.Index, v.Value = v.Index[:n], v.Value[:n]
	return nil
}

// labelSet collects a record's labels, each once.
type labelSet struct {
	seen map[string]struct{}
}

// once drops repetitions, keeping the first of each.
func (s *labelSet) once(labels []string) []string {
	if len(labels) < 2 {
		return labels
	}
	if s.seen == nil {
		s.seen = map[string]struct{}{}
	}
	clear(s.seen)
	out := labels[:0]
	for _, l := range labels {
		if _, ok := s.seen[l]; !ok {
			s.seen[l] = struct{}{}
			out = append(out, l)
		}
	}
	return out
}

// maxInterned bounds the strings kept for reuse: many labels are the same few,
// but a file may as well have a new one in every record.
const maxInterned = 1 << 20

// interned gives equal bytes the same string.
type interned map[string]string

func (t interned) get(b []byte) string {
	if s, ok := t[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(t) < maxInterned {
		t[s] = s
	}
	return s
}

// exact is the largest whole number up to which float32 has all.
const exact = 1 << 24

// parseValue is parseFinite with a short way for the counts that most sparse
// files are made of.
func parseValue(text []byte) (float32, error) {
	if n := len(text); n > 0 && n < 8 {
		v := uint32(0)
		for _, c := range text {
			if c < '0' || c > '9' {
				return parseFinite(string(text))
			}
			v = v*10 + uint32(c-'0')
		}
		if v <= exact {
			return float32(v), nil
		}
	}
	return parseFinite(string(text))
}

// parseNumber reads decimal digits and nothing else.
func parseNumber(text []byte) (uint64, bool) {
	if len(text) == 0 || len(text) > 18 {
		return 0, false
	}
	v := uint64(0)
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + uint64(c-'0')
	}
	return v, true
}

// maxLabels bounds label numbers the way DefaultMaxFeatures bounds features.
const maxLabels = math.MaxUint32
