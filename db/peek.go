package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/page"
	"github.com/anndb/anndb/db/internal/state"
)

// peekTries is the number of times that Peek starts over when commits overtake it, and peekWait
// the pause in between: a commit takes two writes to the disk.
const (
	peekTries = 50
	peekWait  = time.Millisecond
)

// Peek describes the latest committed state of a file that another process, or this one, may
// have open for writing: its size, collections and indexes. Fields that only an open database
// knows are zero: snapshots, commits, running maintenance. It takes no lock and maps nothing,
// so no other process has to wait for it.
//
// A commit writes only to pages that are free in the previous state, and then publishes the new
// state with a meta page. So the pages read are consistent if the latest meta page is still the
// same afterwards; otherwise Peek starts over. It validates everything that it reads, and
// blocks have checksums.
//
// Errors: fs.ErrNotExist, ErrNotDatabase, ErrBusy.
func Peek(ctx context.Context, path string) (Stats, error) {
	for range peekTries {
		st, err := peek(ctx, path)
		if !errors.Is(err, fail.Changing) {
			return st, err
		}
		select {
		case <-ctx.Done():
			return Stats{}, fail.Wrapf(ctx.Err(), "peek")
		case <-time.After(peekWait):
		}
	}
	return Stats{}, fmt.Errorf("%w: %s", fail.Changing, path)
}

func peek(ctx context.Context, path string) (Stats, error) {
	// Open the file each time: a compaction may have replaced it.
	f, err := os.Open(path)
	if err != nil {
		return Stats{}, fail.Wrapf(err, "peek")
	}
	defer f.Close()
	metas := state.ReadMetas(f)
	m, err := metas.Latest()
	if err != nil {
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st, err := describe(ctx, f, m)
	metas = state.ReadMetas(f)
	now, metaErr := metas.Latest()
	switch {
	case ctx.Err() != nil:
		return Stats{}, fail.Wrapf(ctx.Err(), "peek")
	case metaErr != nil || now.TxID != m.TxID:
		return Stats{}, fail.Changing
	case err != nil:
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st.Path = path
	return st, nil
}

// describe reads the size, the collections and the indexes of a state.
func describe(ctx context.Context, f *os.File, m page.Meta) (st Stats, err error) {
	info, err := f.Stat()
	if err != nil {
		return st, fail.Wrapf(err, "peek")
	}
	w, err := page.NewVerifier(ctx, f, info.Size(), m)
	if err != nil {
		return st, state.Translate(err)
	}
	blocks := map[string][]byte{}
	w.Pair = func(_, key, value []byte, _ int64) { blocks[string(key)] = value }
	found := false
	w.Buckets(func(b page.Bucket) {
		switch string(b.Name) {
		case string(layout.BucketMeta): // comes before the sets
			found = true
			w.Walk(b, page.Values)
		case string(layout.BucketSets):
			if cat, err := peekCatalog(blocks); err == nil && anyRelabelled(cat) {
				w.Walk(b, page.Values)
			}
		}
	})
	free := w.Freelist()
	if w.First != nil {
		return st, state.Translate(w.First)
	}
	if !found {
		return st, fmt.Errorf("%w: no bucket %q", ErrNotDatabase, layout.BucketMeta)
	}
	cat, err := peekCatalog(blocks)
	if err != nil {
		return st, err
	}
	st = Stats{
		FileBytes: info.Size(), FreeBytes: int64(free) * int64(m.PageSize),
		PageSize: int(m.PageSize), Generation: m.TxID,
	}
	st.LiveBytes = max(0, st.FileBytes-st.FreeBytes)
	for _, c := range cat.Collections {
		st.Collections = append(st.Collections, infoOf(c))
		for i := range c.Indexes {
			r := &c.Indexes[i]
			key := codec.Key(r.Object, codec.KindManifest, 0)
			var man *kind.Manifest
			data, err := layout.DecodeBlock(c.Name, key[:], blocks[string(key[:])], true)
			if err == nil {
				man, err = layout.DecodeManifest(data, kindOf)
			}
			status := indexStatus(c, r, man, err)
			if err == nil {
				if status.Relabelled, err = peekStale(c, blocks, r.Object, status.Rows); err != nil {
					status.Error = err.Error()
				}
			}
			st.Indexes = append(st.Indexes, status)
		}
	}
	return st, nil
}

// peekCatalog decodes the catalog among the blocks read.
func peekCatalog(blocks map[string][]byte) (*layout.Catalog, error) {
	data, err := layout.DecodeBlock("", layout.CatalogKey[:], blocks[string(layout.CatalogKey[:])], true)
	if err != nil {
		return nil, fail.Wrapf(err, "catalog")
	}
	return layout.DecodeCatalog(data)
}

// anyRelabelled reports whether an index that learns from labels may be behind by changed labels.
func anyRelabelled(c *layout.Catalog) bool {
	for _, x := range c.Collections {
		if x.Revision > 0 && slices.ContainsFunc(x.Indexes, func(r layout.IndexRef) bool { return r.Labels }) {
			return true
		}
	}
	return false
}

// peekStale is Collection.stale for blocks that were read without a transaction.
func peekStale(c *layout.Collection, blocks map[string][]byte, object uint64, n int) (int, error) {
	read := func(object uint64, kind codec.Kind, chunk uint32) (*roaring.Bitmap, error) {
		key := codec.Key(object, kind, chunk)
		value, ok := blocks[string(key[:])]
		if !ok {
			return roaring.New(), nil
		}
		return layout.DecodeSet(c.Name, key[:], value)
	}
	stale := 0
	for chunk := range uint32((n + 0xffff) >> 16) {
		rows, err := read(object, codec.KindRelabelled, chunk)
		if err != nil {
			return 0, err
		}
		deletedRows, err := read(c.ID, codec.KindTombstones, chunk)
		if err != nil {
			return 0, err
		}
		rows.AndNot(deletedRows)
		rows.RemoveRange(uint64(max(0, n-int(chunk)<<16)), 1<<32)
		stale += int(rows.GetCardinality())
	}
	return stale, nil
}

// indexStatus returns the status of an index from its manifest, or from the error if the manifest
// cannot be read.
func indexStatus(c *layout.Collection, r *layout.IndexRef, m *kind.Manifest, err error) IndexStatus {
	st := IndexStatus{Collection: c.Name, Index: r.Name, Segments: 1}
	if err != nil {
		st.Error = err.Error()
		return st
	}
	st.Rows, st.Fresh = m.Info.Rows, int(c.Rows)-m.Info.Rows
	st.Segments, st.Bytes = m.Own.SegmentCount(), publicInfo(m).TotalBytes()
	return st
}
