// Package checkpoint keeps intermediate results of a long computation in a folder, so that the
// computation, when it is repeated after an interruption, continues from them.
package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Folder keeps results by name, each in a file of its own. A result is found again only with the key that
// it was saved with, which stands for the input of the computation. A nil Folder keeps nothing. A Folder
// is not safe for concurrent use, and one computation at a time uses the folder of a path.
type Folder struct {
	dir string
	key [sha256.Size]byte
	// names are those of all results that were saved or found, shared by the folders that For returns.
	names map[string]bool
}

// New returns the folder at a path, nil if the path is empty. The first Save makes it.
func New(dir string) *Folder {
	if dir == "" {
		return nil
	}
	return &Folder{dir: dir, names: map[string]bool{}}
}

// For returns the folder with a key for its present input and another part of it.
func (f *Folder) For(input []byte) *Folder {
	if f == nil {
		return nil
	}
	return &Folder{f.dir, sha256.Sum256(append(f.key[:], input...)), f.names}
}

// The file of a result ends in suffix, while it is written in partial.
const (
	suffix  = ".checkpoint"
	partial = ".partial"
)

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name+suffix) }

// A file is the magic, the key, the number of slices, the length of each slice, the slices, and the CRC-32C
// of all of it. Numbers are little-endian.
const magic = "anndbck1"

// pieceNumbers is how many numbers are read or written at a time.
const pieceNumbers = 1 << 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header returns what precedes slices of these lengths.
func (f *Folder) header(lengths []uint64) []byte {
	h := append([]byte(magic), f.key[:]...)
	h = binary.LittleEndian.AppendUint64(h, uint64(len(lengths)))
	for _, n := range lengths {
		h = binary.LittleEndian.AppendUint64(h, n)
	}
	return h
}

// Save keeps slices under a name, in place of what is kept under it, and syncs the file.
func (f *Folder) Save(name string, from ...Array) error {
	if f == nil {
		return nil
	}
	f.names[name] = true
	if err := f.save(name, from); err != nil {
		_ = os.Remove(f.path(name) + partial)
		return fmt.Errorf("save checkpoint %q: %w", name, err)
	}
	return nil
}

func (f *Folder) save(name string, from []Array) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	lengths := make([]uint64, len(from))
	for i, x := range from {
		lengths[i] = uint64(x.length())
	}
	path := f.path(name) + partial
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // follows no link
	if err != nil {
		return err
	}
	if err := errors.Join(write(out, f.header(lengths), from), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(path, f.path(name))
}

func write(out io.Writer, header []byte, from []Array) error {
	sum := crc32.New(castagnoli)
	to := io.MultiWriter(sum, out)
	if _, err := to.Write(header); err != nil {
		return err
	}
	var buf []byte
	for _, x := range from {
		for at, n := 0, x.length(); at < n; at += pieceNumbers {
			var err error
			if buf, err = binary.Append(buf[:0], binary.LittleEndian, x.piece(at)); err != nil {
				return err
			}
			if _, err := to.Write(buf); err != nil {
				return err
			}
		}
	}
	_, err := out.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// Load fills slices, in the order of Save, with what is kept under a name, and reports whether there is such
// a result for this key. A result that is damaged, or that exceeds the capacity of a slice, is not found.
// Otherwise the slices have the lengths that were saved, and any values. If no result is found, their
// contents are not defined.
func (f *Folder) Load(name string, into ...Array) (found bool, err error) {
	if f == nil {
		return false, nil
	}
	// A pipe would wait for a writer.
	info, err := os.Lstat(f.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err == nil && !info.Mode().IsRegular():
		return false, nil
	case err == nil:
		found, err = f.load(name, into)
	}
	if err != nil {
		return false, fmt.Errorf("load checkpoint %q: %w", name, err)
	}
	if found {
		f.names[name] = true
	}
	return found, nil
}

func (f *Folder) load(name string, into []Array) (bool, error) {
	in, err := os.Open(f.path(name))
	if err != nil {
		return false, err
	}
	defer in.Close() // nothing was written
	found, err := f.read(in, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return found, err
}

// read reads a file. Beyond the slices it allocates a few hundred kilobytes at most.
func (f *Folder) read(file io.Reader, into []Array) (bool, error) {
	sum := crc32.New(castagnoli)
	in := io.TeeReader(file, sum)
	header := make([]byte, len(f.header(make([]uint64, len(into)))))
	if _, err := io.ReadFull(in, header); err != nil {
		return false, err
	}
	lengths := make([]uint64, len(into))
	for i := range lengths {
		lengths[i] = binary.LittleEndian.Uint64(header[len(header)-8*(len(into)-i):])
	}
	if !bytes.Equal(header, f.header(lengths)) {
		return false, nil
	}
	for i, x := range into {
		if !x.resize(lengths[i]) {
			return false, nil
		}
	}
	var buf []byte
	for _, x := range into {
		for at, n := 0, x.length(); at < n; at += pieceNumbers {
			p := x.piece(at)
			size := binary.Size(p)
			if cap(buf) < size {
				buf = make([]byte, size)
			}
			if _, err := io.ReadFull(in, buf[:size]); err != nil {
				return false, err
			}
			if _, err := binary.Decode(buf[:size], binary.LittleEndian, p); err != nil {
				return false, err
			}
		}
	}
	return endsWith(file, sum)
}

// endsWith reports whether a file ends with a checksum.
func endsWith(file io.Reader, sum hash.Hash32) (bool, error) {
	var last [5]byte
	n, err := io.ReadFull(file, last[:])
	if n != 4 || !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return binary.LittleEndian.Uint32(last[:]) == sum.Sum32(), nil
}

// Remove removes the results that were saved or found, and the folder if nothing else is in it. Failures are
// ignored: the results are not needed any more.
func (f *Folder) Remove() {
	if f == nil || len(f.names) == 0 {
		return
	}
	for name := range f.names {
		_ = os.Remove(f.path(name))
	}
	_ = os.Remove(f.dir)
}

// Array is a slice that is saved or filled.
type Array interface {
	length() int
	// resize sets the length. It reports whether the capacity suffices.
	resize(n uint64) bool
	// piece returns the part of at most pieceNumbers numbers that begins at a place.
	piece(at int) any
}

// Of returns the slice that x points to as an Array.
func Of[T uint32 | uint64 | float32](x *[]T) Array { return &array[T]{x} }

type array[T any] struct{ x *[]T }

func (a *array[T]) length() int { return len(*a.x) }

func (a *array[T]) resize(n uint64) bool {
	if n > uint64(cap(*a.x)) {
		return false
	}
	*a.x = (*a.x)[:n]
	return true
}

func (a *array[T]) piece(at int) any { return (*a.x)[at:min(at+pieceNumbers, len(*a.x))] }
