package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// rowDecoder is what the formats of sparse records differ in.
type rowDecoder interface {
	// decode turns a line, with its line feed, into rec, all but the key if
	// the format has none; false when no record stands in the line. rec comes
	// empty but for its number as the key.
	decode(rec *SparseRecord, line []byte) (bool, error)
	// end is called after the last line.
	end() error
	names() sparseNames
}

// sparseNames is what a file says about its features and labels as a whole.
type sparseNames struct {
	features, labels         int // -1: nothing
	featureNames, labelNames []string
}

// OpenSparse opens a file of sparse records for reading. Gzip and bzip2 are
// recognised by their magic numbers. With o.Format "" the content tells the
// format: a brace begins jsonl, a % or @ begins ARFF, a line of three whole
// numbers xmc, and any other text whose first line has the shape of a libsvm
// record is that.
//
// Errors: fs errors as they come, [ErrOption] for bad options, *[FormatError]
// for content that cannot be read. The caller closes the reader.
func OpenSparse(path string, o SparseOptions) (SparseReader, error) {
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	r, err := newSparseReader(s, o, true)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return r, nil
}

// NewSparseReader reads sparse records from r like [OpenSparse]. The name
// stands for the path in errors only; no file is looked for beside it.
// Closing the reader does not close r.
func NewSparseReader(name string, r io.Reader, o SparseOptions) (SparseReader, error) {
	s, err := newSource(name, r, -1)
	if err != nil {
		return nil, err
	}
	return newSparseReader(s, o, false)
}

func newSparseReader(s *source, o SparseOptions, onDisk bool) (*sparseReader, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	if o.Format == "" {
		if o.Format, err = detectSparse(s); err != nil {
			return nil, err
		}
	}
	s.format = o.Format
	r := &sparseReader{format: o.Format, max: o.Max, lines: newLines(s), promised: -1}
	switch o.Format {
	case FormatLibsvm:
		r.rows = openLibsvm(s, o)
	case FormatXMC:
		r.rows, r.promised, err = openXMC(r.lines, o)
	case FormatARFF:
		if onDisk && o.LabelsXML == "" {
			if o.LabelsXML, err = xmlBeside(s.path); err != nil {
				return nil, err
			}
		}
		r.rows, err = openARFF(r.lines, o)
	default:
		r.rows = openSparseJSONL(r.lines, o)
	}
	if err != nil {
		return nil, err
	}
	if o.KeysPath != "" {
		keys, err := openSource(o.KeysPath)
		if err != nil {
			return nil, err
		}
		r.keys = newLines(keys)
	}
	return r, nil
}

// detectSparse tells the format of s without taking bytes from it.
func detectSparse(s *source) (string, error) {
	head := s.peek(4096)
	if len(head) == 0 {
		if _, err := s.br.Peek(1); err != nil && err != io.EOF {
			return "", s.fail(-1, err)
		}
		return "", s.bad(-1, 0, errors.New("empty file"))
	}
	if !isText(head) {
		return "", s.bad(-1, 0, errors.New("not a text: no format of sparse records"))
	}
	head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	whole := len(head) < 4096-len(byteOrderMark)
	body := bytes.TrimLeft(head, " \t\r\n")
	if len(body) == 0 {
		return "", s.badLine(-1, 1, errors.New("no records"))
	}
	switch body[0] {
	case '{':
		return FormatJSONL, nil
	case '%', '@':
		return FormatARFF, nil
	}
	line, _, complete := bytes.Cut(head, []byte("\n"))
	if (complete || whole) && isXMCHeader(line) {
		return FormatXMC, nil
	}
	// The last field of what was looked at may be cut short.
	line, _, complete = bytes.Cut(body, []byte("\n"))
	fields := bytes.Fields(line)
	if !complete && !whole && len(fields) > 1 {
		fields = fields[:len(fields)-1]
	}
	if looksLibsvm(fields) {
		return FormatLibsvm, nil
	}
	return "", s.badLine(-1, 1, fmt.Errorf("%.40q begins no known format of sparse records", line))
}

// sparseReader reads lines and leaves their meaning to rows.
type sparseReader struct {
	format   string
	lines    *lines
	rows     rowDecoder
	keys     *lines // nil: none
	max      int64  // 0: no limit
	promised int64  // records, -1: unknown
	i        int64
	failure  error
}

func (r *sparseReader) Format() string { return r.format }

// Keyed implements SparseReader.
func (r *sparseReader) Keyed() bool {
	j, ok := r.rows.(*sparseJSONL)
	return r.keys != nil || ok && j.keyed
}

