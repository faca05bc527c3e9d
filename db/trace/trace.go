// Package trace describes an open database and its work to a program that measures them: a Span for each
// call or step (db.Options.Trace), the Totals and the File of db.Stats, and the work of each search and
// prediction.
package trace

import (
	"context"
	"time"

	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/query"
	"github.com/anndb/anndb/query/lcif"
)

// Names of spans. The others are the actions of maintenance.Step, such as "segment" and "expire".
const (
	Search  = "search"  // a call of Search or SearchBatch
	Predict = "predict" // a call of Predict or PredictBatch
	// Commit is a transaction of rows, from the end of its function until it is durable. One that runs
	// again because another was faster has a span for each run.
	Commit   = "commit"
	Build    = "build"    // an index, by the program or by maintenance
	Compact  = "compact"  // the file, by the program or by maintenance
	Maintain = "maintain" // a step of maintenance that failed before it was known which one
)

// Span describes a call or step that has ended.
type Span struct {
	Name     string
	Start    time.Time
	Duration time.Duration
	// Collection and Index are empty where there are none, or several; Index also where a search failed
	// before it had chosen one.
	Collection, Index string
	// Queries is the number of queries of a search or prediction, Results that of their hits or labels.
	Queries, Results int
	// Rows are those that a search compared exactly, a commit changed, or a step of maintenance read.
	Rows  int
	Bytes int64 // the size of the changes of a commit, or of the file after a compaction
	Err   error // nil if it succeeded
}

// Func gets spans. The context is that of the call, in the background one of maintenance. It is
// called from many goroutines at once, must return soon, and must not call the database.
type Func func(ctx context.Context, s Span)

// Totals counts what was done since the database was opened.
type Totals struct {
	Searches     uint64 `json:"searches"` // queries, also those that failed
	Predictions  uint64 `json:"predictions"`
	Commits      uint64 `json:"commits"`       // to the file, each of one or more transactions
	RowsWritten  uint64 `json:"rows_written"`  // rows put, changed or deleted
	BytesWritten uint64 `json:"bytes_written"` // the size of these changes
}

// File describes the file of a database and what holds it.
type File struct {
	FileBytes      int64         `json:"file_bytes"`
	FreeBytes      int64         `json:"free_bytes"`  // in free pages
	LiveBytes      int64         `json:"live_bytes"`  // in other pages
	PageSize       int64         `json:"page_size"`   // bytes
	MapReserve     int64         `json:"map_reserve"` // the address space reserved for the map
	Generation     uint64        `json:"generation"`  // the latest transaction
	Snapshots      int           `json:"snapshots"`   // held
	OldestSnapshot time.Duration `json:"oldest_snapshot_ns"`
}

// SearchStats describes the work of one search.
type SearchStats struct {
	query.Stats
	Postings postings.Stats // the work of an inverted index
	Unknown  []string       // the features of a query that no row has ever had: names, or numbers as in files
}

// PredictStats counts the work of one prediction.
type PredictStats struct {
	lcif.Stats
	Decisions int      // taken in all trees of the model
	Unknown   []string // the features of a query that no row has ever had: names, or numbers as in files
}
