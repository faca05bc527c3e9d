// Package peek reads the catalog of a database file that may be open for writing, without a lock.
package peek

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

// tries is the number of times that Read starts over when commits overtake it, and wait
// the pause in between: a commit takes two writes to the disk.
const (
	tries = 50
	wait  = time.Millisecond
)

// State is what was read of a committed state.
type State struct {
	FileBytes, FreeBytes int64
	PageSize             int
	Generation           uint64 // the number of its transaction
	Catalog              *layout.Catalog

	blocks map[string][]byte // by key
}

// Read reads the latest committed state of the file at path. It starts over if a commit has
// overtaken it, and returns fail.Changing after some tries.
func Read(ctx context.Context, path string) (*State, error) {
	for range tries {
		s, err := readOnce(ctx, path)
		if !errors.Is(err, fail.Changing) {
			return s, err
		}
		select {
		case <-ctx.Done():
			return nil, fail.Wrapf(ctx.Err(), "peek")
		case <-time.After(wait):
		}
	}
	return nil, fmt.Errorf("%w: %s", fail.Changing, path)
}

func readOnce(ctx context.Context, path string) (*State, error) {
	// Open the file each time: a compaction may have replaced it.
	f, err := os.Open(path)
	if err != nil {
		return nil, fail.Wrapf(err, "peek")
	}
	defer f.Close()
	metas := state.ReadMetas(f)
	m, err := metas.Latest()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, err := read(ctx, f, m)
	metas = state.ReadMetas(f)
	now, metaErr := metas.Latest()
	switch {
	case ctx.Err() != nil:
		return nil, fail.Wrapf(ctx.Err(), "peek")
	case metaErr != nil || now.TxID != m.TxID:
		return nil, fail.Changing
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// read reads the size, the catalog, the manifests and the sets of relabelled rows of a state.
func read(ctx context.Context, f *os.File, m page.Meta) (*State, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fail.Wrapf(err, "peek")
	}
	w, err := page.NewVerifier(ctx, f, info.Size(), m)
	if err != nil {
		return nil, state.Translate(err)
	}
	s := &State{
		FileBytes: info.Size(), PageSize: int(m.PageSize), Generation: m.TxID, blocks: map[string][]byte{},
	}
	w.Pair = func(_, key, value []byte, _ int64) { s.blocks[string(key)] = value }
	found := false
	w.Buckets(func(b page.Bucket) {
		switch string(b.Name) {
		case string(layout.BucketMeta): // comes before the sets
			found = true
			w.Walk(b, page.Values)
		case string(layout.BucketSets):
			if cat, err := s.catalog(); err == nil && anyRelabelled(cat) {
				w.Walk(b, page.Values)
			}
		}
	})
	s.FreeBytes = int64(w.Freelist()) * int64(m.PageSize)
	if w.First != nil {
		return nil, state.Translate(w.First)
	}
	if !found {
		return nil, fmt.Errorf("%w: no bucket %q", fail.ErrNotDatabase, layout.BucketMeta)
	}
	s.Catalog, err = s.catalog()
	return s, err
}

// catalog decodes the catalog among the blocks read.
func (s *State) catalog() (*layout.Catalog, error) {
	key := layout.CatalogKey[:]
	data, err := layout.DecodeBlock("", key, s.blocks[string(key)], true)
	if err != nil {
		return nil, fail.Wrapf(err, "catalog")
	}
	return layout.DecodeCatalog(data)
}

// Manifest returns the manifest of an index. kinds returns the kind of index with a name, nil if
// there is none.
func (s *State) Manifest(
	c *layout.Collection, r *layout.IndexRef, kinds func(name string) kind.Kind,
) (*kind.Manifest, error) {
	return layout.ReadManifest(c, r, func(key []byte) []byte { return s.blocks[string(key)] }, kinds)
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

// Stale returns the number of live rows below n whose labels were changed since an index with this
// main object was made, as state.Collection.Stale does.
func (s *State) Stale(c *layout.Collection, object uint64, n int) (int, error) {
	set := func(object uint64, section codec.Kind, chunk uint32) (*roaring.Bitmap, error) {
		key := codec.Key(object, section, chunk)
		value, ok := s.blocks[string(key[:])]
		if !ok {
			return roaring.New(), nil
		}
		return layout.DecodeSet(c.Name, key[:], value)
	}
	stale := 0
	for chunk := range uint32((n + 0xffff) >> 16) {
		rows, err := set(object, codec.KindRelabelled, chunk)
		if err != nil {
			return 0, err
		}
		deletedRows, err := set(c.ID, codec.KindTombstones, chunk)
		if err != nil {
			return 0, err
		}
		rows.AndNot(deletedRows)
		rows.RemoveRange(uint64(max(0, n-int(chunk)<<16)), 1<<32)
		stale += int(rows.GetCardinality())
	}
	return stale, nil
}
