// Package checkpoint keeps intermediate results of a long computation in a folder, so that the
// computation, when it is repeated after an interruption, continues from them.
package checkpoint

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/anndb/anndb/codec"
)

// Folder keeps results by name, each in a file of its own. A result is found again only with the key that
// it was saved with, which stands for the input of the computation. A nil Folder keeps nothing. A Folder
// is not safe for concurrent use.
type Folder struct {
	dir string
	key [sha256.Size]byte
}

// Open returns the folder at a path, and makes it if it does not exist. The key is that of an empty
// input. With an empty path it returns nil.
func Open(dir string) (*Folder, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder for checkpoints: %w", err)
	}
	return &Folder{dir: dir}, nil
}

// For returns the folder with a key for its present input and another part of it.
func (f *Folder) For(input []byte) *Folder {
	if f == nil {
		return nil
	}
	return &Folder{f.dir, sha256.Sum256(append(f.key[:], input...))}
}

// ending is that of the files of a folder.
const ending = ".checkpoint"

func (f *Folder) path(name string) string { return filepath.Join(f.dir, name+ending) }

// A file is the magic, the key, the number of slices, the bytes of each slice as 64-bit numbers, the
// slices, and the CRC-32C of all of it. Numbers are little-endian.
const (
	magic      = "anndbck1"
	headBytes  = len(magic) + sha256.Size + 8
	sumBytes   = 4
	mostSlices = 16
	// pieceBytes is how much is read or written at a time.
	pieceBytes = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save keeps slices of uint32, uint64 or float32 under a name, in place of what is kept under it. They are
// on the disk when it returns.
func (f *Folder) Save(name string, from ...any) (err error) {
	if f == nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("save checkpoint %q: %w", name, err)
		}
	}()
	head := append([]byte(magic), f.key[:]...)
	parts := make([][]byte, 1, 2+len(from))
	sizes := []uint64{uint64(len(from))}
	for _, x := range from {
		data := bytesOf(x)
		parts, sizes = append(parts, data), append(sizes, uint64(len(data)))
	}
	parts[0] = append(head, codec.Bytes(sizes)...)
	out, err := os.CreateTemp(f.dir, name+"-*"+ending) // private
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	sum := uint32(0)
	for _, data := range parts {
		for len(data) > 0 {
			piece := data[:min(pieceBytes, len(data))]
			sum = crc32.Update(sum, castagnoli, piece)
			if _, err := out.Write(piece); err != nil {
				return errors.Join(err, out.Close())
			}
			data = data[len(piece):]
		}
	}
	_, err = out.Write(codec.Bytes([]uint32{sum}))
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), f.path(name))
}

// Load sets slices, given by pointers in the order of Save, to what is kept under a name, and reports
// whether there is such a result for this key. What is damaged is not found. The slices have any length and
// any values.
func (f *Folder) Load(name string, into ...any) (found bool, err error) {
	if f == nil {
		return false, nil
	}
	in, err := os.Open(f.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("load checkpoint %q: %w", name, err)
	}
	defer in.Close() // nothing was written
	info, err := in.Stat()
	if err == nil {
		found, err = f.read(in, info.Size(), into)
	}
	if err != nil {
		return false, fmt.Errorf("load checkpoint %q: %w", name, err)
	}
	return found, nil
}

// read reads a file of a size. It allocates no more than that.
func (f *Folder) read(in io.Reader, size int64, into []any) (bool, error) {
	head := make([]byte, headBytes+8*len(into))
	if size < int64(len(head)+sumBytes) {
		return false, nil
	}
	if _, err := io.ReadFull(in, head); err != nil {
		return false, err
	}
	sizes, err := codec.View[uint64](head[len(magic)+sha256.Size:], 1+len(into))
	if err != nil || string(head[:len(magic)]) != magic || string(head[len(magic):][:sha256.Size]) != string(f.key[:]) ||
		sizes[0] != uint64(len(into)) {
		return false, nil
	}
	left := uint64(size) - uint64(len(head)+sumBytes)
	for _, n := range sizes[1:] {
		if n > left {
			return false, nil
		}
		left -= n
	}
	if left != 0 {
		return false, nil
	}
	sum := crc32.Checksum(head, castagnoli)
	slices := make([][]byte, len(into))
	for i, n := range sizes[1:] {
		data := make([]byte, n)
		for at := 0; at < len(data); at += pieceBytes {
			piece := data[at:min(at+pieceBytes, len(data))]
			if _, err := io.ReadFull(in, piece); err != nil {
				return false, err
			}
			sum = crc32.Update(sum, castagnoli, piece)
		}
		slices[i] = data
	}
	stored := make([]byte, sumBytes)
	if _, err := io.ReadFull(in, stored); err != nil {
		return false, err
	}
	if string(codec.Bytes([]uint32{sum})) != string(stored) {
		return false, nil
	}
	for i, data := range slices {
		if !set(into[i], data) {
			return false, nil
		}
	}
	return true, nil
}

// Remove removes all results, with any key, and the folder if nothing else is in it.
func (f *Folder) Remove() error {
	if f == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(f.dir, "*"+ending))
	for _, file := range files {
		err = errors.Join(err, os.Remove(file))
	}
	if err != nil {
		return fmt.Errorf("remove checkpoints: %w", err)
	}
	_ = os.Remove(f.dir) // fails if something else is in it
	return nil
}

// bytesOf returns the stored form of a slice.
func bytesOf(x any) []byte {
	switch x := x.(type) {
	case []uint32:
		return codec.Bytes(x)
	case []uint64:
		return codec.Bytes(x)
	case []float32:
		return codec.Bytes(x)
	}
	panic(fmt.Sprintf("checkpoint: no stored form of %T", x))
}

// set sets the slice that into points to. It reports whether data can be such a slice.
func set(into any, data []byte) bool {
	switch x := into.(type) {
	case *[]uint32:
		return view(x, data)
	case *[]uint64:
		return view(x, data)
	case *[]float32:
		return view(x, data)
	}
	panic(fmt.Sprintf("checkpoint: no stored form of %T", into))
}

func view[T uint32 | uint64 | float32](into *[]T, data []byte) bool {
	size := len(codec.Bytes(make([]T, 1)))
	if len(data)%size != 0 {
		return false
	}
	x, err := codec.View[T](data, len(data)/size)
	*into = x
	return err == nil
}
