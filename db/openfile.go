package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/verified"
)

// verifyMode selects when reads verify the checksums of blocks: the values of db.VerifyMode.
type verifyMode uint8

const (
	verifyFirst verifyMode = iota
	verifyAlways
	verifyNever
)

// openFile is one open file and what has been decoded of it and verified. Compact replaces a
// DB's file; the old one is closed with its last generation.
type openFile struct {
	*store.File
	mode     verifyMode
	kinds    func(name string) kind.Kind // nil for an unknown name
	before   uint64                      // generations before the file's first, if it was compacted
	verified verified.Blocks
	// validated records which arrays of an index have been checked.
	validated verified.Checks
	// fresh holds *freshRows by the object of a label model and *freshSketches by the object of
	// an index with sketches; features holds *featureNumbers by the number of a collection.
	fresh, features sync.Map
	// checked records the chunks of sparse rows whose structure has been checked.
	checked verified.Blocks
	// searchers are idle scratches for dense searches.
	searchers idleSearchers

	numberingMu sync.Mutex
	// numberings has the numberings of collections by collection number.
	numberings map[uint64]*numbering
}

// newOpenFile returns an open file with what is known of a file that nobody has read yet. kinds
// returns the kind of index with a name, nil if there is none.
func newOpenFile(f *store.File, mode verifyMode, kinds func(name string) kind.Kind) *openFile {
	return &openFile{File: f, mode: mode, kinds: kinds, numberings: map[uint64]*numbering{}}
}

// begin begins a transaction.
func (f *openFile) begin(write bool) (*bbolt.Tx, error) {
	tx, err := f.File.Begin(write)
	return tx, fileError(err)
}

// commit commits a transaction.
func (f *openFile) commit(tx *bbolt.Tx) error { return translate(f.File.Commit(tx)) }

// verifyPages verifies the pages of parts of the file unless they have been verified already.
func (f *openFile) verifyPages(parts store.Parts) error {
	return f.verifyPagesOf(context.Background(), parts)
}

// verifyPagesOf is verifyPages with a context.
func (f *openFile) verifyPagesOf(ctx context.Context, parts store.Parts) error {
	return fileError(f.File.Verify(ctx, parts))
}

// translate returns an error of packages store and page as one of this package.
func translate(err error) error {
	if err == nil {
		return nil // before e, which is allocated
	}
	var e *page.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Reason {
	case store.ErrLocked:
		return fmt.Errorf("%w: %w", fail.ErrLocked, e.Err)
	case page.ErrForeign:
		return fmt.Errorf("%w: %w", fail.ErrNotDatabase, e.Err)
	case page.ErrVersion:
		return fmt.Errorf("%w: %w", fail.NewerFormat, e.Err)
	case page.ErrShort:
		return fmt.Errorf("%w: %w", fail.Truncated, e.Err)
	}
	return fail.Corrupt(fail.Damage{Offset: e.Offset, Err: e.Err})
}

// fileError is translate, and begins the messages of all errors with this package's prefix.
func fileError(err error) error {
	if err = translate(err); err == nil || strings.HasPrefix(err.Error(), fail.Prefix) {
		return err
	}
	return fmt.Errorf("%s%w", fail.Prefix, err)
}

// numbering identifies one assignment of row numbers in a collection. The collections of a
// file, and of the files that replace it after Compact, share one while their rows keep their
// numbers. Only its address matters.
type numbering struct{ _ byte }

// numberingOf returns the numbering of a collection in this file.
func (s *openFile) numberingOf(id uint64) *numbering {
	s.numberingMu.Lock()
	defer s.numberingMu.Unlock()
	n := s.numberings[id]
	if n == nil {
		n = new(numbering)
		s.numberings[id] = n
	}
	return n
}

// keepNumberings takes over the numberings of the collections whose rows have the same numbers
// as in the file that this one was copied from.
func (s *openFile) keepNumberings(from *openFile, kept []uint64) {
	for _, id := range kept {
		n := from.numberingOf(id)
		s.numberingMu.Lock()
		s.numberings[id] = n
		s.numberingMu.Unlock()
	}
}

// forget removes the cached state of a removed object.
func (s *openFile) forget(id uint64) {
	s.verified.Forget(id)
	s.checked.Forget(id)
	s.validated.Forget(id)
	s.fresh.Delete(id)
	s.features.Delete(id)
}
