package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/anndb/anndb/vector"
)

// ErrFormat is wrapped by every error about wrong content of a file.
var ErrFormat = errors.New("malformed file")

// ErrOption is wrapped by every error about a wrong argument: an
// unknown format name, a dimension out of range.
var ErrOption = errors.New("bad option")

// ErrRecord is wrapped by the error of a Write whose record does not fit the
// writer: wrong dimension, a value the format cannot hold. Such a record
// leaves the file as it was, and the next one may be written.
var ErrRecord = errors.New("record cannot be written")

// FormatError describes what is wrong in which file, and where. It wraps both
// [ErrFormat] and its cause.
type FormatError struct {
	Path   string // as given to Open
	Record int64  // record number from 0; -1 when the fault is before the first record or in the file as a whole
	Line   int64  // line number from 1; 0 in binary formats
	Offset int64  // of the faulty part in the decompressed content, in bytes; -1 in text formats
	Format string // what the content is read as; empty where that is not known yet
	Err    error  // the cause, never nil
	// Skippable reports whether the fault is in one record only: with Options.Reject, the reader
	// continues behind it.
	Skippable bool
}

// Error names the path, the record or line, and the offset.
func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(e.Path)
	if e.Line > 0 {
		fmt.Fprintf(&b, ": line %d", e.Line)
	}
	if e.Record >= 0 {
		fmt.Fprintf(&b, ": record %d", e.Record)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, ": offset %d", e.Offset)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap returns ErrFormat and the cause.
func (e *FormatError) Unwrap() []error { return []error{ErrFormat, e.Err} }

// ErrFeatureZero is wrapped by the error of a libsvm file that has a feature 0
// although its features were taken to count from 1.
var ErrFeatureZero = errors.New("feature 0, but features count from 1")

// ErrNoLabels is wrapped by the error of an ARFF file that does not say which of its
// attributes are labels.
var ErrNoLabels = errors.New("which attributes are labels? " +
	"No XML file was given or found, and the relation's name has no -C")

// ErrMissing is wrapped by the error of an ARFF row that has a question mark where a feature needs a number.
var ErrMissing = errors.New("a missing value (?), and what it is read as would be a guess: " +
	"put a number there, or leave the row out")

// ErrColumn is wrapped by the error of a csv file that has a column which is no number in the first row,
// and which no option names.
var ErrColumn = errors.New("what is the column for?")

// ErrVector is wrapped by the error of a file that has several columns of vectors.
var ErrVector = errors.New("which column has the vectors?")

// ErrDim is wrapped by the error of a file of numbers only where Options.Dim is zero.
var ErrDim = errors.New("how many numbers does a record have?")

// ErrText is wrapped by the error of a file that has no column of texts where texts are read.
var ErrText = errors.New("which column has the texts?")

// Kind is what the records of a file hold besides keys, labels and payloads.
type Kind uint8

// Values of Kind.
const (
	AnyKind Kind = iota // whatever the file has
	Dense               // vectors
	Sparse              // features
	Text                // texts
)

// String returns "dense", "sparse" or "text".
func (k Kind) String() string {
	return [...]string{"any", "dense", "sparse", "text"}[min(k, Text)]
}

// Record is one row of a data set. Dense records have a Vector, sparse ones have
// Features, those of texts have a Text, and a Vector too if the file has both.
type Record struct {
	// Key identifies the record. Files that carry no keys give the record
	// number, from 0, in decimal.
	Key []byte
	// Vector has Schema.Dim finite values. Next to a text it can be empty.
	Vector []float32
	// Features has the values that are not zero, by feature number from 0.
	// They are finite; negative ones are for the reader to judge.
	Features vector.Sparse
	// Text is in UTF-8. It can be empty.
	Text string
	// Labels are the record's classes or tags, each once, in the order of the file; empty when
	// it has none.
	Labels []string
	// Attributes are named values: string, int64, float64, bool or time.Time, see
	// [AttributeType]; empty when the record has none.
	Attributes map[string]any
	// ExpiresAt is the time at which the record expires; zero when it does not.
	ExpiresAt time.Time
	// Payload is whatever else belongs to the record; empty when the file has
	// none.
	Payload []byte
}

