package db

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/indexing"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// Build learns an index over the rows of the latest state and publishes it under name,
// replacing an index of that name if there is one. An index that finds rows also replaces the
// one that maintenance has built (Maintenance.Build), unless a label model finds its neighbors
// with that. The type of o selects the kind of index; nil means Auto.
//
// Build reads rows into memory, learns without holding a snapshot or a transaction, writes blocks
// in several transactions, and publishes in one. Readers and writers run concurrently; Build and a
// Compact or Reorder wait for each other to end. Build must not be called from a callback of one
// of them. Queries scan rows written during the build until maintenance or the next build absorbs
// them.
//
// The cost is dominated by the neighbor lists: rows² · dim operations on all cores if they are
// exact, about rows · (1,000 codes + 200 rows compared) if they are approximate
// (Forest.Source). Memory: the rows as float32 and their principal coordinates, the neighbor
// lists, and the index; approximate lists take another 12 bytes per neighbor and one byte per
// coordinate.
//
// If it is cancelled or fails, the database is unchanged; a crash leaves blocks that the next
// Open removes.
//
// Errors: ErrNotFound, ErrInvalid, ErrUnsuitable.
func (c Collection) Build(
	ctx context.Context, name string, o IndexOptions,
) (_ IndexInfo, err error) {
	d, err := c.writer()
	if err != nil {
		return IndexInfo{}, err
	}
	if err := layout.CheckName(name); err != nil {
		return IndexInfo{}, err
	}
	if name == Flat {
		return IndexInfo{}, fmt.Errorf("%w: %q is the name of the exact scan", fail.Name, name)
	}
	if err := d.txn.Writable(ctx); err != nil {
		return IndexInfo{}, err
	}
	defer d.background.LeaveTo(c.name)()
	ctx, release, err := d.txn.Hold(ctx, 1)
	if err != nil {
		return IndexInfo{}, err
	}
	defer release(&err)
	if o == nil {
		o = &Auto{}
	}
	request, err := d.request(c.name, o)
	if err != nil {
		return IndexInfo{}, err
	}
	m, err := d.indexes.Build(ctx, indexing.Request{Collection: c.name, Name: name, Options: request})
	if m == nil {
		return IndexInfo{}, kind.AsParameter(err)
	}
	return publicInfo(c.name, m), kind.AsParameter(err)
}

// request returns the stored form of the options of a build, and refuses those that the collection
// cannot satisfy.
func (d *DB) request(coll string, given IndexOptions) (o kind.Options, err error) {
	err = d.txn.View(func(g *state.Generation) error {
		st, err := g.Collection(coll)
		if err != nil {
			return err
		}
		if o, err = given.request(st.Entry.Sparse); err != nil {
			return err
		}
		dim := st.Entry.Dim
		if st.Entry.Sparse {
			dim = 0
		}
		return o.Limits(coll, dim)
	})
	return o, err
}

// DropIndex removes an index. Snapshots taken before can still use it. Once an index that finds
// rows has been dropped, maintenance does not build one in this collection any more
// (Maintenance.Build).
//
// Errors: ErrNotFound.
func (c Collection) DropIndex(ctx context.Context, name string) error {
	d, err := c.writer()
	if err != nil {
		return err
	}
	return d.txn.Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		entry, err := cat.Find(c.name)
		if err != nil {
			return nil, err
		}
		r := entry.Index(name)
		if r == nil {
			return nil, layout.NoIndex(entry, name)
		}
		removed := r.Objects()
		entry.Unindexed = entry.Unindexed || !r.Labels
		entry.Indexes = slices.DeleteFunc(entry.Indexes, func(x layout.IndexRef) bool { return x.Name == name })
		return removed, nil
	})
}
