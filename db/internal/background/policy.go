package background

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/expire"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
	"github.com/anndb/anndb/db/maintenance"
)

// The memory of a build: for each dense row, for each coordinate of it, and for each byte of
// stored sparse rows. These are upper bounds of what was measured. The index takes less than a
// quarter of it.
const (
	buildRowBytes        = 2000
	buildCoordinateBytes = 16
	buildSparseBytes     = 5
)

// policy decides what background maintenance does next. Only one goroutine uses it.
type policy struct {
	// written has the state of each collection at the last look, and when it was first seen.
	written map[uint64]written
	// failed holds the builds that failed, by collection.
	failed map[uint64]failedBuild
	// floor is the number of free bytes below which the file is not compacted again, unfit the
	// error of the last compaction.
	floor int64
	unfit error
	// kept holds the numbers of deleted rows that the last compaction could not drop, by collection.
	kept map[uint64]uint32
	// pause is when the next build or compaction may begin.
	pause time.Time
}

// written is what changes with every write to a collection.
type written struct {
	rows, live uint32
	revision   uint64
	since      time.Time
	calm       bool // at most a tenth of the rows are new since the look before
}

// failedBuild is a build that failed when the collection had so many row numbers.
type failedBuild struct {
	rows uint32
	err  error
}

// Look finds the collections that grow slowly, and those that are not written. While rows are
// imported, an index would be outdated as soon as it is built.
func (m *Maintainer) Look() {
	p, now := &m.policy, time.Now()
	states := map[uint64]written{}
	err := m.txn.View(func(g *state.Generation) error {
		for _, c := range g.Catalog.Collections {
			x := written{rows: c.Rows, live: c.Live, revision: c.Revision, since: now}
			if was, ok := p.written[c.ID]; ok {
				x.calm = c.Rows-was.rows <= c.Rows/10
				if was.rows == x.rows && was.live == x.live && was.revision == x.revision {
					x.since = was.since
				}
			}
			states[c.ID] = x
		}
		return nil
	})
	if err == nil {
		p.written = states
	}
}

// resting reports whether a collection was not written for the time that is set for this.
func (m *Maintainer) resting(coll uint64) bool {
	x, ok := m.policy.written[coll]
	return ok && time.Since(x.since) >= m.opts.Limits.Rest
}

// next makes one step, if one is due: expired rows are deleted, then indexes maintained, then one is
// built, and the file is compacted last.
func (m *Maintainer) next(ctx context.Context) (*maintenance.Step, error) {
	if step, err := expire.Step(ctx, m.txn); step != nil || err != nil {
		if step != nil {
			m.made.Add(1)
		}
		return step, err
	}
	steps, err := m.indexes.Maintain(ctx, segment.Effort{
		Share: m.opts.Share, Fresh: m.opts.Limits.Fresh, Resting: m.resting, Once: true,
	})
	if len(steps) > 0 {
		return &steps[0], err
	}
	if ctx.Err() != nil || time.Now().Before(m.policy.pause) {
		return nil, err
	}
	var step *maintenance.Step
	start := time.Now()
	space, failed := m.compactor.Space()
	if failed = errors.Join(failed, m.txn.Writable(ctx)); failed != nil {
		return nil, errors.Join(err, failed)
	}
	for _, try := range []func(context.Context, compact.Space) (*maintenance.Step, error){m.build, m.compact} {
		step, failed = try(ctx, space)
		err = errors.Join(err, failed)
		if step != nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case step != nil:
		m.made.Add(1)
		step.Seconds = time.Since(start).Seconds()
	case ctx.Err() != nil:
		m.policy.pause = time.Now().Add(time.Duration(m.opts.Limits.Retry) * time.Since(start))
	}
	return step, err
}

// build builds an index for a collection that lacks one.
func (m *Maintainer) build(ctx context.Context, space compact.Space) (*maintenance.Step, error) {
	if m.opts.NoBuild {
		return nil, nil
	}
	c, features, failed := m.toBuild(m.compactor.Room(space) + space.Free)
	if c == nil || !m.beginLarge(c.Name) {
		return nil, failed
	}
	ctx, release, ok := m.txn.TryHold(ctx, 1)
	if !ok {
		return nil, failed
	}
	built, err := m.buildAuto(ctx, c, features)
	switch cancelled := ctx.Err() != nil; {
	case err == nil, cancelled, errors.Is(err, segment.ErrOvertaken), errors.Is(err, fail.NoCollection):
	default:
		failure := fail.Wrapf(err, "build an index of %q", c.Name)
		m.policy.failed[c.ID] = failedBuild{c.Rows, failure}
		failed = errors.Join(failed, failure)
	}
	release(&err)
	if err != nil {
		return nil, failed
	}
	m.compactor.Log.Info("db: maintenance has built an index", "path", m.compactor.Path, "collection", c.Name,
		"index", built.Info.Name, "rows", built.Info.Rows)
	step := &maintenance.Step{Collection: c.Name, Index: built.Info.Name, Action: "build", Rows: built.Info.Rows}
	return step, failed
}

