package db

import (
	"context"
	"fmt"

	"github.com/anndb/anndb/db/internal/expire"
	"github.com/anndb/anndb/db/internal/fail"
)

// MaintainOptions selects how DB.Maintain works. The zero value absorbs every change.
type MaintainOptions struct {
	// Share is the least share of changed rows: an index is left as it is while the rows
	// written or deleted since, and for indexes that learn from labels the rows relabelled, are
	// fewer than this share of the rows it covers. Zero means that any change is absorbed.
	Share float64
}

// MaintainStep describes a step of maintenance: one transaction that brought an index up to
// date, or closer to it, or a build or compaction in the background.
type MaintainStep struct {
	// Collection and Index are empty for a compaction.
	Collection, Index string
	// Action is what the step did: "segment" (fresh rows became a segment of an inverted index
	// or label model), "merge" (the same, merged with other segments), "rewrite" (a segment was
	// rewritten without its deleted rows), "forget" (deleted rows no longer count in a label
	// model), "relabel" (rows count with their new labels in a label model), "insert" (fresh
	// rows were inserted into a forest), "measure" (the recall of a forest was measured and holds),
	// "tune" (it had fallen, and settings were tuned again), "count" (budgeted trees updated their
	// counts and kept their decisions), "subtree" (parts of budgeted trees were relearned as well),
	// "relearn" (the index was rebuilt), "expire" (rows that have expired were deleted); in the
	// background also "build" (the collection got an index) and "compact" (the file was compacted).
	Action string
	// Rows is the number of rows that the step read.
	Rows int
	// Seconds is the wall time.
	Seconds float64
}

// Maintain deletes expired rows (Row.ExpiresAt), and updates all indexes so that they cover the rows written since they were made, no
// longer count deleted rows, and have learned changed labels. It works in steps of one
// transaction each, until nothing is left to do, and returns the list of steps. Reads and writes
// are possible at any time; if it is cancelled or the process crashes, completed steps are kept.
// Only one call runs at a time; others wait. Maintain neither builds an index where there is none
// nor compacts the file, as maintenance in the background does (Maintenance).
//
// Inverted indexes (Postings) and label models by LCIF absorb fresh rows as segments,
// at a cost in proportion to the change, and answer exactly as if rebuilt: a model's
// feature–label similarities and priors are bit for bit those of the present rows. Its
// parameters stay, including thresholds, weights and the selection of features; a model with
// weights or a selection of features is relearned when a fifth of its rows has changed.
//
// Budgeted trees (SBT, PT, AT) keep the decision of a node while at most a fifth of
// its rows were written, deleted or relabelled since the decision was learned (a relabelled row
// counts twice). The other nodes, highest first, are relearned with all nodes below them from
// their present rows, with the parameters and the seed of the build; above a fifth at a root, all
// trees are retrained. Counts and leaves are always those of the present rows, and new labels can
// be answered at once (see budget.Follow). A step reads all rows. The weights of features stay
// until the trees are retrained, and features that are new since then have none; without weights,
// relearned nodes use new features.
//
// Fresh rows are inserted into forests, as training points and as labels, at a cost in
// proportion to their number. A forest is retrained and tuned when a fifth of its rows has
// changed. Before, each time that a twentieth has, the recall of searches is measured on held-out
// rows (IndexInfo.Curve): if it has fallen below what searches ask for, settings are tuned again, and
// if no setting reaches it any more, the forest is retrained. A forest that was built over too few
// rows for the tuner is rebuilt and tuned as soon as there are 10, whatever the value of Share.
// Forests of proportions (kind rf, or very large leaves) can only be retrained. Forests that were
// learned from training queries stay as they are until the next Build.
//
// An index that could not be built from the present rows, because the feature numbers have
// become too large for it (see ErrUnsuitable), stays as it is. That is no error:
// IndexStatus.Error has the reason.
//
// Errors: ErrInvalid.
func (d *DB) Maintain(ctx context.Context, o *MaintainOptions) (steps []MaintainStep, err error) {
	if o == nil {
		o = &MaintainOptions{}
	}
	if !(o.Share >= 0) {
		return nil, fmt.Errorf("%w: maintenance by share %g, want 0 or more", fail.Option, o.Share)
	}
	if err := d.txn.Writable(ctx); err != nil {
		return nil, err
	}
	for {
		step, err := expire.Step(ctx, d.txn)
		if err != nil {
			return steps, err
		}
		if step == nil {
			break
		}
		steps = append(steps, MaintainStep(*step))
	}
	made, err := d.indexes.Maintain(ctx, o.Share)
	for _, s := range made {
		steps = append(steps, MaintainStep(s))
	}
	return steps, err
}
