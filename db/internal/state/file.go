package state

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/sample"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/verified"
)

// File is one open file and what has been decoded of it and verified. Compact replaces a
// DB's file; the old one is closed with its last generation.
type File struct {
	*store.File
	// Kinds returns the kind of index with a name, nil for an unknown one.
	Kinds    func(name string) kind.Kind
	Before   uint64 // generations before the file's first, if it was compacted
	verified verified.Blocks
	// validated records which arrays of an index have been checked.
	validated verified.Checks
	// fresh holds *freshRows by the object of a label model and *freshSketches by the object of
	// an index with sketches; features holds *featureNumbers by the number of a collection.
	fresh, features sync.Map
	// checked records the chunks of sparse rows whose structure has been checked.
	checked verified.Blocks
	// Searches are idle searches.
	Searches Searches
	// Samples are queries of users, nil if none are kept. A file that replaces this one
	// has the same, by its own numbers of collections.
	Samples *sample.Queries

	numberingMu sync.Mutex
	// numberings has the numberings of collections by collection number.
	numberings map[uint64]*Numbering
}

// NewFile returns an open file with what is known of a file that nobody has read yet. kinds
// returns the kind of index with a name, nil if there is none.
func NewFile(f *store.File, kinds func(name string) kind.Kind) *File {
	return &File{File: f, Kinds: kinds, numberings: map[uint64]*Numbering{}}
}

// OpenCopy opens a file that is known to be complete, with the same kinds of indexes. It has no samples:
// collections may have other numbers there.
func (f *File) OpenCopy(name string, o store.Options) (*File, error) {
	copied, err := store.OpenValid(name, o)
	if err != nil {
		return nil, FileError(err)
	}
	return NewFile(copied, f.Kinds), nil
}

// Begin begins a transaction.
func (f *File) Begin(write bool) (*bbolt.Tx, error) {
	tx, err := f.File.Begin(write)
	return tx, FileError(err)
}

// Commit commits a transaction.
func (f *File) Commit(tx *bbolt.Tx) error { return Translate(f.File.Commit(tx)) }

// Named returns an error unless the path that the file was opened with leads to it.
func (f *File) Named() error { return Translate(f.File.Named()) }

// Replaceable returns an error unless target is the only name of the file.
func (f *File) Replaceable(target string) error { return Translate(f.File.Replaceable(target)) }

// ReplaceBy renames a copy of the file to target, see store.File.ReplaceBy.
func (f *File) ReplaceBy(c *File, name, target string, noSync bool) error {
	return Translate(f.File.ReplaceBy(c.File, name, target, noSync))
}

// VerifyPages verifies the pages of parts of the file unless they have been verified already.
func (f *File) VerifyPages(parts store.Parts) error {
	return f.VerifyPagesOf(context.Background(), parts)
}

// VerifyPagesOf is VerifyPages with a context.
func (f *File) VerifyPagesOf(ctx context.Context, parts store.Parts) error {
	return FileError(f.File.Verify(ctx, parts))
}

// CatchFaults turns memory faults of this goroutine into panics that Guard can convert to errors,
// instead of ending the process. It returns the previous setting.
func CatchFaults() bool { return store.CatchFaults() }

// Guard, deferred as `defer Guard(file, CatchFaults(), &err)` where mapped memory is read,
// converts the effects of a damaged or truncated file to ErrCorrupt, see store.File.Damage. It
// re-raises other panics.
func Guard(f *File, old bool, err *error) {
	caught(f, recover(), old, err)
}

// caught handles what a deferred call recovered.
func caught(f *File, recovered any, old bool, err *error) {
	debug.SetPanicOnFault(old)
	switch r := recovered.(type) {
	case nil:
	case KeyFailure:
		*err = r.Err
	default:
		*err = Translate(f.Damage(r))
	}
}

// KeyFailure carries an error out of a filter; Guard recovers and returns it.
type KeyFailure struct{ Err error }

// reasons has the errors of package fail for those of packages store and page; others are damage.
var reasons = map[error]error{
	store.ErrLocked: fail.ErrLocked, store.ErrReplaced: fail.ErrReplaced, store.ErrLinked: fail.ErrLinked,
	page.ErrForeign: fail.ErrNotDatabase, page.ErrVersion: fail.NewerFormat, page.ErrShort: fail.Truncated,
}

// Translate returns an error of packages store and page as one of package fail.
func Translate(err error) error {
	if err == nil {
		return nil // before e, which is allocated
	}
	var e *page.Error
	if !errors.As(err, &e) {
		return err
	}
	if public, ok := reasons[e.Reason]; ok {
		return fmt.Errorf("%w: %w", public, e.Err)
	}
	return fail.Corrupt(fail.Damage{Offset: e.Offset, Err: e.Err})
}

// FileError is Translate, and begins the messages of all errors with fail.Prefix.
func FileError(err error) error {
	if err = Translate(err); err == nil || strings.HasPrefix(err.Error(), fail.Prefix) {
		return err
	}
	return fmt.Errorf("%s%w", fail.Prefix, err)
}

// Numbering identifies one assignment of row numbers in a collection. The collections of a
// file, and of the files that replace it after Compact, share one while their rows keep their
// numbers. Only its address matters.
type Numbering struct{ _ byte }

// numberingOf returns the numbering of a collection in this file.
func (f *File) numberingOf(id uint64) *Numbering {
	f.numberingMu.Lock()
	defer f.numberingMu.Unlock()
	n := f.numberings[id]
	if n == nil {
		n = new(Numbering)
		f.numberings[id] = n
	}
	return n
}

// KeepNumberings takes over the numberings of the collections whose rows have the same numbers
// as in the file that this one was copied from.
func (f *File) KeepNumberings(from *File, kept []uint64) {
	for _, id := range kept {
		n := from.numberingOf(id)
		f.numberingMu.Lock()
		f.numberings[id] = n
		f.numberingMu.Unlock()
	}
}

// Forget removes the cached state of a removed object.
func (f *File) Forget(id uint64) {
	f.verified.Forget(id)
	f.checked.Forget(id)
	f.validated.Forget(id)
	f.fresh.Delete(id)
	f.features.Delete(id)
}

// ReadMetas reads both meta pages. Their errors are errors of package fail.
func ReadMetas(r io.ReaderAt) page.Metas {
	m := page.ReadMetas(r)
	for i, err := range m.Err {
		m.Err[i] = Translate(err)
	}
	return m
}
