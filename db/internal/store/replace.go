package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// UnknownRoom is more room than any file needs.
const UnknownRoom = 1 << 62

// Temp creates an empty file next to the file at path. It is meant to replace that file, to get its
// name, or to be removed; RemoveLeftovers removes it after a crash, also if it is a second name then.
func Temp(path string) (name string, err error) {
	for range 100 {
		name = filepath.Join(filepath.Dir(path), tempName(path, rand.Uint32()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return name, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("create %s: %w", name, fs.ErrExist)
}

// tempName returns the name of a temporary file for the file at path. It ends in a checksum, so that no
// file that a user has named is taken for one.
func tempName(path string, id uint32) string {
	name := fmt.Sprintf(".%s.compact-%08x", filepath.Base(path), id)
	return fmt.Sprintf("%s%08x", name, crc32.ChecksumIEEE([]byte(name)))
}

// isTemp reports whether a name is one of tempName.
func isTemp(path, name string) bool {
	_, digits, _ := strings.Cut(name, "."+filepath.Base(path)+".compact-")
	var id uint32
	_, err := fmt.Sscanf(digits, "%08x", &id)
	return err == nil && name == tempName(path, id)
}

// RemoveLeftovers removes files of Temp that a crash left. Only the process that holds the file's lock
// makes such files, or one that would create the file, and finds now that it exists.
func RemoveLeftovers(path string, log *slog.Logger) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Warn("db: look for leftovers of a crash", "path", path, "err", err)
		return
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !isTemp(path, e.Name()) {
			continue
		}
		log.Info("db: removing what a crash left", "path", path, "file", e.Name())
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			log.Warn("db: remove what a crash left", "path", path, "err", err)
		}
	}
}

// ReplaceBy renames a copy of the file, which is open under the name that is given, to target, the path
// of the file without symbolic links, and sets whether the copy's commits are synced. The caller makes
// the new name durable by SyncDir.
//
// Errors: those of Replaceable and of the operating system.
func (f *File) ReplaceBy(c *File, name, target string, noSync bool) error {
	if err := f.Replaceable(target); err != nil {
		return err
	}
	if err := os.Rename(name, target); err != nil {
		return err
	}
	c.path = f.path
	c.bolt.NoSync, c.bolt.NoGrowSync = noSync, noSync
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
