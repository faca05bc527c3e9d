package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/anndb/anndb/db/internal/page"
)

// pageSize is the page size of new files.
const pageSize = page.Size

// readMetas reads both meta pages. Their errors are errors of this package.
func readMetas(r io.ReaderAt) page.Metas {
	m := page.ReadMetas(r)
	for i, err := range m.Err {
		m.Err[i] = pageError(err)
	}
	return m
}

// latestMeta returns the meta page of the latest state. The other one may be half written.
func latestMeta(r io.ReaderAt) (page.Meta, error) {
	metas := readMetas(r)
	return metas.Latest()
}

// pageError returns an error of package page as one of this package.
func pageError(err error) error {
	var e *page.Error
	if !errors.As(err, &e) {
		return err
	}
	sentinel := ErrCorrupt
	switch e.Reason {
	case page.ErrForeign:
		sentinel = ErrNotDatabase
	case page.ErrVersion:
		sentinel = ErrNewerFormat
	case page.ErrShort:
		sentinel = ErrTruncated
	}
	return fmt.Errorf("%w: %s", sentinel, e.Detail)
}

// pageWalk is a walk of the pages of one state that keeps the first problem it finds.
type pageWalk struct {
	*page.Walker
	length int64 // bytes in the file
	first  error // *CorruptError
}

// walkPages returns a walk of the state that m describes. A file that is too short for the
// state is an error.
func walkPages(ctx context.Context, f *os.File, m page.Meta) (*pageWalk, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("db: %w", err)
	}
	if err := m.Fits(info.Size()); err != nil {
		return nil, pageError(err)
	}
	w := &pageWalk{length: info.Size()}
	w.Walker = page.NewWalker(ctx, f, info.Size(), m, page.Visitor{
		Report: func(id uint64, err error) { w.fail(m.Offset(id), err) },
	})
	return w, nil
}

// fail records a problem at a file offset, unless there was one before.
func (w *pageWalk) fail(at int64, err error) {
	if w.first == nil {
		w.first = &CorruptError{Offset: at, Err: err}
	}
}
