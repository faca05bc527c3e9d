package main

import (
	"errors"
	"os"

	"github.com/anndb/anndb/dataset"
)

// shownRejects is how many rejected records are reported one by one.
const shownRejects = 5

// rejects writes the lines of records that cannot be decoded to a file, which is made for the first.
type rejects struct {
	path   string
	note   func(format string, args ...any)
	names  []byte // a csv file's line of names
	file   *os.File
	n      int
	closed bool
}

// add writes the lines of a record; those with a nil error are a csv file's line of names.
func (r *rejects) add(lines []byte, fault *dataset.FormatError) error {
	if fault == nil {
		r.names = append(r.names[:0], lines...)
		return nil
	}
	if r.file == nil {
		var err error
		if r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return err
		}
		lines = append(r.names, lines...)
	}
	if r.n++; r.n <= shownRejects {
		r.note("rejected: %s", message(fault))
	}
	if n := len(lines); lines[n-1] != '\n' {
		lines = append(lines[:n:n], '\n')
	}
	_, err := r.file.Write(lines)
	return err
}

// Close reports how many records were rejected.
func (r *rejects) Close() error {
	if r == nil || r.file == nil || r.closed {
		return nil
	}
	r.closed = true
	r.note("%d records were rejected and written to %s", r.n, r.path)
	return errors.Join(r.file.Sync(), r.file.Close())
}
