// Package rescue recovers the rows of damaged databases.
package rescue

import (
	"context"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/internal/salvage"
)

// LostRow is a row that Salvage could not read, or a range of rows of which neither a block nor a key
// was found.
type LostRow struct {
	Collection string
	Row        uint32 // the first one of the range
	Rows       int    // without the deleted rows in the range
	Key        []byte // nil if it is lost
	Err        error
}

// Report is the result of Salvage.
type Report struct {
	Rows, Lost int              // the rows written, and those that could not be read
	Indexes    []string         // the indexes rebuilt, as collection/index
	NotBuilt   map[string]error // the others
	// Revived lists the collections in which deleted rows may be present again, because the record
	// of their deletion is lost.
	Revived []string
	// Searched is the reason why the catalog could not be read; nil if it could. Rows were then
	// searched for in all pages, including free ones: some may be missing or of an earlier state.
	Searched error
}

// Options selects how Salvage works.
type Options struct {
	Lost      func(LostRow) // called for every row, or range of rows, that could not be read
	NoIndexes bool          // recover rows only
	db.Run
}

// Salvage writes every readable row of the damaged database at from, which must not be open for
// writing and is not changed, to a new database at to, and rebuilds its indexes with their stored
// settings. A damaged page or block loses only the rows in it. Cost: two or three passes over the
// file; in memory the offset of every block and the key of every row. Errors: db.ErrExists for a file
// at to, db.ErrCorrupt if there is no catalog, db.ErrNotDatabase, db.ErrLocked, those of db.Collection.Load.
func Salvage(ctx context.Context, from, to string, o *Options) (Report, error) {
	if o == nil {
		o = &Options{}
	}
	run := salvage.Options{NoIndexes: o.NoIndexes, Workers: o.Workers, Progress: o.Progress, Stop: o.Stop}
	if o.Lost != nil {
		run.Lost = func(l salvage.LostRow) { o.Lost(LostRow(l)) }
	}
	r, err := salvage.Salvage(ctx, from, to, run)
	return Report(r), err
}
