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

// If the tree of pages is broken, or its catalog is lost, all pages are searched one by one:
// the header of a leaf page identifies it, blocks and entries have checksums that include their
// keys, and a block's key identifies its object. Freed pages are searched, too. Rows and names
// never change and their numbers are never reused, so any copy found is correct, whatever state
// it belongs to. Of sets of deleted and of changed rows the union is used, since deleted rows are never
// restored and a change remains as long as its row; of several entries for a key the one with the latest row;
// of several catalogs the latest; of several changes of a row the one with the highest revision. If the tree
// has a catalog, deleted rows and changes are taken from the tree only: a change that was found elsewhere may
// be older than the one that is lost, and the row is then reported as lost.

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
	blocks map[blockKey]place // valid blocks
	sets   map[setKey]*roaring.Bitmap
	// keys and names are the entries of the buckets of keys and of features.
	keys, names map[string][]byte
	broken      map[string]bool   // buckets that may be incomplete
	found       map[uint64]*parts // by collection; nil until it is needed
	// The following fields are set by a search.
	latest    *layout.Catalog
	revisions map[blockKey]uint64 // of the changes in blocks
}

// blockKey is the key of a block. It determines the bucket, except for a manifest, of which there are two
// copies.
type blockKey [codec.KeySize]byte

// place is the position of a block in the file.
type place struct {
	at int64
	n  int
}

// setKey names a set of rows of a collection.
type setKey struct {
	object uint64
	kind   codec.Kind
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
	w := &File{ctx: ctx, f: f, kinds: kinds, revisions: map[blockKey]uint64{}}
	w.forget()
	return w
}

// forget forgets what was found.
func (w *File) forget() {
	w.Catalog, w.blocks, w.sets = nil, map[blockKey]place{}, map[setKey]*roaring.Bitmap{}
	w.keys, w.names, w.broken = map[string][]byte{}, map[string][]byte{}, map[string]bool{}
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
	search := func() error {
		return page.Scan(w.ctx, w.f, info.Size(), size, w.searchPair)
	}
	for _, m := range metas.Valid() {
		size = int64(m.PageSize)
		if reason = w.walk(m, info.Size()); reason == nil && len(w.broken) > 0 {
			reason = search()
		}
		if err := w.ctx.Err(); err != nil {
			return fail.Wrapf(err, "salvage")
		}
		if reason == nil {
			return nil
		}
	}
	w.Searched = fmt.Errorf("%w: %s: no catalog can be read: %w", fail.ErrCorrupt, path, fail.Inner{Err: reason})
	if errors.Is(reason, fail.NewerFormat) {
		return w.Searched
	}
	w.forget()
	if err := search(); err != nil {
		return fail.Wrapf(err, "salvage")
	}
	if err := w.assume(); err != nil {
		return fmt.Errorf("%w; %w", w.Searched, err)
	}
	return nil
}

func (w *File) walk(m page.Meta, length int64) error {
	w.forget()
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
	data, err := w.block(layout.CatalogKey)
	if err == nil {
		w.Catalog, err = layout.DecodeCatalog(data)
	}
	return err
}

// pair records a key and value of the tree.
func (w *File) pair(bucket, key, value []byte, at int64) {
	switch name := string(bucket); name {
	case string(layout.BucketBlocks), string(layout.BucketTail), string(layout.BucketSets),
		string(layout.BucketMeta):
		if _, err := layout.ParseBlock(key, value, true); err != nil || len(key) != codec.KeySize {
			w.broken[name] = true
			return
		}
		w.blocks[blockKey(key)] = place{at, len(value)}
		w.addSet(key, value)
	case string(layout.BucketKeys):
		w.keys[string(key)] = bytes.Clone(value)
	case string(layout.BucketFeatures):
		w.names[string(key)] = bytes.Clone(value)
	}
}

// addSet adds the rows of a valid block to their set, if it is one of rows that are live or not.
func (w *File) addSet(key, value []byte) {
	object, section, chunk := codec.ParseKey(key)
	switch section {
	case codec.KindTombstones, codec.KindChanged, codec.KindVectorless:
	default:
		return
	}
	set, err := layout.DecodeSet("", key, value)
	if err != nil || chunk >= 1<<16 {
		return
	}
	k := setKey{object, section}
	if w.sets[k] == nil {
		w.sets[k] = roaring.New()
	}
	w.sets[k].Or(roaring.AddOffset(set, chunk<<16))
}

