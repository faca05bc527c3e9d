package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Open opens a file for reading. Gzip is recognised by its magic number
// whatever the name. With o.Format "" the format is detected: magic numbers
// (npy, idx) first, then the name, then what the text looks like.
//
// Errors: fs errors as they come, [ErrOption] for bad options, *[FormatError]
// for content that cannot be read. The caller closes the Reader.
func Open(path string, o Options) (Reader, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	s, err := openSource(path)
	if err != nil {
		return nil, err
	}
	r, err := newReader(s, o)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return r, nil
}

// NewReader reads a data set from r like [Open]. The name stands for the path
// in errors and in detection. Closing the Reader does not close r.
func NewReader(name string, r io.Reader, o Options) (Reader, error) {
	o, err := o.normal()
	if err != nil {
		return nil, err
	}
	s, err := newSource(name, r, -1)
	if err != nil {
		return nil, err
	}
	return newReader(s, o)
}

// newReader puts the decoder of the format, the side file of labels and the
// limit together.
func newReader(s *source, o Options) (Reader, error) {
	format := o.Format
	if format == "" {
		var err error
		if format, err = detect(s, o.MaxDim); err != nil {
			return nil, err
		}
	}
	s.format = format
	var r Reader
	var err error
	switch format {
	case FormatIDX:
		r, err = openIDX(s, o)
	case FormatNPY:
		r, err = openNPY(s, o)
	case FormatFvecs:
		r, err = openVecs(s, o, elem{kind: kindF32})
	case FormatBvecs:
		r, err = openVecs(s, o, elem{kind: kindU8})
	case FormatIvecs:
		r, err = openVecs(s, o, elem{kind: kindI32})
	case FormatCSV:
		r, err = openDelimited(s, o, ',')
	case FormatTSV:
		r, err = openDelimited(s, o, '\t')
	default:
		r, err = openJSONL(s, o)
	}
	if err != nil {
		return nil, err
	}
	if o.LabelsPath != "" {
		if r, err = withLabels(r, s.path, o.LabelsPath, o.Max); err != nil {
			return nil, err
		}
	}
	if o.Max > 0 {
		r = &limited{Reader: r, max: o.Max}
	}
	return r, nil
}

// detect tells the format of s without taking bytes from it.
func detect(s *source, maxDim int) (string, error) {
	head := s.peek(4096)
	if len(head) == 0 {
		if _, err := s.br.Peek(1); err != nil && err != io.EOF {
			return "", s.fail(-1, err)
		}
		return "", s.bad(-1, 0, errors.New("empty file"))
	}
	if bytes.HasPrefix(head, []byte(npyMagic)) {
		return FormatNPY, nil
	}
	if _, ok := idxMagic(head); ok {
		return FormatIDX, nil
	}
	name := FormatOf(s.path)
	if isText(head) {
		// A binary name over text is left to the decoder of that name, whose
		// complaint (wrong magic number) says more than a csv error would.
		if name != "" && VectorsOnly(name) {
			return name, nil
		}
		return detectText(head, name), nil
	}
	if name != "" {
		return name, nil
	}
	return "", s.bad(-1, 0, fmt.Errorf("unknown binary format (vecs files of up to %d dimensions need their file name extension or an explicit format)", maxDim))
}

// detectText tells the text formats apart. Only jsonl can begin with a brace
// followed by a quoted name, so that beats the name; a bare delimiter does not.
func detectText(head []byte, name string) string {
	head = bytes.TrimPrefix(head, []byte(byteOrderMark))
	body := bytes.TrimLeft(head, " \t\r\n")
	if rest, ok := bytes.CutPrefix(body, []byte("{")); ok {
		rest = bytes.TrimLeft(rest, " \t")
		if len(rest) > 0 && rest[0] == '"' {
			return FormatJSONL
		}
	}
	if name != "" {
		return name
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	if bytes.Count(line, []byte("\t")) > bytes.Count(line, []byte(",")) {
		return FormatTSV
	}
	return FormatCSV
}

// isText reports whether b has no control bytes but white space.
func isText(b []byte) bool {
	for _, c := range b {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// labelled adds the labels of a side file to the records of a reader.
type labelled struct {
	Reader
	side *labelFile
	path string // of the records
	n    int64
	err  error
}

// withLabels opens the side file. On error r is left to the caller.
func withLabels(r Reader, path, labelsPath string, max int64) (Reader, error) {
	s, err := openSource(labelsPath)
	if err != nil {
		return nil, err
	}
	side, err := openLabelFile(s)
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	// With a limit the two need only be long enough, which Read checks.
	if n := r.Len(); max == 0 && n >= 0 && n != side.n {
		_ = s.Close()
		return nil, s.bad(-1, 4, fmt.Errorf("%d labels for the %d records of %s", side.n, n, path))
	}
	return &labelled{Reader: r, side: side, path: path}, nil
}

func (l *labelled) Read(rec *Record) error {
	if l.err != nil {
		return l.err
	}
	if l.err = l.Reader.Read(rec); l.err == io.EOF {
		if l.n < l.side.n {
			l.err = l.side.src.bad(l.n, l.side.src.offset, fmt.Errorf("%d labels for the %d records of %s", l.side.n, l.n, l.path))
		} else if err := l.side.src.end(l.n); err != nil {
			l.err = err
		}
	}
	if l.err != nil {
		return l.err
	}
	var label int64
	if label, l.err = l.side.next(); l.err != nil {
		if l.err == io.EOF {
			l.err = l.side.src.bad(l.n, l.side.src.offset, fmt.Errorf("%d labels for more records in %s", l.n, l.path))
		}
		return l.err
	}
	rec.Labels = append(rec.Labels, strconv.FormatInt(label, 10))
	l.n++
	return nil
}

func (l *labelled) Close() error {
	return errors.Join(l.Reader.Close(), l.side.src.Close())
}
