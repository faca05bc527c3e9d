package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/page"
)

// peekTries is the number of times that Peek starts over when commits overtake it, and peekWait
// the pause in between: a commit takes two writes to the disk.
const (
	peekTries = 50
	peekWait  = time.Millisecond
)

// Peek describes the latest committed state of a file that another process, or this one, may
// have open for writing: its size, collections and indexes. Fields that only an open database
// knows are zero: snapshots, commits, relabelled rows, running maintenance. It takes no lock and maps nothing,
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
		if !errors.Is(err, errChanging) {
			return st, err
		}
		select {
		case <-ctx.Done():
			return Stats{}, wrapf(ctx.Err(), "peek")
		case <-time.After(peekWait):
		}
	}
	return Stats{}, fmt.Errorf("%w: %s", errChanging, path)
}

func peek(ctx context.Context, path string) (Stats, error) {
	// Open the file each time: a compaction may have replaced it.
	f, err := os.Open(path)
	if err != nil {
		return Stats{}, wrapf(err, "peek")
	}
	defer f.Close()
	metas := readMetas(f)
	m, err := metas.Latest()
	if err != nil {
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st, err := describe(ctx, f, m)
	metas = readMetas(f)
	now, metaErr := metas.Latest()
	switch {
	case ctx.Err() != nil:
		return Stats{}, wrapf(ctx.Err(), "peek")
	case metaErr != nil || now.TxID != m.TxID:
		return Stats{}, errChanging
	case err != nil:
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st.Path = path
	return st, nil
}

// readMetas reads both meta pages. Their errors are errors of this package.
func readMetas(r io.ReaderAt) page.Metas {
	m := page.ReadMetas(r)
	for i, err := range m.Err {
		m.Err[i] = translate(err)
	}
	return m
}

// describe reads the size, the collections and the indexes of a state.
func describe(ctx context.Context, f *os.File, m page.Meta) (st Stats, err error) {
	info, err := f.Stat()
	if err != nil {
		return st, wrapf(err, "peek")
	}
	w, err := page.NewVerifier(ctx, f, info.Size(), m)
	if err != nil {
		return st, translate(err)
	}
	blocks := map[string][]byte{}
	w.Pair = func(_, key, value []byte, _ int64) { blocks[string(key)] = value }
	found := false
	w.Buckets(func(b page.Bucket) {
		if string(b.Name) == string(bucketMeta) {
			found = true
			w.Walk(b, page.Values)
		}
	})
	free := w.Freelist()
	if w.First != nil {
		return st, translate(w.First)
	}
	if !found {
		return st, fmt.Errorf("%w: no bucket %q", ErrNotDatabase, bucketMeta)
	}
	data, err := decodeBlock("", catalogKey[:], blocks[string(catalogKey[:])], true)
	if err != nil {
		return st, wrapf(err, "catalog")
	}
	cat, err := decodeCatalog(data)
	if err != nil {
		return st, err
	}
	st = Stats{
		FileBytes: info.Size(), FreeBytes: int64(free) * int64(m.PageSize),
		PageSize: int(m.PageSize), Generation: m.TxID,
	}
	st.LiveBytes = max(0, st.FileBytes-st.FreeBytes)
	for _, c := range cat.Collections {
		st.Collections = append(st.Collections, c.info())
		for i := range c.Indexes {
			r := &c.Indexes[i]
			key := codec.Key(r.Object, codec.KindManifest, 0)
			var man *manifest
			data, err := decodeBlock(c.Name, key[:], blocks[string(key[:])], true)
			if err == nil {
				man, err = decodeManifest(data)
			}
			st.Indexes = append(st.Indexes, c.status(r, man, err))
		}
	}
	return st, nil
}

// status returns the status of an index from its manifest, or from the error if the manifest
// cannot be read.
func (c *collection) status(r *indexRef, m *manifest, err error) IndexStatus {
	st := IndexStatus{Collection: c.Name, Index: r.Name, Segments: 1}
	if err != nil {
		st.Error = err.Error()
		return st
	}
	st.Rows, st.Fresh = m.Info.Rows, int(c.Rows)-m.Info.Rows
	st.Segments, st.Bytes = m.own.segments(), m.Info.TotalBytes()
	return st
}