// Base implements SparseReader.
func (r *sparseReader) Base() Base {
	if l, ok := r.rows.(*libsvm); ok {
		return l.first()
	}
	return BaseZero
}

func (r *sparseReader) NumFeatures() int       { return r.rows.names().features }
func (r *sparseReader) NumLabels() int         { return r.rows.names().labels }
func (r *sparseReader) FeatureNames() []string { return slices.Clip(r.rows.names().featureNames) }
func (r *sparseReader) LabelNames() []string   { return slices.Clip(r.rows.names().labelNames) }

func (r *sparseReader) Len() int64 {
	if r.promised >= 0 && r.max > 0 {
		return min(r.promised, r.max)
	}
	return r.promised
}

func (r *sparseReader) Read(rec *SparseRecord) error {
	if r.failure == nil {
		r.failure = r.read(rec)
	}
	return r.failure
}

func (r *sparseReader) read(rec *SparseRecord) error {
	if r.max > 0 && r.i == r.max {
		return io.EOF
	}
	for {
		line, err := r.lines.next(r.i)
		if err == io.EOF {
			return r.end()
		}
		if err != nil {
			return err
		}
		rec.Key = strconv.AppendInt(rec.Key[:0], r.i, 10)
		rec.Features.Index, rec.Features.Value = rec.Features.Index[:0], rec.Features.Value[:0]
		rec.Labels, rec.Payload = rec.Labels[:0], rec.Payload[:0]
		ok, err := r.rows.decode(rec, line)
		if err != nil {
			return r.lines.bad(r.i, err)
		}
		if !ok {
			continue
		}
		if r.keys != nil {
			if err := r.key(rec); err != nil {
				return err
			}
		}
		r.i++
		return nil
	}
}

// key takes the record's key from the file of keys.
func (r *sparseReader) key(rec *SparseRecord) error {
	line, err := r.keys.next(r.i)
	if err == io.EOF {
		return r.keys.bad(-1, fmt.Errorf("%d keys for more records in %s", r.i, r.lines.src.path))
	}
	if err != nil {
		return err
	}
	if line = trimLineEnd(line); len(line) == 0 {
		return r.keys.bad(r.i, errEmptyKey)
	}
	rec.Key = append(rec.Key[:0], line...)
	return nil
}

// end checks what can be known only at the end.
func (r *sparseReader) end() error {
	if err := r.rows.end(); err != nil {
		return r.lines.bad(-1, err)
	}
	if r.i == 0 && r.promised < 0 && r.format != FormatARFF {
		return r.lines.bad(-1, errors.New("no records"))
	}
	if r.keys == nil {
		return io.EOF
	}
	line, err := r.keys.next(r.i)
	for ; err == nil; line, err = r.keys.next(r.i) {
		if len(trimLineEnd(line)) > 0 {
			return r.keys.bad(-1, fmt.Errorf("more keys than the %d records of %s", r.i, r.lines.src.path))
		}
	}
	return err
}

func (r *sparseReader) Close() error {
	err := r.lines.src.Close()
	if r.keys != nil {
		err = errors.Join(err, r.keys.src.Close())
	}
	return err
}

func trimLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}

// ReadNames reads a list of names, one a line, such as the labels of an xmc
// file; gzip and bzip2 are looked through. column picks a column of a table
// parted by tabs, from 1; 0 takes whole lines. Blank lines at the end do not
// count. Memory follows the list.
//
// Errors: fs errors as they come, [ErrOption], *[FormatError] for an empty
// name or a missing column.
func ReadNames(path string, column int) ([]string, error) {
	if column < 0 {
		return nil, fmt.Errorf("dataset: %w: column %d", ErrOption, column)
	}
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var names []string
	in := newLines(s)
	blank := int64(0)
	for {
		line, err := in.next(int64(len(names)))
		if err == io.EOF {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
		line = trimLineEnd(line)
		if len(bytes.TrimSpace(line)) == 0 {
			blank = in.n
			continue
		}
		if blank > 0 {
			return nil, s.badLine(int64(len(names)), blank, errors.New("empty name"))
		}
		if column > 0 {
			fields := bytes.Split(line, []byte("\t"))
			if len(fields) < column || len(fields[column-1]) == 0 {
				return nil, in.bad(int64(len(names)), fmt.Errorf("no name in column %d", column))
			}
			line = fields[column-1]
		}
		names = append(names, string(line))
	}
}
