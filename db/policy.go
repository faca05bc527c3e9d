package db

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"time"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/indexing"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
)

// The smallest collections that get an index: an exact scan of 4 million coordinates, which are
// 16 MB of float32 values, takes 0.5 to 2 ms, and one of 2,000 sparse rows 0.6 to 2.5 ms.
// autoCoordinates is a variable so that tests need fewer.
var autoCoordinates = uint64(4e6)

const (
	autoRows       = 1000
	autoSparseRows = 2000
)

// The memory of a build: for each dense row, for each coordinate of it, and for each byte of
// stored sparse rows. These are upper bounds of what was measured. The index takes less than a
// quarter of it.
const (
	buildRowBytes        = 2000
	buildCoordinateBytes = 16
	buildSparseBytes     = 5
)

// leastFree is the least number of bytes in free pages for which a file is compacted.
const leastFree = 16 << 20

// policy decides what background maintenance does next. Only its goroutine uses it.
type policy struct {
	d *DB
	o Maintenance
	// rows holds the row numbers that were in use at the last look, by collection. The
	// collections in calm had grown by at most a tenth since the look before.
	rows map[uint64]uint32
	calm map[uint64]bool
	// failed holds the builds that failed, by collection.
	failed map[uint64]failedBuild
	// floor is the number of free bytes below which the file is not compacted again, unfit the
	// error of the last compaction.
	floor int64
	unfit error
	// pause is when the next build or compaction may begin.
	pause time.Time
}

// failedBuild is a build that failed when the collection had so many row numbers.
type failedBuild struct {
	rows uint32
	err  error
}

func newPolicy(d *DB, o Maintenance) *policy {
	return &policy{d: d, o: o, floor: leastFree, failed: map[uint64]failedBuild{}}
}

// look finds the collections that grow slowly. While rows are imported, an index would be
// outdated as soon as it is built.
func (p *policy) look() {
	rows, calm := map[uint64]uint32{}, map[uint64]bool{}
	err := p.d.View(func(s *Snapshot) error {
		for _, c := range s.gen.Catalog.Collections {
			was, ok := p.rows[c.ID]
			rows[c.ID], calm[c.ID] = c.Rows, ok && c.Rows-was <= c.Rows/10
		}
		return nil
	})
	if err == nil {
		p.rows, p.calm = rows, calm
	}
}

// step makes one step, if one is due: expired rows are deleted, then indexes maintained, then one is
// built, and the file is compacted last.
func (p *policy) step(ctx context.Context) (*MaintainStep, error) {
	if step, err := p.d.expire(ctx); step != nil || err != nil {
		return step, err
	}
	maintained, err := p.d.indexes.MaintainOnce(ctx, p.o.Share)
	step := (*MaintainStep)(maintained)
	if step != nil || ctx.Err() != nil || time.Now().Before(p.pause) {
		return step, err
	}
	start := time.Now()
	st, failed := p.d.Stats()
	if failed = errors.Join(failed, p.d.txn.Writable(ctx)); failed != nil {
		return nil, errors.Join(err, failed)
	}
	for _, try := range []func(context.Context, *Stats) (*MaintainStep, error){p.build, p.compact} {
		step, failed = try(ctx, &st)
		err = errors.Join(err, failed)
		if step != nil || ctx.Err() != nil {
			break
		}
	}
	switch {
	case step != nil:
		p.d.background.made.Add(1)
		step.Seconds = time.Since(start).Seconds()
	case ctx.Err() != nil:
		p.pause = time.Now().Add(9 * time.Since(start))
	}
	return step, err
}

// room returns the number of bytes that the file can still take, without its free pages.
func (p *policy) room(st *Stats) int64 {
	room := store.Room(filepath.Dir(p.d.file))
	if limit := p.d.opts.MaxSize; limit > 0 {
		room = min(room, limit-st.FileBytes)
	}
	return max(0, room)
}

