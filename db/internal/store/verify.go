package store

import (
	"context"
	"fmt"
	"math/bits"
	"os"

	"github.com/anndb/anndb/db/internal/page"
)

// Blocks have checksums, bbolt's pages do not: a flipped bit in a page can hide entries, change
// keys, or make bbolt loop until the process dies. Therefore bbolt may walk a bucket only after
// this process has walked it once itself, with bounds-checked reads (package page). Later
// changes are the process's own commits.

// Parts is a set of parts of a file that are verified separately: the bits of the buckets in
// Layout, and FreePages.
type Parts uint32

const (
	// FreePages is the list of free pages compared with all buckets, which must be valid before
	// a write.
	FreePages Parts = 1 << 30
	// shape is verified before all others, see page.Walker.Unaccounted.
	shape Parts = 1 << 31
)

// Layout describes the buckets in the root bucket of a file. A file that has one of them must
// have no others.
type Layout struct {
	Buckets []Bucket
	// Pair verifies a key and value of a bucket with Values.
	Pair func(bucket string, key, value []byte) error
}

// Bucket describes a bucket in the root bucket.
type Bucket struct {
	Name string
	Part Parts // one bit, below FreePages; buckets may share it
	// Values selects that values are read and verified as well as keys.
	Values bool
}

// find returns the bucket of a name, or nil.
func (l *Layout) find(name []byte) *Bucket {
	for i := range l.Buckets {
		if l.Buckets[i].Name == string(name) {
			return &l.Buckets[i]
		}
	}
	return nil
}

// Has reports whether there is a bucket of that name.
func (l *Layout) Has(name []byte) bool { return l.find(name) != nil }

// Verify walks the pages of parts of the file unless they have been walked before. A transaction
// may only read parts that are verified.
//
// Errors: *page.Error; the context's.
func (f *File) Verify(ctx context.Context, parts Parts) error {
	if Parts(f.verified.Load())&parts == parts {
		return nil
	}
	// Until all parts have been walked, this process commits nothing, so the latest state in
	// the file is the one that every transaction sees. A write waits here for a walk that a
	// reader has begun.
	f.verifyMu.Lock()
	defer f.verifyMu.Unlock()
	for todo := (parts | shape) &^ Parts(f.verified.Load()); todo != 0; {
		part := todo & -todo
		if todo&shape != 0 {
			part = shape
		}
		todo &^= part
		i := bits.TrailingZeros32(uint32(part))
		if f.invalid[i] == nil {
			err := f.walk(ctx, part)
			if ctx.Err() != nil { // a cancelled walk has no result
				return fmt.Errorf("open: %w", ctx.Err())
			}
			f.invalid[i] = err
		}
		if err := f.invalid[i]; err != nil {
			return err
		}
		f.verified.Or(uint32(part))
	}
	return nil
}

// walk walks one part of the file's latest state.
func (f *File) walk(ctx context.Context, part Parts) error {
	metas := page.ReadMetas(f)
	m, err := metas.Latest()
	if err != nil {
		return refuse(page.ErrDamaged, "no meta page is valid: %w", err)
	}
	v, err := verifier(ctx, f.file, m)
	if err != nil {
		return err
	}
	layout := f.opts.Layout
	ignore := func(_, _, _ []byte, _ int64) {}
	verify := func(bucket, key, value []byte, at int64) {
		if err := layout.Pair(string(bucket), key, value); err != nil {
			v.Fail(at, err)
		}
	}
	own := 0
	var foreign error
	v.Buckets(func(b page.Bucket) {
		known := layout.find(b.Name)
		if known == nil {
			if foreign == nil {
				foreign = &page.Error{Reason: page.ErrDamaged, Offset: b.At, Err: fmt.Errorf("unknown bucket %q", b.Name)}
			}
			return
		}
		own++
		switch {
		case part == shape:
			v.Walk(b, page.Headers)
		case part != FreePages && part != known.Part:
		case known.Values:
			v.Pair = verify
			v.Walk(b, page.Values)
		default:
			v.Pair = ignore
			v.Walk(b, page.Keys)
		}
	})
	if part == FreePages {
		v.Freelist()
	}
	if part == shape && own > 0 {
		v.Unaccounted()
	}
	// If the name of an optional bucket is damaged, the bucket seems never to have been created.
	// If no bucket is known, the file belongs to another program, and is not damaged.
	if v.First == nil && own > 0 && foreign != nil {
		return foreign
	}
	return v.First
}

// verifier returns a verifier of a state.
func verifier(ctx context.Context, f *os.File, m page.Meta) (*page.Verifier, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return page.NewVerifier(ctx, f, info.Size(), m)
}

// FreePages returns the number of free pages.
//
// Errors: *page.Error.
func (f *File) FreePages() (int, error) {
	if !f.opts.ReadOnly {
		s := f.bolt.Stats()
		return s.FreePageN + s.PendingPageN, nil
	}
	// bbolt has no list of free pages if the file is read-only.
	metas := page.ReadMetas(f)
	m, err := metas.Latest()
	if err != nil {
		return 0, err
	}
	v, err := verifier(context.Background(), f.file, m)
	if err != nil {
		return 0, err
	}
	n := v.Freelist()
	return n, v.First
}
