package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/page"
)

// Open validates and opens the file that path names. While it waits for the lock, the process
// that holds the lock may replace the file, and anything written to the old one would be lost.
// Therefore path must still name the opened file once the lock is held.
//
// Errors: *page.Error, those of the operating system, the context's.
func Open(ctx context.Context, path string, o Options) (*File, error) {
	deadline := time.Now().Add(o.Timeout)
	o.Timeout = 1 // of each attempt
	for range 10 {
		f, err := openUnlocked(ctx, path, o, deadline)
		if err != nil {
			return nil, err
		}
		there, err := os.Stat(path)
		if err == nil && os.SameFile(there, f.info) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
	}
	return nil, refuse(ErrLocked, "%s is being replaced", path)
}

// lockWait is the pause between attempts of Open to take the file's lock.
const lockWait = 10 * time.Millisecond

// openUnlocked validates and opens the file once no other process holds its lock.
func openUnlocked(ctx context.Context, path string, o Options, deadline time.Time) (*File, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		if err := validate(path, o); err != nil {
			return nil, err
		}
		f, err := OpenValid(path, o)
		if !errors.Is(err, ErrLocked) || !time.Now().Before(deadline) {
			return f, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(lockWait, time.Until(deadline))):
		}
	}
}

// validate checks both meta pages and the length of the file. Another process may be writing a
// meta page at this moment, so a page that looks damaged is read again; if there is such a
// writer, taking the lock fails next anyway.
func validate(path string, o Options) (err error) {
	for range 3 {
		if err = validateOnce(path, o); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func validateOnce(path string, o Options) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	metas := page.ReadMetas(f)
	valid := metas.Valid()
	err = cmp.Or(metas.Err[0], metas.Err[1])
	why := err // without the reason, which the message gives
	var e *page.Error
	if errors.As(err, &e) {
		why = e.Err
	}
	switch {
	case len(valid) == 0 && errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(page.ErrForeign, "%s: %w", path, err)
	case len(valid) == 0 && e != nil:
		return refuse(e.Reason, "%s: %w", path, why)
	case len(valid) == 0:
		return fmt.Errorf("open %s: %w", path, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(page.ErrShort, "%s: %w", path, err)
	case err != nil && !o.AcceptOlder:
		return refuse(page.ErrDamaged, "%s: one of two meta pages is damaged (%v); "+
			"the other may be one transaction older, AcceptOlder opens it", path, why)
	case err != nil:
		o.Logger.Warn("db: a meta page is damaged, opened from the other, which may be one transaction older",
			"path", path, "err", why)
	}
	if want := valid[0].Bytes(); info.Size() < want {
		return refuse(page.ErrShort, "%s has %d bytes, its pages need %d", path, info.Size(), want)
	}
	return nil
}

// Create makes a new, complete file under a temporary name and links it to path, so that a
// crash leaves either no file or a valid one. fill writes its content. A file that another
// process has created in the meantime stays.
//
// Errors: those of fill, bbolt and the operating system.
func Create(path string, o Options, fill func(*bbolt.Tx) error) (err error) {
	tmp, err := Temp(path)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	b, err := New(tmp, o)
	if err != nil {
		return err
	}
	if err := errors.Join(b.Update(fill), b.Close()); err != nil {
		return err
	}
	if err = Link(tmp, path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && !o.NoSync {
		err = SyncDir(filepath.Dir(path))
	}
	return err
}

// Fill gives an empty file, such as mktemp makes, its first content, unless another process has. It
// does so in place, under the file's lock: a crash may leave a file that is no database.
//
// Errors: *page.Error, those of fill, bbolt and the operating system.
func Fill(path string, o Options, fill func(*bbolt.Tx) error) error {
	b, err := New(path, o)
	if err != nil {
		return openError(path, err)
	}
	err = b.Update(func(tx *bbolt.Tx) error {
		if first, _ := tx.Cursor().First(); first != nil {
			return nil
		}
		return fill(tx)
	})
	return errors.Join(err, b.Close())
}

// Link makes path a name of a file that has another one, which the caller then removes. Unlike a rename,
// it never replaces a file: it fails with fs.ErrExist.
func Link(name, path string) error {
	err := os.Link(name, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, there := os.Lstat(path); !errors.Is(there, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return os.Rename(name, path) // the file system may have no links
}

// New opens path as an empty bbolt file with our page size.
func New(path string, o Options) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: o.Timeout, NoSync: o.NoSync, NoGrowSync: o.NoSync,
		FreelistType: bbolt.FreelistMapType, PageSize: page.Size,
	})
}
