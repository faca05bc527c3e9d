package dataset

import (
	"bufio"
	"io"
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
		s.skip(3)
	}
	return &lines{src: s}
}

// next returns a line with its line feed, without copying it if it fits the
// source's buffer; it holds until the next call. The end of the file is io.EOF
// alone: a last line without a line feed comes with no error. Every other
// error is final and names the line; record is the one it would have begun.
func (l *lines) next(record int64) ([]byte, error) {
	l.n++
	line, err := l.src.br.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		l.long = append(l.long[:0], line...)
		for err == bufio.ErrBufferFull {
			if len(l.long) > maxTextRecord {
				return nil, l.src.badLine(record, l.n, errTooLong)
			}
			line, err = l.src.br.ReadSlice('\n')
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
