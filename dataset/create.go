package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Writer writes the records of one file. A Writer serves one goroutine at a
// time.
type Writer interface {
	// Write appends a record; it keeps nothing of it. Errors that wrap
	// [ErrRecord] leave the file as it was. After any other error the Writer
	// writes no more, and Close fails.
	Write(*Record) error
	// Chmod sets the mode of the file, which is 0600 otherwise. Pipes and devices
	// keep theirs.
	Chmod(fs.FileMode) error
	// Close finishes the file, syncs it and puts it at its path, replacing
	// what was there. On error the path is as it was before Create.
	Close() error
	// Abort throws the file away. After Close it does nothing, so it can be
	// deferred.
	Abort() error
}

// framing is what a format has before its records.
type framing interface {
	// header returns the bytes before the first record. Their number is the
	// same for every n. It is called with 0 at the start, and, if counted,
	// again with the number of records at the end.
	header(n int64) (head []byte, counted bool)
}

// trailed is a framing with bytes after the last record.
type trailed interface {
	trailer(dst []byte) []byte
}

// noHeader is the framing of formats that are nothing but records.
type noHeader struct{}

func (noHeader) header(int64) ([]byte, bool) { return nil, false }

// encoder is what the formats differ in.
type encoder interface {
	framing
	// encode appends the record, whose values are finite and within the limits.
	encode(dst []byte, rec *Record) ([]byte, error)
}

// fileWriter puts rows of bytes into a file that takes its place when it is
// whole.
type fileWriter struct {
	path    string        // as given
	partial string        // name of the file being written; path for pipes and devices
	file    *os.File      // nil: a writer of the caller
	buffer  *bufio.Writer // over file
	zip     *gzip.Writer  // over buffer; nil: not compressed
	frame   framing
	n       int64
	row     []byte
	failure error
	done    bool
}

// Create makes a file of records as the Schema describes them. A name ending in .gz
// is compressed. The file is written next to its path, under a name of its own that
// ends in a number, and takes its place on Close.
//
// What a format cannot hold is dropped (see [VectorsOnly] and [HasAttributes]; of sparse
// formats only jsonl keeps keys and payloads); values it cannot hold are errors of Write.
// Text has the fewest digits that read back as the same float32.
//
// Errors: fs errors as they come, [ErrOption], also for a path that is a symbolic
// link to a file.
func Create(path string, s Schema) (Writer, error) {
	w, err := newWriter(path, s)
	if err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return w, nil
}

// NewWriter writes records to w like [Create]. The name stands for the path in errors, and with s.Format
// "" for the format. Close does not close w; Chmod does nothing, and what was written before Abort stays.
// Formats that have their length at the start are errors.
func NewWriter(name string, to io.Writer, s Schema) (Writer, error) {
	w, err := newWriter(name, s)
	if err != nil {
		return nil, err
	}
	if _, counted := w.frame.header(0); counted {
		return nil, fmt.Errorf("dataset: %w: %s: %s has its length at the start, so it needs a file",
			ErrOption, name, s.Format)
	}
	w.buffer = bufio.NewWriterSize(to, bufferSize)
	return w, w.begin(false)
}

func newWriter(name string, s Schema) (*recordWriter, error) {
	s, err := s.normal(name)
	if err != nil {
		return nil, err
	}
	enc, err := formatNamed(s.Format).encoder(s)
	if err != nil {
		return nil, err
	}
	w := &recordWriter{fileWriter: fileWriter{path: name, frame: enc}, enc: enc, kind: s.Kind, dim: s.Dim}
	if s.Kind == Sparse && s.Dim == 0 {
		w.dim = DefaultMaxFeatures
	}
	return w, nil
}

