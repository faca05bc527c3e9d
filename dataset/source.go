package dataset

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

const (
	bufferSize = 64 << 10
	// maxZstdWindow bounds the memory of the decompressor: what the zstd command takes by default.
	maxZstdWindow = 128 << 20
)

// source is the decompressed content of one file, with the place reached.
type source struct {
	ctx    context.Context
	path   string
	format string // empty until it is known
	// detected reports whether the format was found from the content: then it is a text in UTF-8, or binary.
	detected bool
	br       *bufio.Reader
	offset   int64       // bytes taken from br by readFull and skip
	line     int64       // on which the present record begins; 0 in formats without lines
	size     int64       // bytes of content, -1 when unknown
	at       io.ReaderAt // the content by offset; nil if it is compressed or comes through a pipe
	close    io.Closer
	folder   bool // a folder, without content
	texts    bool // its records are texts
}

// randomAccess is a reader in memory.
type randomAccess interface {
	io.ReaderAt
	Size() int64
}

// openSource opens a file and looks through gzip, bzip2 and zstd.
func openSource(ctx context.Context, path string) (*source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	size := int64(-1)
	info, err := f.Stat()
	switch {
	case err != nil:
		_ = f.Close()
		return nil, fmt.Errorf("dataset: %w", err)
	case info.IsDir():
		_ = f.Close()
		return nil, fmt.Errorf("dataset: %w: %s is a folder", ErrOption, path)
	case info.Mode().IsRegular():
		size = info.Size()
	}
	s, err := newSource(ctx, path, f, size)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	s.close = f
	return s, nil
}

// newSource wraps r, whose length is size bytes or -1.
func newSource(ctx context.Context, path string, r io.Reader, size int64) (*source, error) {
	s := &source{ctx: ctx, path: path, size: size}
	s.read(r)
	if at, ok := r.(io.ReaderAt); ok && size >= 0 {
		s.at = watchedAt{ctx, at}
	} else if mem, ok := r.(randomAccess); ok {
		s.at, s.size = watchedAt{ctx, mem}, mem.Size()
	}
	head, err := s.br.Peek(4)
	if err != nil && err != io.EOF {
		return nil, s.fail(-1, err)
	}
	var inner io.Reader
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		if inner, err = gzip.NewReader(s.br); err != nil {
			return nil, s.fail(-1, err)
		}
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// One goroutine, the caller's: the reader needs no closing.
		z, err := zstd.NewReader(s.br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, s.fail(-1, err)
		}
		inner = z
	case bytes.HasPrefix(head, []byte("BZh")):
		// A block's magic number follows, so that text beginning with the same letters is
		// not taken for it.
		if head := s.peek(10); len(head) < 10 || string(head[4:]) != "1AY&SY" {
			return s, nil
		}
		inner = bzip2.NewReader(s.br)
	default:
		return s, nil
	}
	s.read(inner)
	s.size, s.at = -1, nil
	return s, nil
}

// read makes r what is read from now on.
func (s *source) read(r io.Reader) {
	s.br = bufio.NewReaderSize(watched{s.ctx, r}, bufferSize)
}

// watched is a reader that ends with its context.
type watched struct {
	ctx context.Context
	r   io.Reader
}

func (w watched) Read(p []byte) (int, error) {
	const most = 1 << 20
	if w.ctx.Err() != nil {
		return 0, interrupted{context.Cause(w.ctx)}
	}
	return w.r.Read(p[:min(len(p), most)])
}

// watchedAt is watched for reads by offset.
type watchedAt struct {
	ctx context.Context
	r   io.ReaderAt
}

func (w watchedAt) ReadAt(p []byte, offset int64) (int, error) {
	if w.ctx.Err() != nil {
		return 0, interrupted{context.Cause(w.ctx)}
	}
	return w.r.ReadAt(p, offset)
}

// interrupted is the error of a context that is done.
type interrupted struct{ error }

func (i interrupted) Unwrap() error { return i.error }

// peek returns up to n bytes without taking them; fewer at the end or at a
// fault, which a later read will report.
func (s *source) peek(n int) []byte {
	b, _ := s.br.Peek(n)
	return b
}

// discard passes n bytes over, and reports whether there were as many.
func (s *source) discard(n int) bool {
	k, _ := s.br.Discard(n)
	s.offset += int64(k)
	return k == n
}

// readFull fills buf. It returns io.EOF when nothing was left and
// io.ErrUnexpectedEOF when buf could be filled only in part.
func (s *source) readFull(buf []byte) error {
	n, err := io.ReadFull(s.br, buf)
	s.offset += int64(n)
	return err
}

// end returns nil when nothing is left and the gzip checksum, if any, holds.
func (s *source) end(record int64) error {
	_, err := s.br.ReadByte()
	switch err {
	case io.EOF:
		return nil
	case nil:
		return s.bad(record, s.offset, errors.New("bytes after the last record"))
	}
	return s.fail(record, err)
}

// bad makes the error of a binary file's fault.
func (s *source) bad(record, offset int64, err error) error {
	return &FormatError{Path: s.path, Format: s.format, Record: record, Offset: offset, Err: err}
}

// badRecord makes the error of a fault in the values of one record, behind which reading can continue.
func (s *source) badRecord(record, offset int64, err error) error {
	return &FormatError{
		Path: s.path, Format: s.format, Record: record, Line: s.line, Offset: offset, Err: err,
		Skippable: true,
	}
}

// badLine makes the error of a text file's fault.
func (s *source) badLine(record, line int64, err error) error {
	return &FormatError{Path: s.path, Format: s.format, Record: record, Line: line, Offset: -1, Err: err}
}

// encoded refuses bytes that are not UTF-8 in a text that was detected.
func (s *source) encoded(text []byte) error {
	switch {
	case !s.detected || utf8.Valid(text):
		return nil
	case s.texts:
		return errNotText
	}
	return errNotUTF8
}

// fail makes the error of a failed read in a binary file: a fault of the
// system stays one, everything else (early end, damaged gzip) is a fault of
// the content.
func (s *source) fail(record int64, err error) error {
	if isSystem(err) {
		return fmt.Errorf("dataset: read %s at offset %d: %w", s.path, s.offset, err)
	}
	return s.bad(record, s.offset, readCause(err))
}

// failLine is fail for text files.
func (s *source) failLine(record, line int64, err error) error {
	if isSystem(err) {
		return fmt.Errorf("dataset: read %s at line %d: %w", s.path, line, err)
	}
	return s.badLine(record, line, readCause(err))
}

func isSystem(err error) bool {
	var p *fs.PathError
	var i interrupted
	return errors.As(err, &p) || errors.As(err, &i)
}

// readCause puts an early end in words and keeps its identity.
func readCause(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("truncated: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Close closes the file underneath, if openSource opened one.
func (s *source) Close() error {
	c := s.close
	s.close = nil
	if c == nil {
		return nil
	}
	if err := c.Close(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	return nil
}
