// Package maintenance has the policy of maintenance in the background, and the description of what
// maintenance does.
package maintenance

import (
	"cmp"
	"fmt"
	"time"

	"github.com/anndb/anndb/db/internal/fail"
)

// Policy is the policy of maintenance in the background: it maintains indexes as db.DB.Maintain
// does, builds one where a collection has none, and compacts the file. Zero fields have defaults. A
// build or compaction ends without a trace if a call would have to wait for it.
type Policy struct {
	Manual bool          // leave all maintenance to calls
	Every  time.Duration // the interval between looks for work, 10 s
	// Share is the least share of changed rows at which an index is maintained, 0.01; 1,024 fresh rows
	// suffice.
	Share float64
	// CPU bounds the work to that share of one processor, 0.5, at most 1. Builds, and steps that
	// retrain trees, are then single-threaded.
	CPU float64
	// NoBuild leaves a collection without an index that finds rows as it is. Otherwise it gets one,
	// named "auto", once an exact scan takes about a millisecond (4 million coordinates and 1,000 rows,
	// or 2,000 sparse rows) and fewer than a tenth of the rows are written within Every. Searches that
	// name no index then use it, no longer exactly.
	NoBuild bool
	// Memory bounds the memory of such a build, 2 GiB, by an estimate: a dense row takes about 16
	// bytes per coordinate and 2,000 bytes, a feature of a sparse row 40 bytes. Collections get no
	// index that takes more, or more than half of the room on the disk.
	Memory int64
	// Space is the share of the file in free pages above which the file is compacted, if they take 16 MiB,
	// and the share of deleted rows and former versions of a collection above which it is compacted
	// without them, if they are 256: 0.5, 1 for never. The latter gives the live rows new numbers and
	// rebuilds the indexes, as db.DB.Compact does; filters made by RowFilter are then a *filter.Error. It
	// needs room on the disk for two copies without the free pages. There is none on Windows.
	Space float64
}

// Resolve returns the policy with the defaults in place of zero fields. Errors: db.ErrInvalid.
func (m Policy) Resolve() (Policy, error) {
	m.Every, m.Memory = cmp.Or(m.Every, 10*time.Second), cmp.Or(m.Memory, 2<<30)
	m.Share, m.CPU, m.Space = cmp.Or(m.Share, 0.01), cmp.Or(m.CPU, 0.5), cmp.Or(m.Space, 0.5)
	if m.Memory < 0 || !(m.Space > 0 && m.Space <= 1) {
		return m, fmt.Errorf("%w: maintenance builds in %d bytes of memory, compacts above a share of %g "+
			"in free pages", fail.Option, m.Memory, m.Space)
	}
	if m.Every < 0 || !(m.Share > 0) || !(m.CPU > 0 && m.CPU <= 1) {
		return m, fmt.Errorf("%w: maintenance every %v, by share %g, on %g of a processor",
			fail.Option, m.Every, m.Share, m.CPU)
	}
	return m, nil
}

// Step is one unit of work: of maintenance, or a build or compaction in the background.
type Step struct {
	Collection string `json:"collection"` // empty for a compaction
	Index      string `json:"index"`      // empty for a compaction, and where rows expire
	// Action is what the step did: make a "segment" of fresh rows, "merge" them with a small one,
	// "measure" the recall of a forest for users, "relearn" the index, "expire" rows; in the background
	// also "build" and "compact".
	Action  string  `json:"action"`
	Rows    int     `json:"rows"` // the number of rows that the step read
	Seconds float64 `json:"seconds"`
}

// Stats describes the maintenance since the database was opened: whether it is done in the
// background, whether that is paused, and whether a step is running.
type Stats struct {
	Background bool   `json:"background"`
	Paused     bool   `json:"paused"`
	Working    bool   `json:"working"`
	Steps      uint64 `json:"steps"`           // completed, without builds and compactions by the program
	Last       Step   `json:"last"`            // the latest one of the background
	Error      string `json:"error,omitempty"` // why that failed; empty if it did not
}