// buildAuto builds the index of features, or of vectors, of a collection that lacks one.
func (m *Maintainer) buildAuto(
	ctx context.Context, c *layout.Collection, features bool,
) (*kind.Manifest, error) {
	return m.indexes.Build(ctx, segment.Request{
		Collection: c.Name, Name: c.AutoName(features), Options: m.opts.Auto(features), Auto: true,
	})
}

// toBuild returns a collection to build an index of with so many bytes of room in the file, and whether of
// its features, or nil if there is none, and the errors of builds that failed. Such a build is repeated
// when the collection has grown by a fifth.
func (m *Maintainer) toBuild(room int64) (found *layout.Collection, features bool, failed error) {
	p := &m.policy
	err := m.txn.View(func(g *state.Generation) error {
		for _, c := range g.Catalog.Collections {
			features = !segment.Lacking(c, false) || !m.opts.Limits.pays(c, false)
			if !p.written[c.ID].calm || !segment.Lacking(c, features) || !m.opts.Limits.pays(c, features) {
				continue
			}
			if f, ok := p.failed[c.ID]; ok && float64(c.Rows) < (1+kind.Drift)*float64(f.rows) {
				failed = errors.Join(failed, f.err)
				continue
			}
			memory, err := buildMemory(g.Collections[c.Name], features)
			failed = errors.Join(failed, err)
			if err == nil && memory <= m.opts.Memory && memory/4 <= room/2 {
				found = c
				return nil
			}
		}
		return nil
	})
	return found, features, errors.Join(failed, err)
}

// pays reports whether exact scans of features, or of vectors, are slow enough for an index.
func (l *Limits) pays(c *layout.Collection, features bool) bool {
	if features {
		return c.Live >= l.SparseRows
	}
	return c.Live >= l.Rows && uint64(c.Live)*uint64(c.Dim) >= l.Coordinates
}

// buildMemory estimates the memory of a build.
func buildMemory(st *state.Collection, features bool) (n int64, err error) {
	if !features {
		return int64(st.Entry.Rows) * int64(buildRowBytes+buildCoordinateBytes*st.Entry.Dim), nil
	}
	if err := st.Gen.File.VerifyPages(layout.PartBlocks | layout.PartTail); err != nil {
		return 0, err
	}
	count := func(_, value []byte) error {
		n += buildSparseBytes * int64(len(value))
		return nil
	}
	st.Gen.Locked(func() {
		err = errors.Join(
			layout.EachBlock(st.Gen.Tx.Bucket(layout.BucketBlocks), st.Entry.ID, codec.KindSparse, count),
			layout.EachBlock(st.Gen.Tx.Bucket(layout.BucketTail), st.Entry.ID, codec.KindTail, count),
		)
	})
	return n, err
}

// droppable returns the numbers of deleted rows of the collections that have too many, by collection.
func (m *Maintainer) droppable() (found map[uint64]uint32, err error) {
	found = map[uint64]uint32{}
	err = m.txn.View(func(g *state.Generation) error {
		for _, c := range g.Catalog.Collections {
			deleted, kept := c.Rows-c.Live, m.policy.kept[c.ID]
			indexOfNothing := c.Live == 0 && len(c.Indexes) > 0 // it could not be rebuilt
			if deleted >= m.opts.Limits.Deleted && float64(deleted) > m.opts.Space*float64(c.Rows) &&
				deleted > kept+kept/4 && !indexOfNothing {
				found[c.ID] = deleted
			}
		}
		return nil
	})
	return found, err
}

// compact compacts the file if too much of it is free, or if too many rows of a collection are deleted.
func (m *Maintainer) compact(ctx context.Context, space compact.Space) (*maintenance.Step, error) {
	p := &m.policy
	if runtime.GOOS == "windows" { // it cannot replace an open file
		return nil, nil
	}
	drop, err := m.droppable()
	numbers := compact.DropDeleted
	if len(drop) == 0 || err != nil {
		numbers = compact.KeepNumbers
		if err != nil || float64(space.Free) <= m.opts.Space*float64(space.File) {
			return nil, err
		}
		if space.Free < p.floor {
			return nil, p.unfit
		}
	}
	if m.compactor.Disk() < 2*(space.File-space.Free) || !m.beginLarge("") {
		return nil, nil
	}
	ctx, release, ok := m.txn.TryHold(ctx, txn.AllShares)
	if !ok {
		return nil, nil
	}
	sizes, err := m.compactor.Run(ctx, numbers)
	cancelled := ctx.Err() != nil
	release(&err)
	if err != nil && cancelled {
		return nil, err
	}
	// A compaction that fails, or leaves free pages or deleted rows, is not repeated before there are more.
	after, failed := m.compactor.Space()
	p.floor, p.unfit = after.Free+after.Free/4+m.opts.Limits.Free, err
	p.kept = nil
	left, unread := m.droppable()
	p.kept = left
	if err = errors.Join(err, failed, unread); err != nil {
		return nil, err
	}
	m.compactor.Log.Info("db: maintenance has compacted the file", "path", m.compactor.Path,
		"before", sizes.Before, "after", sizes.After)
	return &maintenance.Step{Action: "compact"}, nil
}
