package db

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/db/trace"
)

// Create creates an empty collection and returns a handle of it. Errors: ErrExists.
func (d *DB) Create(ctx context.Context, name string, schema Schema) (Collection, error) {
	if err := layout.CheckName(name); err != nil {
		return Collection{}, err
	}
	s, err := schema.resolve()
	if err != nil {
		return Collection{}, err
	}
	s.Meta = maps.Clone(s.Meta)
	err = d.manager().Restructure(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		if _, err := cat.Find(name); err == nil {
			return nil, fmt.Errorf("%w: collection %q", ErrExists, name)
		}
		if s.Named {
			if _, err := tx.CreateBucketIfNotExists(layout.BucketFeatures); err != nil {
				return nil, fmt.Errorf("db: create dictionary: %w", err)
			}
		}
		cat.Object++
		c := &layout.Collection{ID: cat.Object, Name: name}
		s.describe(c)
		cat.Collections = append(cat.Collections, c)
		return nil, nil
	})
	if err != nil {
		return Collection{}, err
	}
	return d.Collection(name), nil
}

// Drop removes a collection with its rows and indexes, except for snapshots.
func (d *DB) Drop(ctx context.Context, name string) error {
	var id uint64
	err := d.manager().Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		c, err := cat.Find(name)
		if err != nil {
			return nil, err
		}
		id = c.ID
		removed := c.Objects()
		cat.Collections = slices.DeleteFunc(cat.Collections, func(x *layout.Collection) bool { return x == c })
		return removed, nil
	})
	if err == nil {
		d.txn.File().Samples.Forget(id)
	}
	return err
}

// Rename gives a collection another name, except for snapshots. Handles by the former name find it
// no more. Errors: ErrExists.
func (d *DB) Rename(ctx context.Context, name, to string) error {
	if err := layout.CheckName(to); err != nil {
		return err
	}
	return d.manager().Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		c, err := cat.Find(name)
		if err != nil {
			return nil, err
		}
		if other, err := cat.Find(to); err == nil && other != c {
			return nil, fmt.Errorf("%w: collection %q", ErrExists, to)
		}
		c.Name = to
		return nil, nil
	})
}

// Collections lists the collections of the latest state.
func (d *DB) Collections() (out []CollectionInfo, err error) {
	err = d.View(func(s *Snapshot) error {
		out = s.Collections()
		return nil
	})
	return out, err
}

// Stats describes the file and this handle.
type Stats struct {
	trace.File
	trace.Totals `json:"totals"`   // what this handle has done
	Collections  []CollectionInfo  `json:"collections"`
	Indexes      []index.Info      `json:"indexes"`
	Maintenance  maintenance.Stats `json:"maintenance"`
}

// statuses describes the indexes.
func (s *Snapshot) statuses() (out []index.Info) {
	for _, c := range s.gen.Catalog.Collections {
		for i := range c.Indexes {
			r := &c.Indexes[i]
			info, err := s.d.indexInfoOf(s.gen.Collections[c.Name], r.Name)
			out = append(out, withError(info, c, r, err))
		}
	}
	return out
}

// withError returns the description of an index that may have failed.
func withError(info index.Info, c *layout.Collection, r *layout.IndexRef, err error) index.Info {
	if info.Collection, info.Name = c.Name, r.Name; err != nil {
		info.Error = err.Error()
	}
	return info
}

// Stats describes the latest state. O(number of collections), plus the number of pages if the
// database was opened read-only.
func (d *DB) Stats() (st Stats, err error) {
	held, age := d.manager().Readers()
	err = d.View(func(sn *Snapshot) (err error) {
		defer state.Guard(sn.gen.File, state.CatchFaults(), &err)
		s := sn.gen.File // the snapshot keeps it open during a compaction
		space, err := d.compactor.SpaceOf(sn.gen)
		if err != nil {
			return err
		}
		st = Stats{
			File: trace.File{
				FileBytes: space.File, FreeBytes: space.Free, LiveBytes: max(0, space.File-space.Free),
				PageSize: int64(s.PageSize()), MapReserve: s.Reserved(), Generation: sn.Generation(),
				Snapshots: held, OldestSnapshot: age,
			},
			Totals: d.txn.Totals(), Collections: sn.Collections(), Indexes: sn.statuses(),
			Maintenance: d.maintenanceStats(),
		}
		return nil
	})
	return st, err
}

// infoOf returns the public description of a collection.
func infoOf(c *layout.Collection) CollectionInfo {
	info := CollectionInfo{
		Name: c.Name, Schema: Schema{
			Sparse: c.Sparse, Named: c.Named, Metric: c.Metric,
			Float32: c.Storage == layout.StorageFloat32, Numbering: string(c.Numbering),
			Weight: c.Weight, Meta: maps.Clone(c.Meta),
		},
		Live: int(c.Live), Rows: int(c.Rows), Sealed: int(c.Sealed()),
		Indexes: c.IndexNames(), Attributes: c.AttributeNames(), Expires: c.Attribute(attribute.Expiry) != nil,
	}
	for _, x := range c.Attributes {
		if info.types == nil {
			info.types = map[string]attribute.Type{}
		}
		info.types[x.Name] = x.Type
	}
	if c.Text != nil { // the program may change what it gets
		own := *c.Text
		info.Text = &own
	}
	info.Dim, info.Features = c.Dim, c.Features
	return info
}

// describe writes a resolved schema to the description of a collection, which then shares its Meta.
func (s *Schema) describe(c *layout.Collection) {
	c.Dim, c.Metric, c.Storage = s.Dim, s.Metric, layout.StorageAuto
	if s.Float32 {
		c.Storage = layout.StorageFloat32
	}
	c.Sparse, c.Named, c.Numbering = s.Sparse, s.Named, layout.Numbering(s.Numbering)
	c.Text, c.Weight, c.Meta = s.Text, s.Weight, s.Meta
}
