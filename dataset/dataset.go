package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
)

// Names of the formats, as taken by [Options].Format and [Create].
const (
	FormatIDX   = "idx"   // idx, the format of MNIST: big-endian, typed, any number of dimensions
	FormatFvecs = "fvecs" // int32 dimension, then that many float32, little-endian, per record
	FormatBvecs = "bvecs" // int32 dimension, then that many uint8, per record
	FormatIvecs = "ivecs" // int32 dimension, then that many int32, little-endian, per record
	FormatNPY   = "npy"   // NumPy array file, versions 1 to 3, C order
	FormatCSV   = "csv"   // comma-separated text
	FormatTSV   = "tsv"   // tab-separated text, quoted like csv
	FormatJSONL = "jsonl" // one JSON object a line
)

// Limits that hold whatever a file claims about itself.
const (
	// DefaultMaxDim is the largest number of dimensions read or written when
	// Options.MaxDim is 0.
	DefaultMaxDim = 1 << 20
	// maxMaxDim bounds Options.MaxDim, so that a record's buffer stays below
	// 128 MiB even for 8-byte elements.
	maxMaxDim = 1 << 24
	// maxTextRecord bounds one line of jsonl or one record of csv, in bytes.
	maxTextRecord = 64 << 20
)

// ErrFormat is wrapped by every error that says a file's content is wrong.
var ErrFormat = errors.New("malformed file")

// ErrOption is wrapped by every error that says an argument is wrong: an
// unknown format name, a dimension out of range.
var ErrOption = errors.New("bad option")

// ErrRecord is wrapped by the error of a Write whose record does not fit the
// writer: wrong dimension, a value the format cannot hold. Such a record
// leaves the file as it was, and the next one may be written.
var ErrRecord = errors.New("record cannot be written")

