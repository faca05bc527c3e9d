package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// tempPrefix is the prefix of the names of temporary files for the file at path; digits follow.
func tempPrefix(path string) string { return "." + filepath.Base(path) + ".compact-" }

// UnknownRoom is more room than any file needs.
const UnknownRoom = 1 << 62

// Temp creates an empty file next to the file at path. It is meant to replace that file, or to
// be removed; RemoveLeftovers removes it after a crash.
func Temp(path string) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), tempPrefix(path)+"*")
	if err != nil {
		return "", err
	}
	return tmp.Name(), tmp.Close()
}

// RemoveLeftovers removes files of Temp that a crash left. Only the process that holds the
// file's lock makes such files, so none of them is in use.
func RemoveLeftovers(path string, log *slog.Logger) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Warn("db: look for interrupted compactions", "path", path, "err", err)
		return
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), tempPrefix(path))
		if !ok || strings.Trim(digits, "0123456789") != "" {
			continue
		}
		log.Info("db: removing what an interrupted compaction left", "path", path, "file", e.Name())
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			log.Warn("db: remove an interrupted compaction", "path", path, "err", err)
		}
	}
}

// Replace renames the file, whose name is given, to path, and sets whether its commits are
// synced. The caller makes the new name durable by SyncDir.
func (f *File) Replace(name, path string, noSync bool) error {
	if err := os.Rename(name, path); err != nil {
		return err
	}
	f.bolt.NoSync, f.bolt.NoGrowSync = noSync, noSync
	return nil
}

// SyncDir makes a directory's entries durable. Windows has no such call, and needs none. It is
// a variable so that tests can make it fail.
var SyncDir = func(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