// normal checks the schema of a file to write and fills in what the path and the
// format say.
func (s Schema) normal(path string) (Schema, error) {
	bad := func(format string, args ...any) (Schema, error) {
		return s, fmt.Errorf("dataset: %w: %s", ErrOption, fmt.Sprintf(format, args...))
	}
	if s.Format == "" {
		s.Format = FormatOf(path, s.Kind)
	}
	known := strings.Join(WritableFormats(s.Kind), ", ")
	f, lower := formatNamed(s.Format), strings.ToLower(path)
	switch {
	case s.Format == "" && FormatOf(path, AnyKind) != "":
		return bad("%s: %s files hold no %v records (want one of %s)", path, FormatOf(path, AnyKind), s.Kind, known)
	case s.Format == "":
		return bad("%s: the name does not say the format (want one of %s)", path, known)
	case f == nil:
		return bad("unknown format %q (want one of %s)", s.Format, known)
	case s.Kind > Text:
		return bad("Kind is %d", s.Kind)
	case f.encoder == nil:
		return bad("%s files are only read (want one of %s)", s.Format, known)
	case f.seek && strings.HasSuffix(lower, ".gz"):
		return bad("%s: %s files cannot be read through a compression", path, s.Format)
	case strings.HasSuffix(lower, ".bz2") || strings.HasSuffix(lower, ".zst"):
		return bad("%s: what is written is compressed by gzip, with a name that ends in .gz", path)
	case !f.holds(s.Kind):
		return bad("%s files hold no %v records (want one of %s)", s.Format, s.Kind, known)
	}
	if s.Kind == AnyKind {
		if s.Kind = Sparse; f.dense {
			s.Kind = Dense
		}
	}
	n := len(s.FeatureNames)
	switch {
	case s.Kind == Dense && s.Dim < 1, s.Kind != Sparse && s.Dim > DefaultMaxDim:
		return bad("dimension %d, want 1..%d", s.Dim, DefaultMaxDim)
	case s.Dim < 0 || s.Dim > DefaultMaxFeatures || n > DefaultMaxFeatures:
		return bad("%d features, want 0..%d", max(s.Dim, n), DefaultMaxFeatures)
	case n > 0 && s.Dim > 0 && n != s.Dim:
		return bad("%d names for %d features", n, s.Dim)
	case s.Base > BaseOne:
		return bad("Base is %d", s.Base)
	}
	for _, list := range [][]string{s.FeatureNames, s.LabelNames} {
		if name, twice := repeated(list); twice {
			return bad("the name %.40q is given twice", name)
		}
	}
	s.Dim = max(s.Dim, n)
	return s, nil
}

// open makes the file and writes its header.
func (w *fileWriter) open() error {
	f, err := w.create()
	if err != nil {
		return err
	}
	w.file = f
	w.buffer = bufio.NewWriterSize(f, bufferSize)
	if err := w.begin(strings.HasSuffix(strings.ToLower(w.path), ".gz")); err != nil {
		_ = w.Abort()
		return err
	}
	return nil
}

// create makes the file under a new name, which no one else can have prepared, or
// opens the pipe or device, which cannot be replaced, only written to. It follows
// no link to a file: that would replace a file that the caller did not name.
func (w *fileWriter) create() (*os.File, error) {
	info, err := os.Stat(w.path) // /dev/stdout is a link to a pipe
	switch {
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%w: %s is a folder", ErrOption, w.path)
	case err == nil && !info.Mode().IsRegular():
		if _, counted := w.frame.header(0); counted {
			return nil, fmt.Errorf("%w: %s is not a regular file, and the format has its length at the start",
				ErrOption, w.path)
		}
		w.partial = w.path
		return os.OpenFile(w.path, os.O_WRONLY, 0)
	}
	if info, err := os.Lstat(w.path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%w: %s is a symbolic link: name the file itself", ErrOption, w.path)
	}
	f, err := os.CreateTemp(filepath.Dir(w.path), "."+filepath.Base(w.path)+".partial-*")
	if p := (*fs.PathError)(nil); errors.As(err, &p) { // it names the temporary file
		return nil, &fs.PathError{Op: "create", Path: w.path, Err: p.Err}
	}
	if err == nil {
		w.partial = f.Name()
	}
	return f, err
}

