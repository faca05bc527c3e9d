package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
)

// shownRejects is how many rejected records are reported one by one.
const shownRejects = 5

// rejects counts the records that are left out, and writes them to a file, which is made for the first.
type rejects struct {
	path    string // of the file; empty for none
	replace bool   // what the file has; otherwise records are added to it
	note    func(format string, args ...any)
	names   []byte // a csv file's line of names
	file    *os.File
	n       int
	closed  bool
}

// add leaves a record out. Lines with a nil fault are a csv file's line of names.
func (r *rejects) add(lines []byte, fault *dataset.FormatError) error {
	if fault == nil {
		r.names = append(r.names[:0], lines...)
		return nil
	}
	if r.n++; r.n <= shownRejects {
		r.note("rejected: %s", command.Message(fault))
	}
	if r.path == "" {
		return nil
	}
	if r.file == nil {
		if err := r.open(); err != nil {
			return err
		}
	}
	_, err := r.file.Write(rejected(lines, fault))
	return err
}

// open opens the file, and writes the line of names to an empty one.
func (r *rejects) open() (err error) {
	mode := os.O_APPEND
	if r.replace {
		mode = os.O_TRUNC
	}
	if r.file, err = os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|mode, 0o600); err != nil {
		return err
	}
	info, err := r.file.Stat()
	if err == nil && info.Size() == 0 {
		_, err = r.file.Write(r.names)
	}
	return err
}

// rejected returns what the file has of a record: its lines, so that they can be repaired and imported, in
// formats whose lines need no header; or else the record's number, the reason, and the line if there is one.
func rejected(lines []byte, fault *dataset.FormatError) []byte {
	lines = bytes.TrimSuffix(lines, []byte("\n"))
	switch fault.Format {
	case dataset.FormatCSV, dataset.FormatTSV, dataset.FormatJSONL, dataset.FormatLibsvm,
		dataset.FormatLines:
		return append(slices.Clip(lines), '\n')
	}
	text := fmt.Sprintf("record %d\t%s", fault.Record, command.Message(fault.Err))
	if len(lines) > 0 {
		text += "\t" + string(lines)
	}
	return append([]byte(text), '\n')
}

// Close reports how many records were rejected.
func (r *rejects) Close() error {
	if r == nil || r.n == 0 || r.closed {
		return nil
	}
	r.closed = true
	if r.file == nil {
		r.note("records left out: %d", r.n)
		return nil
	}
	r.note("records rejected, and written to %s: %d", r.path, r.n)
	return errors.Join(r.file.Sync(), r.file.Close())
}
