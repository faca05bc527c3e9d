package background

import (
	"time"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
)

// Options are a policy without zero fields, and what db adds to it.
type Options struct {
	maintenance.Policy
	// Auto returns the options of the index that a collection without one of features, or of vectors, gets.
	Auto   func(features bool) index.Options
	Limits Limits
}

// Limits are the bounds that a user does not choose.
type Limits struct {
	// Coordinates and Rows are those of the smallest dense collection that gets an index, SparseRows
	// the number of rows of the smallest sparse one.
	Coordinates      uint64
	Rows, SparseRows uint32
	// Free is the least number of bytes in free pages for which a file is compacted.
	Free int64
	// Deleted is the least number of deleted rows of a collection for which a file is compacted.
	Deleted uint32
	// Retry is the time after which a cancelled build or compaction is tried again, in multiples of
	// the time that it took.
	Retry int
	// Fresh is the number of fresh rows that become a segment even if they are a smaller share, Rest the
	// time without writes after which an index gets one segment.
	Fresh int
	Rest  time.Duration
}

// DefaultLimits are the limits outside of tests. An exact scan of 4 million coordinates, which are
// 16 MB of float32 values, takes 0.5 to 2 ms, and one of 2,000 sparse rows 0.6 to 2.5 ms.
var DefaultLimits = Limits{
	Coordinates: 4e6, Rows: 1000, SparseRows: 2000, Free: 16 << 20, Deleted: 256, Retry: 9,
	Fresh: 1024, Rest: time.Minute,
}
