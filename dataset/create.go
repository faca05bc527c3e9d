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

// framing is what stands around the records of a format.
type framing interface {
	// header returns the bytes before the first record. Their number is the
	// same for every n. It is called with 0 at the start, and, if counted,
	// again with the number of records at the end.
	header(n int64) ([]byte, error)
	counted() bool
}

// encoder is what the formats of dense records differ in.
type encoder interface {
	framing
	// encode appends the record. The vector's length and values are checked.
	encode(dst []byte, rec *Record) ([]byte, error)
}

// fileWriter puts rows of bytes into a file that takes its place when it is
// whole.
type fileWriter struct {
	path    string // as given
	partial string // name of the file being written; path for pipes and devices
	file    *os.File
	buffer  *bufio.Writer // over file
	zip     *gzip.Writer  // over buffer; nil: not compressed
	frame   framing
	n       int64
	row     []byte
	failure error
	done    bool
}

// Create makes a file of records with dim dimensions. The format is one of
// the Format constants, "" goes by the name; a name ending in .gz is
// compressed. The file is written next to its path, under a name of its own that
// ends in a number, and takes its place on Close.
//
// What a format cannot hold is dropped (see [VectorsOnly]); values it cannot
// hold are errors of Write. Errors: fs errors as they come, [ErrOption], also for
// a path that is a symbolic link to a file.
func Create(path, format string, dim int) (Writer, error) {
	if format == "" {
		if format = FormatOf(path); format == "" {
			return nil, fmt.Errorf("dataset: %w: %s: the name does not say the format", ErrOption, path)
		}
	}
	if dim < 1 || dim > DefaultMaxDim {
		return nil, fmt.Errorf("dataset: %w: dimension %d, want 1..%d", ErrOption, dim, DefaultMaxDim)
	}
	enc := newEncoder(format, dim)
	if enc == nil {
		return nil, fmt.Errorf("dataset: %w: unknown format %q", ErrOption, format)
	}
	w := &vectorWriter{fileWriter: fileWriter{path: path, frame: enc}, enc: enc, dim: dim}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	return w, nil
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
		if w.frame.counted() {
			return nil, fmt.Errorf("%w: %s is not a regular file, and the format has its length at the start", ErrOption, w.path)
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
	if w.partial == w.path {
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
	head, err := w.headerBytes(0, compress)
	if err != nil {
		return err
	}
	if compress {
		w.zip = gzip.NewWriter(w.buffer)
	}
	_, err = w.buffer.Write(head)
	return err
}

func (w *fileWriter) headerBytes(n int64, compress bool) ([]byte, error) {
	head, err := w.frame.header(n)
	if err != nil || !compress || len(head) == 0 {
		return head, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(head)
	err = errors.Join(err, z.Close()) // before Bytes: it writes the member's end
	return b.Bytes(), err
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

// vectorWriter writes dense records.
type vectorWriter struct {
	fileWriter
	enc encoder
	dim int
}

func (w *vectorWriter) Write(rec *Record) error {
	return w.write(func(dst []byte) ([]byte, error) {
		if len(rec.Vector) != w.dim {
			return dst, fmt.Errorf("%d values, want %d", len(rec.Vector), w.dim)
		}
		for i, v := range rec.Vector {
			if !finite(v) {
				return dst, fmt.Errorf("value %d is %v", i, v)
			}
		}
		return w.enc.encode(dst, rec)
	})
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
	if err := w.buffer.Flush(); err != nil {
		return err
	}
	if w.frame.counted() {
		head, err := w.headerBytes(w.n, w.zip != nil)
		if err != nil {
			return err
		}
		if _, err := w.file.WriteAt(head, 0); err != nil {
			return err
		}
	}
	if w.partial == w.path {
		return nil // pipes and devices do not sync
	}
	return w.file.Sync()
}

func (w *fileWriter) Abort() error {
	if w.done {
		return nil
	}
	w.done = true
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
