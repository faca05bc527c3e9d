package table

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// spoolMemory is how many bytes of cells a spool keeps in memory before it takes a
// file. It is a variable so that tests need few rows.
var spoolMemory = 4 << 20

// spool keeps lines of cells until they are read once. The zero value is empty.
type spool struct {
	mem  bytes.Buffer  // nothing once there is a file
	file *os.File      // nil while all fits into mem
	out  *bufio.Writer // to file
}

// add keeps the cells of a line: of each its length and its bytes.
func (s *spool) add(line []string) error {
	var b []byte
	for _, cell := range line {
		b = append(binary.AppendUvarint(b, uint64(len(cell))), cell...)
	}
	if s.file == nil && s.mem.Len()+len(b) > spoolMemory {
		f, err := os.CreateTemp("", "anndb-table-*")
		if err != nil {
			return err
		}
		s.file, s.out = f, bufio.NewWriter(f)
		if _, err := s.mem.WriteTo(s.out); err != nil {
			return err
		}
		s.mem = bytes.Buffer{}
	}
	if s.file == nil {
		s.mem.Write(b)
		return nil
	}
	_, err := s.out.Write(b)
	return err
}

// each calls f with every line of n cells, in order. It can be called once.
func (s *spool) each(n int, f func(line []string) error) error {
	in := bufio.NewReader(&s.mem)
	if s.file != nil {
		if err := s.out.Flush(); err != nil {
			return err
		}
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		in = bufio.NewReader(s.file)
	}
	if n == 0 {
		return nil
	}
	line := make([]string, n)
	for {
		for i := range line {
			length, err := binary.ReadUvarint(in)
			if err == io.EOF && i == 0 {
				return nil
			}
			cell := make([]byte, length)
			if _, more := io.ReadFull(in, cell); err == nil {
				err = more
			}
			if err != nil {
				return err
			}
			line[i] = string(cell)
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// close removes the file; what it held has been read or is not wanted.
func (s *spool) close() {
	if s.file != nil {
		_ = errors.Join(s.file.Close(), os.Remove(s.file.Name()))
	}
}
