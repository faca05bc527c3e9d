// Package salvage finds what can be read of a damaged database file: it walks the pages that can be
// reached, or searches all of them, and validates everything.
package salvage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
)

// place is the position of a block in the file.
type place struct {
	at int64
	n  int
}

// File holds the parts found in a damaged file.
type File struct {
	// Catalog is the catalog of the tree, or the latest one that was found.
	Catalog *layout.Catalog
	// Searched is the reason why the catalog of the tree could not be read, nil if it could. All pages were
	// then searched.
	Searched error

	ctx    context.Context
	f      *os.File
	kinds  func(name string) kind.Kind
	blocks map[string]place // valid blocks, by bucket and key
	// pairs holds the valid entries of the other buckets, by bucket and key.
	pairs  map[string]map[string][]byte
	broken map[string]bool   // buckets that may be incomplete
	found  map[uint64]*parts // by collection; nil until it is needed
	// The following fields are set by a search.
	latest      *layout.Catalog
	deletedRows map[uint64]*roaring.Bitmap // by collection
	changed     map[uint64]*roaring.Bitmap // rows with a change, by collection
	vectorless  map[uint64]*roaring.Bitmap // rows without a vector, by collection
	// revisions has the revision of each change found by a search, by its key in blocks.
	revisions map[string]uint64
}

// Open finds what can be read of a file. kinds returns the kind of index with a name, nil if
// there is none. f must stay open while the result is used.
func Open(ctx context.Context, f *os.File, kinds func(name string) kind.Kind) (*File, error) {
	w := newFile(ctx, f, kinds)
	if err := w.survey(f.Name()); err != nil {
		return nil, err
	}
	return w, nil
}

func newFile(ctx context.Context, f *os.File, kinds func(name string) kind.Kind) *File {
	return &File{
		ctx: ctx, f: f, kinds: kinds, blocks: map[string]place{}, pairs: map[string]map[string][]byte{},
		broken: map[string]bool{}, deletedRows: map[uint64]*roaring.Bitmap{},
		changed: map[uint64]*roaring.Bitmap{}, vectorless: map[uint64]*roaring.Bitmap{},
		revisions: map[string]uint64{},
	}
}

// survey walks all reachable pages, of the newer state first, and of the other one if the newer
// one has no catalog. It then searches all pages for missing parts, or for everything if
// neither state has a catalog.
func (w *File) survey(path string) error {
	info, err := w.f.Stat()
	if err != nil {
		return fail.Wrapf(err, "salvage")
	}
	metas := state.ReadMetas(w.f)
	reason := errors.Join(metas.Err[:]...)
	size := int64(layout.PageSize)
	for _, m := range metas.Valid() {
		size = int64(m.PageSize)
		if reason = w.walk(m, info.Size()); reason == nil {
			if len(w.broken) == 0 {
				return nil
			}
			return w.search(info.Size(), size)
		}
		if err := w.ctx.Err(); err != nil {
			return fail.Wrapf(err, "salvage")
		}
	}
	w.Searched = fmt.Errorf("%w: %s: no catalog can be read: %w", fail.ErrCorrupt, path, fail.Inner{Err: reason})
	if errors.Is(reason, fail.NewerFormat) {
		return w.Searched
	}
	clear(w.blocks)
	clear(w.pairs)
	w.Catalog = nil
	if err := w.search(info.Size(), size); err != nil {
		return err
	}
	if err := w.assume(); err != nil {
		return fmt.Errorf("%w; %w", w.Searched, err)
	}
	return nil
}

func (w *File) walk(m page.Meta, length int64) error {
	clear(w.blocks)
	clear(w.pairs)
	clear(w.broken)
	w.Catalog = nil
	now := ""
	walk := page.NewWalker(w.ctx, w.f, length, m, page.Visitor{
		Pair:   w.pair,
		Report: func(uint64, error) { w.broken[now] = true },
	})
	var buckets []page.Bucket
	walk.Buckets(func(b page.Bucket) { buckets = append(buckets, b) })
	for _, b := range buckets {
		now = string(b.Name)
		walk.Walk(b, page.Values)
	}
	if err := w.ctx.Err(); err != nil {
		return err
	}
	data, err := w.block(string(layout.BucketMeta), layout.CatalogKey)
	if err != nil {
		return err
	}
	w.Catalog, err = layout.DecodeCatalog(data)
	return err
}

// pair records a key and value.
func (w *File) pair(bucket, key, value []byte, at int64) {
	name := string(bucket)
	switch name {
	case string(layout.BucketBlocks), string(layout.BucketTail), string(layout.BucketSets),
		string(layout.BucketMeta):
		if len(key) != codec.KeySize {
			w.broken[name] = true
			return
		}
		b, err := codec.Parse(value)
		if err != nil || b.Verify(key) != nil {
			w.broken[name] = true
			return
		}
		w.blocks[name+string(key)] = place{at, len(value)}
	case string(layout.BucketKeys), string(layout.BucketFeatures):
		if w.pairs[name] == nil {
			w.pairs[name] = map[string][]byte{}
		}
		w.pairs[name][string(key)] = bytes.Clone(value)
	}
}

var errGone = errors.New("block is missing or damaged")

// block reads and decodes a valid block.
func (w *File) block(bucket string, key [codec.KeySize]byte) ([]byte, error) {
	p, ok := w.blocks[bucket+string(key[:])]
	if !ok {
		object, kind, chunk := codec.ParseKey(key[:])
		return nil, layout.BlockError("", object, kind, chunk, errGone)
	}
	value := make([]byte, p.n)
	if _, err := w.f.ReadAt(value, p.at); err != nil {
		return nil, fail.Wrapf(err, "salvage")
	}
	return layout.DecodeBlock("", key[:], value, true)
}

// Manifest returns the manifest of an index.
func (w *File) Manifest(r *layout.IndexRef) (*kind.Manifest, error) {
	key := codec.Key(r.Object, codec.KindManifest, 0)
	data, err := w.block(string(layout.BucketMeta), key)
	if err != nil {
		var e error
		if data, e = w.block(string(layout.BucketBlocks), key); e != nil {
			return nil, err
		}
	}
	return layout.DecodeManifest(data, w.kinds)
}