// build builds an index for a collection that lacks one.
func (p *policy) build(ctx context.Context, st *Stats) (*MaintainStep, error) {
	if p.o.Build == Off {
		return nil, nil
	}
	c, failed := p.toBuild(p.room(st) + st.FreeBytes)
	if c == nil || !p.d.background.beginLarge(c.Name) {
		return nil, failed
	}
	ctx, release, ok := p.d.txn.TryHold(ctx, 1)
	if !ok {
		return nil, failed
	}
	built, err := p.d.buildAuto(ctx, c.Name)
	switch cancelled := ctx.Err() != nil; {
	case err == nil, cancelled, errors.Is(err, indexing.ErrOvertaken), errors.Is(err, fail.NoCollection):
	default:
		failure := fail.Wrapf(err, "build an index of %q", c.Name)
		p.failed[c.ID] = failedBuild{c.Rows, failure}
		failed = errors.Join(failed, failure)
	}
	release(&err)
	if err != nil {
		return nil, failed
	}
	p.d.log.Info("db: maintenance has built an index", "path", p.d.path, "collection", c.Name,
		"index", indexing.Auto, "rows", built.Info.Rows)
	return &MaintainStep{Collection: c.Name, Index: indexing.Auto, Action: "build", Rows: built.Info.Rows}, failed
}

// buildAuto builds the index that maintenance builds where there is none.
func (d *DB) buildAuto(ctx context.Context, coll string) (*kind.Manifest, error) {
	o, err := d.request(coll, &Auto{})
	if err != nil {
		return nil, err
	}
	return d.indexes.Build(ctx, indexing.Request{Collection: coll, Name: indexing.Auto, Options: o, Auto: true})
}

// toBuild returns a collection to build an index of with so many bytes of room in the file, or
// nil if there is none, and the errors of builds that failed. Such a build is repeated when the
// collection has grown by a fifth.
func (p *policy) toBuild(room int64) (found *layout.Collection, failed error) {
	err := p.d.View(func(s *Snapshot) (err error) {
		defer state.Guard(s.gen.File, state.CatchFaults(), &err)
		for _, c := range s.gen.Catalog.Collections {
			if !p.calm[c.ID] || !indexing.Lacking(c) || !paysIndex(c) {
				continue
			}
			if f, ok := p.failed[c.ID]; ok && float64(c.Rows) < (1+kind.Drift)*float64(f.rows) {
				failed = errors.Join(failed, f.err)
				continue
			}
			memory, err := buildMemory(s.gen.Collections[c.Name])
			failed = errors.Join(failed, err)
			if err == nil && memory <= p.o.Memory && memory/4 <= room/2 {
				found = c
				return nil
			}
		}
		return nil
	})
	return found, errors.Join(failed, err)
}

// paysIndex reports whether exact scans are slow enough for an index.
func paysIndex(c *layout.Collection) bool {
	if c.Sparse {
		return c.Live >= autoSparseRows
	}
	return c.Live >= autoRows && uint64(c.Live)*uint64(c.Dim) >= autoCoordinates
}

// buildMemory estimates the memory of a build.
func buildMemory(st *state.Collection) (n int64, err error) {
	if !st.Entry.Sparse {
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

// compact compacts the file if too much of it is free.
func (p *policy) compact(ctx context.Context, st *Stats) (*MaintainStep, error) {
	if runtime.GOOS == "windows" || float64(st.FreeBytes) <= p.o.Space*float64(st.FileBytes) {
		return nil, nil // Windows cannot replace an open file
	}
	if st.FreeBytes < p.floor {
		return nil, p.unfit
	}
	if store.Room(filepath.Dir(p.d.file)) < 2*st.LiveBytes || !p.d.background.beginLarge("") {
		return nil, nil
	}
	ctx, release, ok := p.d.txn.TryHold(ctx, txn.AllShares)
	if !ok {
		return nil, nil
	}
	sizes, err := p.d.compactor().Run(ctx, compact.KeepNumbers)
	cancelled := ctx.Err() != nil
	release(&err)
	if err != nil && cancelled {
		return nil, err
	}
	// A compaction that fails, or leaves free pages, is not repeated before there are more.
	after, failed := p.d.Stats()
	p.floor, p.unfit = after.FreeBytes+after.FreeBytes/4+leastFree, err
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	p.d.log.Info("db: maintenance has compacted the file", "path", p.d.path,
		"before", sizes.Before, "after", sizes.After)
	return &MaintainStep{Action: "compact"}, nil
}
