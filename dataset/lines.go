package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
)

// lines gives the lines of a text file one by one.
type lines struct {
	src  *source
	long []byte // a line longer than the source's buffer
	n    int64  // lines asked for: the number, from 1, of the last one given
}

// newLines drops a byte order mark.
func newLines(s *source) *lines {
	if string(s.peek(3)) == byteOrderMark {
		s.discard(3)
	}
	return &lines{src: s}
}

// next returns a line with its line feed, without copying it if it fits the
// source's buffer; it holds until the next call. The end of the file is io.EOF
// alone: a last line without a line feed comes with no error. Every other
// error is final and names the line; record is the one it would have begun.
func (l *lines) next(record int64) ([]byte, error) {
	l.n++
	l.src.line = l.n
	line, err := l.src.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			if len(l.long) > maxTextRecord {
				return nil, l.src.badLine(record, l.n, errTooLong)
			}
			line, err = l.src.br.ReadSlice('\n')
			if len(l.long)+len(line) > cap(l.long) {
				// To double it: append adds a quarter and copies a long line many times.
				l.long = slices.Grow(l.long, len(l.long)+len(line))
			}
			l.long = append(l.long, line...)
		}
		line = l.long
	}
	switch {
	case err == io.EOF && len(line) == 0:
		return nil, io.EOF
	case err != nil && err != io.EOF:
		return nil, l.src.failLine(record, l.n, err)
	}
	return line, nil
}

// bad makes the error of a fault in the last line.
func (l *lines) bad(record int64, err error) error {
	return l.src.badLine(record, l.n, err)
}

// badRecord makes the error of a fault in the record of the last line.
func (l *lines) badRecord(record int64, err error) error {
	f := &FormatError{Path: l.src.path, Format: l.src.format, Record: record, Line: l.n, Offset: -1, Err: err}
	_, all := errors.AsType[allRecords](err)
	f.Skippable = !all && !errors.Is(err, ErrFeatureZero)
	return f
}

// allRecords is the error of a record that shows that no record of the file can be read.
type allRecords struct{ error }

// rowDecoder is what the formats of one record a line differ in.
type rowDecoder interface {
	// decode adds what is in a line, with its line feed, to rec, which comes
	// empty but for its number as the key; false when the line has no record.
	decode(rec *Record, line []byte) (bool, error)
	// end is called after the last line, which ended record n-1.
	end(n int64) error
	schema() Schema
}

// lineDecoder reads lines and leaves their meaning to the rowDecoder.
type lineDecoder struct {
	rowDecoder
	lines *lines
}

// awaits implements awaiter for the format of the rows.
func (d *lineDecoder) awaits() bool {
	a, ok := d.rowDecoder.(awaiter)
	return ok && a.awaits()
}

func (d *lineDecoder) next(rec *Record, n int64) error {
	for {
		line, err := d.lines.next(n)
		if err == io.EOF {
			if err := d.end(n); err != nil {
				return d.lines.bad(-1, err)
			}
			return io.EOF
		}
		if err != nil {
			return err
		}
		ok, err := d.decode(rec, line)
		if ok && err == nil {
			err = d.lines.src.encoded(line)
		}
		switch {
		case err != nil:
			return d.lines.badRecord(n, err)
		case ok:
			return nil
		}
	}
}

// addTo adds a record that was read ahead to rec, which is empty.
func (r *Record) addTo(rec *Record) {
	rec.Key = append(rec.Key, r.Key...)
	rec.Vector = append(rec.Vector, r.Vector...)
	rec.Features.Index = append(rec.Features.Index, r.Features.Index...)
	rec.Features.Value = append(rec.Features.Value, r.Features.Value...)
	rec.Labels = append(rec.Labels, r.Labels...)
	rec.Payload = append(rec.Payload, r.Payload...)
	rec.Text, rec.ExpiresAt = r.Text, r.ExpiresAt
	if len(r.Attributes) > 0 {
		rec.Attributes = r.Attributes
	}
}

var errNoRecords = errors.New("empty file: no records")

// someRecords is the end of formats that have no empty files.
func someRecords(n int64) error {
	if n == 0 {
		return errNoRecords
	}
	return nil
}

func trimLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
}
