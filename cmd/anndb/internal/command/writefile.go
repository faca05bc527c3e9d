package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anndb/anndb/db"
)

// Cause is the error of a system call without the call and its path.
func Cause(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// ForceFlag is the flag of the commands that write files.
type ForceFlag struct {
	Force bool
}

// Refuse returns an error if something is at one of the paths to write that must not be replaced: a file
// without --force, one of the files that the command reads, no regular file, or a database that another
// process writes. Commands ask before they work.
func (f ForceFlag) Refuse(write []string, read ...string) error {
	for _, path := range write {
		switch there, err := os.Lstat(path); {
		case path == Standard || errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case IsFolder(path):
			return Usagef("%s is a folder: name the file to write", path)
		case slices.ContainsFunc(read, func(r string) bool { return sameFile(r, path) }):
			return Usagef("%s is the file that is read: name another one", path)
		case !f.Force:
			return Usagef("%s exists: add --force to replace it", path)
		case !there.Mode().IsRegular():
			return Usagef("%s is not a regular file: name another one", path)
		case written(path):
			return Explain(path, fmt.Errorf("%w: %s", db.ErrLocked, path))
		}
	}
	return nil
}

// Allow is Refuse for files that are made from the rows of a database. It returns the mode that they get,
// which is that of the database: they are as private.
func (f ForceFlag) Allow(database string, write ...string) (fs.FileMode, error) {
	if err := f.Refuse(write, database); err != nil {
		return 0, err
	}
	info, err := os.Stat(database)
	if err != nil {
		return 0, Explain(database, err)
	}
	return info.Mode().Perm(), nil
}

// written reports whether a file is a database that a process has open for writing.
func written(path string) bool {
	o := db.Options{ReadOnly: true, MustExist: true, Timeout: 100 * time.Millisecond}
	d, err := db.Open(context.Background(), path, &o)
	if err == nil {
		_ = d.Close()
	}
	return errors.Is(err, db.ErrLocked)
}

// WriteFile fills a file beside path and puts it there once it is whole and
// on disk, so that a failure leaves what was there.
func WriteFile(path string, perm fs.FileMode, fill func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".partial-*")
	if err != nil { // it names the temporary file
		return &fs.PathError{Op: "create", Path: path, Err: Cause(err)}
	}
	defer func() {
		if err != nil { // which is worth more than what follows from it
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func IsFolder(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
