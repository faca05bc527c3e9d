package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/anndb/anndb/codec"
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
// Errors: fs.ErrNotExist, ErrNotDatabase, ErrNewerFormat, ErrTruncated,
// ErrCorrupt, ErrChanging; the context's.
func Peek(ctx context.Context, path string) (Stats, error) {
	for range peekTries {
		st, err := peek(ctx, path)
		if !errors.Is(err, ErrChanging) {
			return st, err
		}
		select {
		case <-ctx.Done():
			return Stats{}, wrapf(ctx.Err(), "peek")
		case <-time.After(peekWait):
		}
	}
	return Stats{}, fmt.Errorf("%w: %s", ErrChanging, path)
}

func peek(ctx context.Context, path string) (Stats, error) {
	// Open the file each time: a compaction may have replaced it.
	f, err := os.Open(path)
	if err != nil {
		return Stats{}, wrapf(err, "peek")
	}
	defer f.Close()
	m, err := latestMeta(f)
	if err != nil {
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st, err := describe(ctx, f, m)
	now, metaErr := latestMeta(f)
	switch {
	case ctx.Err() != nil:
		return Stats{}, wrapf(ctx.Err(), "peek")
	case metaErr != nil || now.txid != m.txid:
		return Stats{}, ErrChanging
	case err != nil:
		return Stats{}, fmt.Errorf("%s: %w", path, err)
	}
	st.Path = path
	return st, nil
}

// latestMeta returns the meta page of the latest state. The other one may be half written.
func latestMeta(f *os.File) (metaPage, error) {
	metas, errs := readMetas(f)
	switch {
	case errs[0] != nil && errs[1] != nil:
		return metaPage{}, errs[0]
	case errs[0] != nil || errs[1] == nil && metas[1].txid > metas[0].txid:
		return metas[1], nil
	}
	return metas[0], nil
}

// look returns a walker over a state. first receives the first damage that the walker reports.
// A file that is too short for the state is an error.
func look(ctx context.Context, f *os.File, m metaPage) (w *walker, first *error, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, wrapf(err, "peek")
	}
	if int64(m.high)*int64(m.pageSize) > info.Size() {
		return nil, nil, fmt.Errorf("%w: file has %d bytes, %d pages need more", ErrTruncated, info.Size(), m.high)
	}
	first = new(error)
	w = &walker{
		ctx: ctx, r: f, size: m.pageSize, high: m.high, file: info.Size(), owner: make([]uint8, m.high),
		report: func(page uint64, err error) {
			if *first == nil {
				*first = &CorruptError{Offset: int64(page) * int64(m.pageSize), Err: err}
			}
		},
	}
	return w, first, nil
}

// freePages counts the free pages of the latest state of a file that is not being written to.
func freePages(f *os.File) (int, error) {
	m, err := latestMeta(f)
	if err != nil {
		return 0, err
	}
	w, first, err := look(context.Background(), f, m)
	if err != nil {
		return 0, err
	}
	n := w.freelist(m.freelist)
	return n, *first
}

// describe reads the size, the collections and the indexes of a state.
func describe(ctx context.Context, f *os.File, m metaPage) (st Stats, err error) {
	w, first, err := look(ctx, f, m)
	if err != nil {
		return st, err
	}
	blocks := map[string][]byte{}
	w.pair = func(_, key, value []byte, _ int64) { blocks[string(key)] = value }
	found := false
	w.walk(m.root, nil, nil, nil, 0, func(name []byte, root uint64, inline []byte, at int64) {
		switch {
		case string(name) != string(bucketMeta):
		case root == 0:
			found = true
			w.inline(name, inline, at)
		default:
			found = true
			w.walk(root, bucketMeta, nil, nil, 0, nil)
		}
	})
	free := w.freelist(m.freelist)
	if *first != nil {
		return st, *first
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
		FileBytes: w.file, FreeBytes: int64(free) * int64(m.pageSize),
		PageSize: int(m.pageSize), Generation: m.txid,
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
