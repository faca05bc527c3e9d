package store

import (
	"errors"
	"os"
)

// Another process can rename a file over the path of an open one, or remove it. Commits would then go
// to a file that no path leads to, and a compaction would replace a file of which this process does
// not know what others have written to it.

// Reasons of a *page.Error.
var (
	// ErrReplaced: the path of an open file leads to no file, or to another one.
	ErrReplaced = errors.New("path does not lead to the open file")
	// ErrLinked: the file has other names, under which it would stay when it is replaced.
	ErrLinked = errors.New("file has other names")
)

// Named returns an error unless the path that the file was opened with leads to it. It costs about a
// microsecond.
//
// Errors: *page.Error with reason ErrReplaced.
func (f *File) Named() error {
	_, err := f.named(f.path)
	return err
}

// Replaceable returns an error unless target, the path without symbolic links, is the file's only name.
//
// Errors: *page.Error with reason ErrReplaced or ErrLinked.
func (f *File) Replaceable(target string) error {
	if err := f.Named(); err != nil {
		return err
	}
	info, err := f.named(target)
	if err != nil {
		return err
	}
	if n := links(info); n > 1 {
		return refuse(ErrLinked,
			"%s has %d names (hard links), a new file would replace only one: remove the others",
			target, n)
	}
	return nil
}

// named returns what is at path if it is the open file.
func (f *File) named(path string) (os.FileInfo, error) {
	const remedy = "nothing more is written, open it again"
	info, err := os.Stat(path)
	if err != nil {
		return nil, refuse(ErrReplaced, "%w: %s", err, remedy)
	}
	if !os.SameFile(info, f.info) {
		return nil, refuse(ErrReplaced, "%s is another file now: %s", path, remedy)
	}
	// A bind mount still leads to a file that has been replaced elsewhere.
	if links(info) == 0 {
		return nil, refuse(ErrReplaced, "%s has been removed or replaced where it is mounted from: %s",
			path, remedy)
	}
	return info, nil
}