// Schema is what the records of a file have in common: a Reader returns what is
// known of it, and [Create] makes a file by it.
type Schema struct {
	// Format is one of the Format constants. Create takes "" for the format that
	// the name says.
	Format string
	// Member is the array that is read, in a file that can have several. Create ignores it.
	Member string
	// Distance is what an HDF5, FAISS or chromem-go file says of its distance, as ann-benchmarks does:
	// euclidean, angular and others; "" if it says nothing. Create ignores it.
	Distance string
	// Kind is never AnyKind in a Reader. Create takes AnyKind for what the format
	// holds; Dense if it holds both.
	Kind Kind
	// Dim is the number of dimensions of dense records, at least 1. Of texts it is that of the vectors
	// next to them, 0 without vectors. Of sparse records it is the number of features, all feature
	// numbers being below it; 0 where neither a header nor names say so.
	Dim int
	// Base is the number that a file gives its first feature: BaseOne for libsvm
	// files that count from 1, BaseZero for all others. Create takes BaseAuto for
	// BaseOne.
	Base Base
	// FeatureNames names the features by number; nil where they have numbers only.
	// In jsonl features are numbered in order of appearance, behind
	// Options.FeatureNames, and the list grows while reading.
	FeatureNames []string
	// Base64 has Create write the vectors of jsonl files in base64, which is shorter and faster to read.
	Base64 bool
	// LabelNames has all labels, in the order of the file or the options; nil where
	// neither lists them. Create ignores it.
	LabelNames []string
	// Attributes are the columns of a csv file that have attributes, and Expires reports whether
	// one has the expiry. Create makes these columns: a record with another attribute cannot be
	// written. An attribute whose values have several types needs a column for each. jsonl files
	// have every attribute; their readers and Create leave both out.
	Attributes []Attribute
	Expires    bool
	// Labels is the number of distinct labels that a header promises, those that no
	// record has among them; 0 where none does. Create ignores it.
	Labels int
	// Records is the number of records, those among them that Options.Reject takes: as promised by a
	// header, or computed from the file's size; -1 when neither tells. A wrong promise surfaces as an error
	// of Open or Read, never as a short or long read. Create ignores it.
	Records int64
	// Keyed reports whether the file, or the one of Options.KeysPath, gives the
	// records keys; otherwise they are record numbers. In jsonl the first record
	// tells. Create ignores it.
	Keyed bool
}

// Reader returns the records of one file in file order. Its memory does not grow
// with the number of records, only with the names it has met. A Reader serves one
// goroutine at a time.
type Reader interface {
	// Schema describes the file as far as it has been read.
	Schema() Schema
	// Read overwrites *Record with the next record and reuses its slices and map, so
	// they hold only until the next Read with the same Record. It returns
	// io.EOF after the last record, and then only once the rest of the file
	// (trailing bytes, the gzip checksum) has been verified. After an error
	// every further Read returns that error; the record is then undefined.
	Read(*Record) error
	// Close releases the file. A second Close does nothing.
	Close() error
}

// All iterates over the records of a reader. The record is overwritten by the next
// one. An error, which is never io.EOF, ends the iteration.
func All(r Reader) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		var rec Record
		for {
			err := r.Read(&rec)
			if err == io.EOF {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(&rec, nil) {
				return
			}
		}
	}
}

// Header reports whether a csv or tsv file begins with a line of column names.
type Header uint8

// Values of Header.
const (
	HeaderAuto    Header = iota // decide from the first two lines, see the package documentation
	HeaderPresent               // the first line has names
	HeaderAbsent                // the first line is a record
)

// Base is how a libsvm file numbers its first feature.
type Base uint8

// Values of Base.
const (
	BaseAuto Base = iota // one, unless there is a zero in the first 64 KiB
	BaseZero
	BaseOne
)