// searchPair records a key and value whose bucket is unknown. If the tree has a catalog, only
// missing rows and names are recorded.
func (w *File) searchPair(key, value []byte, at int64) {
	if _, err := layout.ParseBlock(key, value, true); err == nil && len(key) == codec.KeySize {
		w.searchBlock(key, value, at)
		return
	}
	if row, ok := layout.EntryNumber(string(layout.BucketKeys), key, value); ok {
		known, _ := layout.EntryNumber(string(layout.BucketKeys), key, w.keys[string(key)])
		if w.Catalog == nil && (w.keys[string(key)] == nil || row > known) {
			w.keys[string(key)] = bytes.Clone(value)
		}
		return
	}
	if _, ok := layout.EntryNumber(string(layout.BucketLabels), key, value); ok || len(key) < 10 {
		return
	}
	_, ok := layout.EntryNumber(string(layout.BucketFeatures), key, value)
	byName := ok && key[8] == layout.FeatureByName
	byID := len(key) == 13 && key[8] == layout.FeatureByID
	if (byName || byID) && w.names[string(key)] == nil {
		w.names[string(key)] = bytes.Clone(value)
	}
}

// searchBlock records a valid block.
func (w *File) searchBlock(key, value []byte, at int64) {
	k := blockKey(key)
	_, section, _ := codec.ParseKey(key)
	switch section {
	case codec.KindCatalog:
		data, err := layout.DecodeBlock("", key, value, true)
		if err != nil {
			return
		}
		if c, err := layout.DecodeCatalog(data); err == nil && laterCatalog(c, w.latest) {
			w.latest = c
		}
	case codec.KindTombstones, codec.KindChanged, codec.KindVectorless:
		if w.Catalog == nil || section != codec.KindTombstones {
			w.addSet(key, value)
		}
	case codec.KindChange:
		data, err := layout.DecodeBlock("", key, value, true)
		if err != nil || w.Catalog != nil {
			return
		}
		if x, err := layout.DecodeChange(data); err == nil && x.Revision > w.revisions[k] {
			w.revisions[k] = x.Revision
			w.blocks[k] = place{at, len(value)}
		}
	case codec.KindGeneric, codec.KindLabelRows, codec.KindRelabelled:
	default:
		if _, ok := w.blocks[k]; !ok {
			w.blocks[k] = place{at, len(value)}
		}
	}
}

// assume takes the latest catalog that a search has found.
func (w *File) assume() error {
	if w.latest == nil {
		return errors.New("no catalog was found by searching all pages either")
	}
	w.Catalog = w.latest
	for _, c := range w.Catalog.Collections {
		if c.Sparse {
			c.Features = kind.MaxFeature + 1 // of rows that were added later
		}
	}
	return nil
}

// laterCatalog reports whether a catalog is of a later state than another one, which may be nil.
// Object numbers only grow.
func laterCatalog(c *layout.Catalog, than *layout.Catalog) bool {
	if than == nil || c.Object != than.Object {
		return than == nil || c.Object > than.Object
	}
	rows := func(c *layout.Catalog) (n int64) {
		for _, x := range c.Collections {
			n += int64(x.Rows) + int64(min(x.Revision, 1<<40))
		}
		return n
	}
	return rows(c) > rows(than)
}

// value reads a valid block, nil if there is none.
func (w *File) value(key []byte) []byte {
	p, ok := w.blocks[blockKey(key)]
	if !ok {
		return nil
	}
	value := make([]byte, p.n)
	if _, err := w.f.ReadAt(value, p.at); err != nil {
		return nil
	}
	return value
}

// block reads and decodes a valid block.
func (w *File) block(key blockKey) ([]byte, error) {
	value := w.value(key[:])
	if value == nil {
		object, section, chunk := codec.ParseKey(key[:])
		return nil, layout.BlockError("", object, section, chunk, errGone)
	}
	return layout.DecodeBlock("", key[:], value, true)
}

// Manifest returns the manifest of an index.
func (w *File) Manifest(c *layout.Collection, r *layout.IndexRef) (*kind.Manifest, error) {
	return layout.ReadManifest(c, r, w.value, w.kinds)
}
