package salvage

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
)

// If the tree of pages is broken, or its catalog is lost, all pages are searched one by one:
// the header of a leaf page identifies it, blocks and entries have checksums that include their
// keys, and a block's key identifies its object. Freed pages are searched, too. Rows and names
// never change and their numbers are never reused, so any copy found is correct, whatever state
// it belongs to. Of tombstones and of
// sets of changed rows the union is used, since deleted rows are never restored and a change
// remains as long as its row; of
// several entries for a key the one with the latest row; of several catalogs the latest; of
// several changes of a row's labels and payload the one with the highest revision. If the tree
// has a catalog, changes are taken from the tree only: one that was found elsewhere may be older
// than the one that is lost, and the row is then reported as lost.

// search records the contents of all leaf pages in the file. If the tree has a catalog, only
// missing rows and names are recorded.
func (w *File) search(length, pageSize int64) error {
	if err := page.Scan(w.ctx, w.f, length, pageSize, w.searchPair); err != nil {
		return fmt.Errorf("db: salvage: %w", err)
	}
	return nil
}

// searchPair records a key and value whose bucket is unknown.
func (w *File) searchPair(key, value []byte, at int64) {
	if b, err := codec.Parse(value); err == nil && len(key) == codec.KeySize && b.Verify(key) == nil {
		w.searchBlock(b, key, value, at)
		return
	}
	names := w.pairs[string(layout.BucketFeatures)]
	if names == nil {
		names = map[string][]byte{}
		w.pairs[string(layout.BucketFeatures)] = names
	}
	keys := w.pairs[string(layout.BucketKeys)]
	if keys == nil {
		keys = map[string][]byte{}
		w.pairs[string(layout.BucketKeys)] = keys
	}
	if row, ok := layout.EntryNumber(string(layout.BucketKeys), key, value); ok {
		known, _ := layout.EntryNumber(string(layout.BucketKeys), key, keys[string(key)])
		if w.Catalog == nil && (keys[string(key)] == nil || row > known) {
			keys[string(key)] = bytes.Clone(value)
		}
		return
	}
	if _, ok := layout.EntryNumber(string(layout.BucketLabels), key, value); ok || len(key) < 10 {
		return
	}
	_, ok := layout.EntryNumber(string(layout.BucketFeatures), key, value)
	byName := ok && key[8] == layout.FeatureByName
	if byID := len(key) == 13 && key[8] == layout.FeatureByID; (byName || byID) && names[string(key)] == nil {
		names[string(key)] = bytes.Clone(value)
	}
}

// searchBlock records a valid block.
func (w *File) searchBlock(b codec.Block, key, value []byte, at int64) {
	note := func(bucket []byte) {
		k := string(bucket) + string(key)
		if _, ok := w.blocks[k]; !ok {
			w.blocks[k] = place{at, len(value)}
		}
	}
	object, section, chunk := codec.ParseKey(key)
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
		sets := map[codec.Kind]map[uint64]*roaring.Bitmap{
			codec.KindTombstones: w.deletedRows, codec.KindChanged: w.changed, codec.KindVectorless: w.vectorless,
		}[section]
		if set, err := layout.DecodeSet("", key, value); err == nil && chunk < 1<<16 {
			if sets[object] == nil {
				sets[object] = roaring.New()
			}
			sets[object].Or(roaring.AddOffset(set, chunk<<16))
		}
	case codec.KindTail:
		note(layout.BucketTail)
	case codec.KindManifest:
		note(layout.BucketMeta)
		note(layout.BucketBlocks)
	case codec.KindChange:
		w.searchChange(key, value, at)
	case codec.KindGeneric, codec.KindLabelRows, codec.KindRelabelled:
	default:
		note(layout.BucketBlocks)
	}
}

// searchChange records a change of a row's labels and payload, unless a later one is known.
func (w *File) searchChange(key, value []byte, at int64) {
	data, err := layout.DecodeBlock("", key, value, true)
	if err != nil || w.Catalog != nil {
		return
	}
	k := string(layout.BucketTail) + string(key)
	if x, err := layout.DecodeChange(data); err == nil && x.Revision > w.revisions[k] {
		w.revisions[k] = x.Revision
		w.blocks[k] = place{at, len(value)}
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

// searched determines which rows of a collection are live after a search.
func (w *File) searched(c *layout.Collection) *Rows {
	x := &Rows{w: w, c: c, deletedRows: w.deletedRows[c.ID], searched: true, Unsure: true, chunk: -1}
	if x.deletedRows == nil {
		x.deletedRows = roaring.New()
	}
	if x.changed = w.changed[c.ID]; x.changed == nil {
		x.changed = roaring.New()
	}
	x.readKeys()
	x.readVectorless()
	return x
}