// FormatError says what is wrong in which file and where. It wraps both
// [ErrFormat] and its cause.
type FormatError struct {
	Path   string // as given to Open
	Record int64  // record number from 0; -1 when the fault is before the first record or in the file as a whole
	Line   int64  // line number from 1; 0 in binary formats
	Offset int64  // bytes from the start of the decompressed content, where the faulty part begins; -1 in text formats
	Format string // what the content is read as; empty where that is not known yet
	Err    error  // the cause, never nil
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

// Record is one row of a data set.
type Record struct {
	// Key identifies the record. Files that carry no keys give the record
	// number, from 0, in decimal.
	Key []byte
	// Vector has Reader.Dim() finite values.
	Vector []float32
	// Labels are the record's classes or tags; empty when the file has none.
	Labels []string
	// Payload is whatever else belongs to the record; empty when the file has
	// none.
	Payload []byte
}

// Reader gives the records of one file in file order, in memory that does not
// grow with the file. A Reader serves one goroutine at a time.
type Reader interface {
	// Keyed reports whether the file gives its records keys; otherwise they are
	// record numbers. In jsonl the first record tells.
	Keyed() bool
	// Dim is the number of dimensions of every record, at least 1.
	Dim() int
	// Len is the number of records: as promised by a header, or worked out
	// from the file's size; -1 when neither tells. A wrong promise surfaces as
	// an error of Open or Read, never as a short or long read.
	Len() int64
	// Read overwrites *Record with the next record and reuses its slices, so
	// they hold only until the next Read with the same Record. It returns
	// io.EOF after the last record, and then only once the rest of the file
	// (trailing bytes, the gzip checksum) has proved sound. After an error
	// every further Read returns that error; the record is then undefined.
	Read(*Record) error
	// Close releases the file. A second Close does nothing.
	Close() error
}

// Header says whether a csv or tsv file begins with a line of column names.
type Header uint8

// Values of Header.
const (
	HeaderAuto    Header = iota // decide from the first two lines, see the package documentation
	HeaderPresent               // the first line has names
	HeaderAbsent                // the first line is a record
)

// Options says how to read a file. The zero value detects the format and
// reads everything.
//
// A column is given by its name in the header, or else by its position from
// 1. In jsonl the same options name the fields of the objects.
type Options struct {
	// Format is one of the Format constants; "" detects it.
	Format string
	// KeyColumn is the csv column or jsonl field with the key. "" means a
	// column named key or id if there is one.
	KeyColumn string
	// LabelColumns are the columns or fields with labels. nil means a column
	// named label or labels, if there is one.
	LabelColumns []string
	// LabelSeparator splits a csv label cell into labels; "" means "|".
	LabelSeparator string
	// PayloadColumn is the column or field with the payload. "" means a column
	// named payload, if there is one.
	PayloadColumn string
	// VectorField is the jsonl field with the vector; "" means "vector".
	VectorField string
	// IgnoreColumns are columns or fields to skip. Any other unnamed csv column
	// belongs to the vector; any other jsonl field is an error, since a
	// misspelt field would otherwise be lost silently.
	IgnoreColumns []string
	// Header says whether a csv or tsv file has a line of column names.
	Header Header
	// LabelsPath is an idx file of one dimension and whole numbers (gzip or
	// not): label i, in decimal, is added to record i. The two files must have
	// the same number of records. "" means none.
	LabelsPath string
	// Max stops after that many records; 0 reads all. The rest of the file is
	// then not looked at.
	Max int64
	// MaxDim refuses vectors with more dimensions; 0 means DefaultMaxDim.
	MaxDim int
}

// normal checks o and fills in the defaults.
func (o Options) normal() (Options, error) {
	if o.Format != "" && !known(o.Format) {
		return o, fmt.Errorf("dataset: %w: unknown format %q", ErrOption, o.Format)
	}
	if o.Max < 0 {
		return o, fmt.Errorf("dataset: %w: Max is %d", ErrOption, o.Max)
	}
	if o.MaxDim < 0 || o.MaxDim > maxMaxDim {
		return o, fmt.Errorf("dataset: %w: MaxDim is %d, want 0..%d", ErrOption, o.MaxDim, maxMaxDim)
	}
	if o.Header > HeaderAbsent {
		return o, fmt.Errorf("dataset: %w: Header is %d", ErrOption, o.Header)
	}
	if o.MaxDim == 0 {
		o.MaxDim = DefaultMaxDim
	}
	if o.LabelSeparator == "" {
		o.LabelSeparator = "|"
	}
	if o.VectorField == "" {
		o.VectorField = "vector"
	}
	return o, nil
}

// Formats returns the names of all formats.
func Formats() []string {
	return []string{FormatIDX, FormatFvecs, FormatBvecs, FormatIvecs, FormatNPY, FormatCSV, FormatTSV, FormatJSONL}
}

// VectorsOnly reports whether files of the format hold nothing but vectors, so
// that writing one drops keys, labels and payloads.
func VectorsOnly(format string) bool {
	switch format {
	case FormatCSV, FormatTSV, FormatJSONL:
		return false
	}
	return true
}

func known(format string) bool {
	for _, f := range Formats() {
		if f == format {
			return true
		}
	}
	return false
}

// FormatOf returns the format that a file name suggests, "" when it suggests
// none. A final .gz is looked through.
func FormatOf(path string) string {
	name := strings.ToLower(filepath.Base(path))
	name = strings.TrimSuffix(name, ".gz")
	ext := strings.TrimPrefix(filepath.Ext(name), ".")
	switch {
	case ext == "ndjson":
		return FormatJSONL
	case ext != "" && known(ext):
		return ext
	case strings.HasSuffix(name, "-ubyte"):
		return FormatIDX
	}
	return ""
}

// limited stops a reader after max records.
type limited struct {
	Reader
	max, n int64
}

func (l *limited) Len() int64 {
	if n := l.Reader.Len(); n >= 0 {
		return min(n, l.max)
	}
	return -1
}

func (l *limited) Read(rec *Record) error {
	if l.n >= l.max {
		return io.EOF
	}
	err := l.Reader.Read(rec)
	if err == nil {
		l.n++
	}
	return err
}

// finite reports whether v is neither an infinity nor NaN.
func finite(v float32) bool {
	return math.Float32bits(v)&0x7f800000 != 0x7f800000
}
