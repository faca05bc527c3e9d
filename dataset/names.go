package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

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
	s, err := openSource(context.Background(), path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var list nameList
	in := newLines(s)
	blank := int64(0)
	for {
		n := int64(len(list.names))
		line, err := in.next(n)
		if err == io.EOF {
			return list.names, nil
		}
		if err != nil {
			return nil, err
		}
		line = trimLineEnd(line)
		if len(bytes.TrimSpace(line)) == 0 {
			if blank = in.n; blank > maxNames {
				return nil, in.bad(n, errManyNames)
			}
			continue
		}
		if blank > 0 {
			return nil, s.badLine(n, blank, errors.New("empty name"))
		}
		if column > 0 {
			for range column - 1 {
				_, line, _ = bytes.Cut(line, []byte("\t"))
			}
			if line, _, _ = bytes.Cut(line, []byte("\t")); len(line) == 0 {
				return nil, in.bad(n, fmt.Errorf("no name in column %d", column))
			}
		}
		if bytes.IndexByte(line, '\r') >= 0 {
			return nil, in.bad(n, errReturn)
		}
		if err := list.add(string(line)); err != nil {
			return nil, in.bad(n, err)
		}
	}
}

// WriteNames writes a list of names, one a line, as [ReadNames] reads it; a
// path ending in .gz is compressed. The file has the given mode and takes its place
// when it is complete. Errors: fs errors, and [ErrOption] for names that are blank or
// hold a line's end.
func WriteNames(path string, names []string, mode fs.FileMode) error {
	var lines []byte
	for _, name := range names {
		if strings.TrimSpace(name) == "" || strings.ContainsAny(name, "\r\n") {
			return fmt.Errorf("dataset: %w: a line cannot hold the name %.40q", ErrOption, name)
		}
		lines = append(append(lines, name...), '\n')
	}
	w := &fileWriter{path: path, frame: noHeader{}}
	if err := w.open(); err != nil {
		return fmt.Errorf("dataset: %w", err)
	}
	defer w.Abort()
	if err := w.Chmod(mode); err != nil {
		return err
	}
	if err := w.write(func(dst []byte) ([]byte, error) { return append(dst, lines...), nil }); err != nil {
		return err
	}
	return w.Close()
}