// Options describes how to read a file. The zero value detects the format and
// reads everything.
//
// A column is given by its name in the header, or else by its position from
// 1. In jsonl the same options name the fields of the objects.
type Options struct {
	// Context ends reading with its error when it is done; it is checked at least once a megabyte, of the
	// file and of its decompressed content. nil means never.
	Context context.Context
	// Format is one of the Format constants; "" detects it.
	Format string
	// Kind refuses files of the other kind, and decides where a text could be
	// either; AnyKind takes what the file has.
	Kind Kind
	// Member is the array of an npz or HDF5 file to read, in HDF5 with the names of its groups
	// separated by slashes. "" means the only one, or else train.
	Member string
	// Dim is the number of dimensions of the records in a file of float32 numbers, which it makes the format.
	// Other formats say it themselves.
	Dim int
	// Queries reports whether the records are queries: then test is read in the place of train, and
	// a npy array of one dimension is one record.
	Queries bool
	// KeyColumn is the csv column or jsonl field with the key. "" means a
	// column named key or id if there is one.
	KeyColumn string
	// LabelColumns are the columns or fields with labels. nil means a column
	// named label or labels, if there is one.
	LabelColumns []string
	// Separator stands between the cells of a csv file; 0 means the one of comma, tab, semicolon and | that
	// cuts the first lines into as many cells each.
	Separator rune
	// LabelSeparator splits a csv label cell into labels; "" means "|".
	LabelSeparator string
	// TextColumn is the column or field with the text of each record. "" means a column named text if there
	// is one, and nothing else is a vector.
	TextColumn string
	// FolderLabels adds the folder of each file as a label, where a folder of text files is read.
	FolderLabels bool
	// PayloadColumn is the column or field with the payload. "" means a column
	// named payload, if there is one.
	PayloadColumn string
	// Attributes are columns or fields that are attributes, in addition to csv columns
	// whose header has a type, as in price:int, and to AttributesField.
	Attributes []Attribute
	// ExpiryColumn is the column or field with the expiry. "" means "expires", if there is
	// such a column or field.
	ExpiryColumn string
	// VectorField, FeaturesField and AttributesField are the jsonl fields with the vector,
	// the features or the attributes; "" means "vector", "features" and "attributes". VectorField also is
	// the csv column that holds the vector as a list of numbers; without it, a column is found that does.
	VectorField, FeaturesField, AttributesField string
	// IgnoreColumns are columns or fields to skip. Any other unnamed csv column
	// belongs to the vector; any other jsonl field is an error, since a
	// misspelt field would otherwise be lost silently.
	IgnoreColumns []string
	// Header reports whether a csv or tsv file has a line of column names.
	Header Header
	// Base is the number of the first feature in a libsvm file.
	Base Base
	// FeatureNames names the features of libsvm and xmc files by number. In
	// jsonl it begins the numbering of named features, so that a second file
	// gets the numbers of the first: give it the FeatureNames of its Schema.
	FeatureNames []string
	// LabelNames names the labels of an xmc file by number; without it a
	// label's name is its number. The names must differ.
	LabelNames []string
	// LabelsXML is the Mulan file that lists which attributes of an ARFF file
	// are labels. "" means the one next to it that has its name: among the
	// files X.xml of the same folder, that with the longest X that the ARFF
	// file's name begins with. Failing that, Meka's "-C n" in the relation's
	// name says so: the first n attributes, or the last -n. LabelColumns decides before them: an
	// attribute with the values 0 and 1 is a label, the value of another one is. Without any of these,
	// the value of an attribute named class or label is, and without one that of the last attribute if it is
	// nominal.
	LabelsXML string
	// NoLabels reads an ARFF file as one without labels.
	NoLabels bool
	// LabelsPath is a file of labels (gzip or not), "" for none: an idx file of one dimension and whole
	// numbers, whose number i, in decimal, is added to record i; or the labels of an xmc set in two files,
	// a line "rows labels" and then "label:value label:value" a row. The two files must have the same
	// number of records. Sparse records of other formats have labels of their own.
	LabelsPath string
	// VectorsPath is a file of vectors for records that are texts, in the order of these and as many;
	// "" means none.
	VectorsPath string
	// KeysPath is a text file (gzip or not) with the record keys, one a line,
	// as many as there are records. "" means none.
	KeysPath string
	// Reject is called for each record that cannot be decoded or fails Check. If it returns nil, the
	// reader continues behind the record, which keeps its number; if it returns an error, Read does.
	Reject func(*FormatError) error
	// Check is called for each record; its error is a fault of the record.
	Check func(*Record) error
	// Max stops after that many records; 0 reads all. The rest of the file is
	// then not looked at.
	Max int64
	// MaxDim refuses vectors with more dimensions; 0 means DefaultMaxDim.
	MaxDim int
	// MaxFeatures refuses feature numbers from there on; 0 means
	// DefaultMaxFeatures.
	MaxFeatures int

	vectorNamed bool                                        // VectorField was given
	open        func(s *source, o Options) (decoder, error) // of Format, or of a file next to the records
}

