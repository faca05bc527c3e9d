package db

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/verified"
)

// pageSize is the page size of new files.
const pageSize = page.Size

// openFile is one open file and what has been decoded of it and verified. Compact replaces a
// DB's file; the old one is closed with its last generation.
type openFile struct {
	*store.File
	verify   VerifyMode
	before   uint64 // generations before the file's first, if it was compacted
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

// storeOptions returns the options of a database for its file.
func (o *Options) storeOptions() store.Options {
	return store.Options{
		ReadOnly: o.ReadOnly, NoSync: o.Sync == Off, AcceptOlder: o.AcceptOlder, Trust: o.Verify == VerifyNever,
		Timeout: o.Timeout, Reserve: o.MapReserve, MaxSize: o.MaxSize, Logger: o.Logger, Layout: &layout,
	}
}

func newOpenFile(f *store.File, o Options) *openFile {
	return &openFile{File: f, verify: o.Verify, numberings: map[uint64]*numbering{}}
}

// openValid opens a file that is known to be complete.
func openValid(path string, o Options) (*openFile, error) {
	f, err := store.OpenValid(path, o.storeOptions())
	if err != nil {
		return nil, fileError(err)
	}
	return newOpenFile(f, o), nil
}

// begin begins a transaction.
func (f *openFile) begin(write bool) (*bbolt.Tx, error) {
	tx, err := f.Begin(write)
	return tx, fileError(err)
}

// commit commits a transaction.
func (f *openFile) commit(tx *bbolt.Tx) error { return translate(f.Commit(tx)) }

// verifyPages verifies the pages of parts of the file unless they have been verified already.
func (f *openFile) verifyPages(parts store.Parts) error {
	return f.verifyPagesOf(context.Background(), parts)
}

// verifyPagesOf is verifyPages with a context.
func (f *openFile) verifyPagesOf(ctx context.Context, parts store.Parts) error {
	return fileError(f.Verify(ctx, parts))
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
		return fmt.Errorf("%w: %w", ErrLocked, e.Err)
	case page.ErrForeign:
		return fmt.Errorf("%w: %w", ErrNotDatabase, e.Err)
	case page.ErrVersion:
		return fmt.Errorf("%w: %w", fail.NewerFormat, e.Err)
	case page.ErrShort:
		return fmt.Errorf("%w: %w", fail.Truncated, e.Err)
	}
	return &CorruptError{Offset: e.Offset, Err: e.Err}
}

// fileError is translate, and begins the messages of all errors with this package's prefix.
func fileError(err error) error {
	if err = translate(err); err == nil || strings.HasPrefix(err.Error(), fail.Prefix) {
		return err
	}
	return fmt.Errorf("%s%w", fail.Prefix, err)
}
