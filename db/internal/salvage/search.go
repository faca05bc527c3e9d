package salvage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/vector"
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
			w.blocks[k] = place{at, len(value), b.Elem, b.Cols}
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
	case codec.KindTombstones, codec.KindChanged:
		sets := w.deletedRows
		if section == codec.KindChanged {
			sets = w.changed
		}
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
		w.blocks[k] = place{at: at, n: len(value)}
	}
}

// seen is the information about a collection that its blocks give.
type seen struct {
	dense, sparse bool
	dim           uint32
	chunks, tail  uint32 // one more than the highest number
	cosine        bool
}

// seenObjects returns what the blocks of rows that were found show of their collections.
func (w *File) seenObjects() map[uint64]*seen {
	found := map[uint64]*seen{}
	for k, p := range w.blocks {
		object, section, n := codec.ParseKey([]byte(k[len(k)-codec.KeySize:]))
		s := found[object]
		if s == nil {
			s = &seen{}
		}
		switch section {
		case codec.KindRows, codec.KindTail:
			if p.elem == codec.BytesElem {
				s.sparse = true
			} else {
				s.dense, s.dim = true, p.cols
			}
			if section == codec.KindTail {
				s.tail = max(s.tail, n+1)
			} else {
				s.chunks = max(s.chunks, n+1)
			}
		case codec.KindSparse:
			s.sparse, s.chunks = true, max(s.chunks, n+1)
		case codec.KindNorms:
			s.cosine = true
		default:
			continue
		}
		found[object] = s
	}
	return found
}

// assume makes a catalog from the results of a search: the latest catalog found, with the rows
// added since. Collections that are not in it are named by their number.
func (w *File) assume() error {
	found := w.seenObjects()
	w.Catalog = &layout.Catalog{}
	if w.latest != nil {
		w.Catalog = w.latest
	}
	for _, c := range w.Catalog.Collections {
		if s := found[c.ID]; s != nil {
			c.Rows = max(c.Rows, s.rows(c))
		}
		if c.Sparse {
			c.Dim = kind.MaxFeature + 1
		}
		delete(found, c.ID)
	}
	var fresh []uint64
	for id, s := range found {
		// An object with an older number than the catalog's that is not in the catalog had been
		// dropped.
		if id > w.Catalog.Object && (s.dense != s.sparse) {
			fresh = append(fresh, id)
		}
	}
	slices.Sort(fresh)
	for _, id := range fresh {
		s := found[id]
		c := &layout.Collection{
			ID: id, Name: fmt.Sprintf("collection-%d", id), Sparse: s.sparse, Dim: int(s.dim), Metric: vector.L2,
		}
		switch {
		case s.sparse:
			c.Dim, c.Metric = kind.MaxFeature+1, vector.Cosine
			prefix := string(layout.FeatureKey(id, layout.FeatureByName, nil))
			for k := range w.pairs[string(layout.BucketFeatures)] {
				c.Named = c.Named || len(k) > 9 && k[:9] == prefix
			}
		case c.Dim < 1 || c.Dim > kind.MaxDim:
			continue
		case s.cosine:
			c.Metric = vector.Cosine
		}
		for hasCollection(w.Catalog, c.Name) {
			c.Name += "-found"
		}
		c.Rows = s.rows(c)
		w.Catalog.Collections = append(w.Catalog.Collections, c)
		w.Unnamed = append(w.Unnamed, c.Name)
	}
	if len(w.Catalog.Collections) == 0 {
		return errors.New("no row was found by searching all pages either")
	}
	return nil
}

// rows returns the number of row numbers in use, as far as the blocks found show.
func (s *seen) rows(c *layout.Collection) uint32 {
	if uint64(s.chunks)<<c.Shift() > layout.MaxRows {
		return s.tail
	}
	return max(s.tail, s.chunks<<c.Shift())
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

// hasCollection reports whether a collection has that name.
func hasCollection(c *layout.Catalog, name string) bool {
	_, err := c.Find(name)
	return err == nil
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
	return x
}