// normal checks o and fills in the defaults.
func (o Options) normal() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return o, fmt.Errorf("dataset: %w: %s", ErrOption, fmt.Sprintf(format, args...))
	}
	if o.Dim != 0 && o.Format == "" {
		o.Format = FormatF32
	}
	f := formatNamed(o.Format)
	if o.Kind == AnyKind && (o.TextColumn != "" || o.VectorsPath != "") {
		o.Kind = Text
	}
	switch {
	case (o.TextColumn != "" || o.VectorsPath != "") && o.Kind != Text:
		return bad("TextColumn and VectorsPath are for records that are texts")
	case o.VectorsPath != "" && o.VectorField != "":
		return bad("VectorsPath, and VectorField for vectors in the records themselves")
	case o.Format != "" && f == nil:
		return bad("unknown format %q (want one of %s)", o.Format, strings.Join(Formats(o.Kind), ", "))
	case o.Kind > Text:
		return bad("Kind is %d", o.Kind)
	case f != nil && !f.holds(o.Kind):
		return bad("%s files hold no %v records (want one of %s)",
			o.Format, o.Kind, strings.Join(Formats(o.Kind), ", "))
	case o.Max < 0:
		return bad("Max is %d", o.Max)
	case o.MaxDim < 0 || o.MaxDim > maxMaxDim:
		return bad("MaxDim is %d, want 0..%d", o.MaxDim, maxMaxDim)
	case o.Dim < 0 || o.Dim > cmp.Or(o.MaxDim, DefaultMaxDim):
		return bad("Dim is %d, want 0..%d", o.Dim, cmp.Or(o.MaxDim, DefaultMaxDim))
	case o.Dim > 0 && o.Format != FormatF32:
		return bad("%s files have their own dimension, %s files need one", o.Format, FormatF32)
	case o.MaxFeatures < 0 || o.MaxFeatures > maxMaxFeatures:
		return bad("MaxFeatures is %d, want 0..%d", o.MaxFeatures, maxMaxFeatures)
	case o.Header > HeaderAbsent:
		return bad("Header is %d", o.Header)
	case o.Base > BaseOne:
		return bad("Base is %d", o.Base)
	case o.Separator != 0 && (!utf8.ValidRune(o.Separator) || strings.ContainsRune("\"\r\n\uFFFD", o.Separator)):
		return bad("a csv file cannot have the separator %q", o.Separator)
	}
	defaults := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	defaults(&o.LabelSeparator, "|")
	o.vectorNamed = o.VectorField != ""
	if o.Context == nil {
		o.Context = context.Background()
	}
	defaults(&o.VectorField, "vector")
	defaults(&o.FeaturesField, "features")
	defaults(&o.AttributesField, "attributes")
	if o.MaxDim == 0 {
		o.MaxDim = DefaultMaxDim
	}
	if o.MaxFeatures == 0 {
		o.MaxFeatures = DefaultMaxFeatures
	}
	if len(o.FeatureNames) > o.MaxFeatures {
		return bad("%d feature names, more than MaxFeatures", len(o.FeatureNames))
	}
	for _, names := range [][]string{o.FeatureNames, o.LabelNames} {
		if name, twice := repeated(names); twice {
			return bad("the name %.40q is given twice", name)
		}
	}
	o.FeatureNames = slices.Clip(o.FeatureNames)
	return o, nil
}

// attributes reports whether the options name columns that only formats with attributes have.
func (o Options) attributes() bool { return len(o.Attributes) > 0 || o.ExpiryColumn != "" }

// repeated returns a name that is given twice.
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

// finite reports whether v is neither an infinity nor NaN.
func finite(v float32) bool {
	return math.Float32bits(v)&0x7f800000 != 0x7f800000
}
