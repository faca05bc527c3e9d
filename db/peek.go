package db

import (
	"context"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/peek"
)

// Peek describes the latest committed state of a file that another process, or this one, may have
// open for writing. It takes no lock, maps nothing, and validates everything that it reads. Fields
// that only an open database knows are zero. Errors: fs.ErrNotExist, ErrNotDatabase, ErrLocked.
func Peek(ctx context.Context, path string) (Stats, error) {
	if err := fail.Context(ctx); err != nil {
		return Stats{}, err
	}
	seen, err := peek.Read(ctx, path)
	if err != nil {
		return Stats{}, err
	}
	st := Stats{
		FileBytes: seen.FileBytes, FreeBytes: seen.FreeBytes, PageSize: seen.PageSize,
		Generation: seen.Generation, LiveBytes: max(0, seen.FileBytes-seen.FreeBytes),
	}
	for _, c := range seen.Catalog.Collections {
		st.Collections = append(st.Collections, infoOf(c))
		for i := range c.Indexes {
			r := &c.Indexes[i]
			var info index.Info
			m, err := seen.Manifest(c, r, kindOf)
			if err == nil {
				info, err = indexInfo(c, m, func(rows int) (int, error) { return seen.Stale(c, r.Object, rows) })
			}
			st.Indexes = append(st.Indexes, withError(info, c, r, err))
		}
	}
	return st, nil
}
