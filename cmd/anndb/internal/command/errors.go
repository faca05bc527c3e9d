package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/filter"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/internal/wire"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/vector"
)

// errUsage marks errors of the arguments, as opposed to errors of the work.
var errUsage = errors.New("wrong arguments")

func Usagef(format string, a ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, a...))
}

// inputError is an error of the content of a file, as opposed to errors of the arguments.
type inputError struct{ error }

func (e inputError) Unwrap() error { return e.error }

func BadInput(format string, a ...any) error { return inputError{fmt.Errorf(format, a...)} }

// OfFile marks an error as one of the rows of a file.
func OfFile(err error) error {
	if err == nil {
		return nil
	}
	return inputError{err}
}

// isUsage reports whether the caller's arguments are to blame.
func isUsage(err error) bool {
	if _, ok := errors.AsType[inputError](err); ok {
		return false
	}
	for _, target := range []error{
		errUsage, db.ErrInvalid, dataset.ErrOption, query.ErrParams, vector.ErrMetric,
		table.ErrFormat,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// goOnly matches what the library says to Go programs only: the package that an
// error comes from, and its class where the text behind it says more.
var goOnly = regexp.MustCompile(`(^|: |; |\n|\()(` +
	`(?:budget|codec|dataset|db|forest|goroot|labels|plot|postings|query|table|vector): ` +
	`|(?:bad|invalid) (?:option|parameters): )`)

// goTexts replaces what the library says to Go programs by what users of the command do.
var goTexts = strings.NewReplacer(
	"the view does not support the method: ", "",
	"was built without the tuner: a search by it needs its parameters",
	"was built with --no-tune: say --method, or --index flat for an exact scan",
	"which the build leaves out unless told to keep members", "build the index with --members",
	"; the other may be one transaction older, AcceptOlder opens it", "",
	"(leave it out to read the others)", "(--ignore-column leaves it out)",
)

// Message is the text of an error as users of the command read it. Below that of a filter it shows
// the place.
func Message(err error) string {
	text := strings.TrimPrefix(err.Error(), errUsage.Error()+": ")
	for {
		next := goOnly.ReplaceAllString(text, "$1")
		if next == text {
			break
		}
		text = next
	}
	text = goTexts.Replace(text)
	if at, ok := errors.AsType[*filter.Error](err); ok {
		text += "\n  " + strings.ReplaceAll(at.Caret(), "\n", "\n  ")
	}
	return table.PrintableText(text)
}

// Explain adds to the error of working with a database file what the user can do.
// It returns nil for nil.
func Explain(path string, err error) error {
	switch {
	case errors.Is(err, db.ErrReplaced):
		return fmt.Errorf("%s was moved, removed or replaced by another file while it was open: "+
			"nothing more is written to it, run the command again", path)
	case errors.Is(err, db.ErrLinked):
		return fmt.Errorf("%s has other names (hard links), under which the old file would stay: remove them first",
			path)
	case errors.Is(err, fs.ErrNotExist):
		if dir := filepath.Dir(path); !Exists(dir) {
			return fmt.Errorf("%s: there is no folder %s: %w", path, dir, fs.ErrNotExist)
		}
		return fmt.Errorf("%s: %w: create and import make a database", path, fs.ErrNotExist)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: %w", path, fs.ErrPermission)
	case errors.Is(err, db.ErrNotDatabase):
		looks := LooksLike(path)
		if looks == LikeBolt { // a later version wrote it, or another program
			return fmt.Errorf("%s: %w", path, err)
		}
		return fmt.Errorf("%s: %w: %s", path, db.ErrNotDatabase, looks)
	case errors.Is(err, db.ErrLocked):
		return fmt.Errorf("%w by another process, which %s", err, holder(path))
	case errors.Is(err, db.ErrCorrupt):
		return fmt.Errorf("%s is damaged: %w (save its rows: anndb repair %s --to NEW)", path, err, path)
	}
	return err
}

// holder describes the process that has locked a file, and what the user can do.
func holder(path string) string {
	const wait = ": wait until it ends, or add --wait 1m"
	if c, err := net.DialTimeout("unix", wire.Socket(path), time.Second); err == nil {
		_ = c.Close()
		return "serves it (anndb serve): stop that first"
	}
	d, err := db.Open(context.Background(), path, &db.Options{
		ReadOnly: true, MustExist: true, Timeout: time.Millisecond, Maintenance: &maintenance.Policy{Manual: true},
	})
	if err != nil {
		return "has it open for writing (import, build, compact, or a program)" + wait +
			"; to share the file, run anndb serve " + path
	}
	_ = d.Close()
	return "reads it (search, export, backup, or a program)" + wait
}

// sameFile reports whether two paths are those of one file.
func sameFile(path, other string) bool {
	x, err := os.Stat(path)
	y, otherErr := os.Stat(other)
	return err == nil && otherErr == nil && os.SameFile(x, y)
}

func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// LikeNothing describes a file that looks like nothing that is known, LikeBolt one that begins as databases
// do.
const (
	LikeNothing = "its first bytes are not those of a database"
	LikeBolt    = "it looks like a file of bbolt"
)

// LooksLike describes a file that is no database.
func LooksLike(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "it cannot be read"
	case info.IsDir():
		return "it is a folder"
	case !info.Mode().IsRegular():
		return "it is not a regular file"
	case info.Size() == 0:
		return "it is empty; create or import makes a database of it"
	}
	f, err := os.Open(path)
	if err != nil {
		return "it cannot be read"
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := f.Read(head)
	head = head[:n]
	for _, known := range []struct{ magic, name string }{
		{"SQLite format 3\x00", "an SQLite database"},
		{"\x1f\x8b", "a gzip file; decompress it if it is a backup, or import it into a database"},
		{"\x28\xb5\x2f\xfd", "a zstd file; decompress it first"},
		{"PK\x03\x04", "a zip archive"},
		{"\x89PNG", "a PNG picture"},
		{"\x93NUMPY", "a NumPy array; import it into a database"},
	} {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return "it looks like " + known.name
		}
	}
	if bytes.HasPrefix(head, []byte("\x00\x00\x00\x00\x00\x00\x00\x00"+
		"\x04\x00\x00\x00\x00\x00\x00\x00\xed\xda\x0c\xed")) {
		return LikeBolt
	}
	if dataset.IsText(head) {
		return "it looks like text; import it into a database"
	}
	return LikeNothing
}
