package db

import (
	"context"

	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/peek"
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
	seen, err := peek.Read(ctx, path)
	if err != nil {
		return Stats{}, err
	}
	st := Stats{
		Path: path, FileBytes: seen.FileBytes, FreeBytes: seen.FreeBytes, PageSize: seen.PageSize,
		Generation: seen.Generation, LiveBytes: max(0, seen.FileBytes-seen.FreeBytes),
	}
	for _, c := range seen.Catalog.Collections {
		st.Collections = append(st.Collections, infoOf(c))
		for i := range c.Indexes {
			r := &c.Indexes[i]
			m, err := seen.Manifest(c, r, kindOf)
			status := indexStatus(c, r, m, err)
			if err == nil {
				if status.Relabelled, err = seen.Stale(c, r.Object, status.Rows); err != nil {
					status.Error = err.Error()
				}
			}
			st.Indexes = append(st.Indexes, status)
		}
	}
	return st, nil
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