// Chmod sets the mode of the file.
func (w *fileWriter) Chmod(mode fs.FileMode) error {
	if w.done {
		return fmt.Errorf("dataset: %s: %w", w.path, os.ErrClosed)
	}
	if w.partial == w.path || w.file == nil {
		return nil
	}
	if err := w.file.Chmod(mode.Perm()); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// begin writes the header. Under gzip it is a member of its own, stored and
// not compressed, so that finish can put another of the same length in its
// place; readers see the members' contents one after the other.
func (w *fileWriter) begin(compress bool) error {
	if compress {
		w.zip = gzip.NewWriter(w.buffer)
	}
	head, _ := w.headerBytes()
	_, err := w.buffer.Write(head)
	return err
}

// headerBytes returns the header of as many records as there are.
func (w *fileWriter) headerBytes() (head []byte, counted bool) {
	head, counted = w.frame.header(w.n)
	if w.zip == nil || len(head) == 0 {
		return head, counted
	}
	var b bytes.Buffer // whose writes do not fail
	z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
	_, _ = z.Write(head)
	_ = z.Close()
	return b.Bytes(), counted
}

// write adds the row that encode appends to its argument.
func (w *fileWriter) write(encode func(dst []byte) ([]byte, error)) error {
	if w.done {
		return fmt.Errorf("dataset: %s: %w", w.path, os.ErrClosed)
	}
	if w.failure != nil {
		return w.failure
	}
	row, err := encode(w.row[:0])
	w.row = row
	if err != nil {
		return fmt.Errorf("dataset: %s: record %d: %w: %w", w.path, w.n, ErrRecord, err)
	}
	var to io.Writer = w.buffer
	if w.zip != nil {
		to = w.zip
	}
	if _, err := to.Write(w.row); err != nil {
		w.failure = fmt.Errorf("dataset: %s: record %d: %w", w.path, w.n, err)
		return w.failure
	}
	w.n++
	return nil
}

// recordWriter checks records and writes them.
type recordWriter struct {
	fileWriter
	enc  encoder
	kind Kind
	dim  int
}

func (w *recordWriter) Write(rec *Record) error {
	return w.write(func(dst []byte) ([]byte, error) {
		if err := w.check(rec); err != nil {
			return dst, err
		}
		return w.enc.encode(dst, rec)
	})
}

// check refuses records that do not fit the schema.
func (w *recordWriter) check(rec *Record) error {
	switch w.kind {
	case Text:
		if rec.Features.Len() > 0 || w.dim == 0 && len(rec.Vector) > 0 {
			return errors.New("a vector or features in a file of texts")
		}
		if err := checkText(rec.Text); err != nil || len(rec.Vector) == 0 {
			return err
		}
	case Sparse:
		if err := rec.Features.Validate(); err != nil {
			return err
		}
		if n := rec.Features.Len(); n > 0 && uint64(rec.Features.Index[n-1]) >= uint64(w.dim) {
			return fmt.Errorf("feature %d, there are %d", rec.Features.Index[n-1], w.dim)
		}
		return nil
	}
	if len(rec.Vector) != w.dim {
		return fmt.Errorf("%d values, want %d", len(rec.Vector), w.dim)
	}
	for i, v := range rec.Vector {
		if !finite(v) {
			return fmt.Errorf("value %d is %v", i, v)
		}
	}
	return nil
}

func (w *fileWriter) Close() error {
	if w.done {
		return fmt.Errorf("dataset: %s: %w", w.path, os.ErrClosed)
	}
	if err := w.finish(); err != nil {
		_ = w.Abort()
		return fmt.Errorf("dataset: %s: %w", w.path, err)
	}
	w.done = true
	if w.file == nil {
		return nil
	}
	if err := w.file.Close(); err != nil {
		w.remove()
		return fmt.Errorf("dataset: %w", err)
	}
	if w.partial == w.path {
		return nil
	}
	if err := os.Rename(w.partial, w.path); err != nil {
		w.remove()
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// finish writes out what is buffered, and the header with its final count.
func (w *fileWriter) finish() error {
	if w.failure != nil {
		return w.failure
	}
	if w.zip != nil {
		if err := w.zip.Close(); err != nil {
			return err
		}
	}
	if t, ok := w.frame.(trailed); ok {
		if _, err := w.buffer.Write(t.trailer(w.row[:0])); err != nil {
			return err
		}
	}
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	if head, counted := w.headerBytes(); counted {
		if _, err := w.file.WriteAt(head, 0); err != nil {
			return err
		}
	}
	if w.partial == w.path || w.file == nil {
		return nil // pipes and devices do not sync
	}
	return w.file.Sync()
}

func (w *fileWriter) Abort() error {
	if w.done {
		return nil
	}
	if w.done = true; w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.remove()
	if err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}

// remove deletes the unfinished file; failing that there is nothing better to do.
func (w *fileWriter) remove() {
	if w.partial != w.path {
		_ = os.Remove(w.partial)
	}
}
