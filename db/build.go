package db

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/state"
)

// Build learns an index over the rows of the latest state and publishes it under name, replacing an
// index of that name. The type of o selects the kind; nil means an index.Forest over dense rows and
// index.Postings over sparse ones. An index that finds rows also replaces the one of maintenance,
// unless a label model uses that. If Build is cancelled or fails, the database is unchanged. Readers
// and writers run concurrently.
//
// The rows are read into memory. A forest costs rows² · dim operations with exact neighbor lists,
// otherwise about rows · (1,000 codes + 200 rows compared). Errors: ErrUnsuitable.
func (c Collection) Build(
	ctx context.Context, name string, o index.Options, run *Run,
) (_ index.Info, err error) {
	d, err := c.writer()
	if err != nil {
		return index.Info{}, err
	}
	if err := layout.CheckName(name); err != nil {
		return index.Info{}, err
	}
	if name == Flat {
		return index.Info{}, fmt.Errorf("%w: %q is the name of the exact scan", fail.Name, name)
	}
	if err := d.manager().Writable(ctx); err != nil {
		return index.Info{}, err
	}
	defer d.background.LeaveTo(c.name)()
	ctx, release, err := d.txn.Hold(run.in(ctx), 1)
	if err != nil {
		return index.Info{}, err
	}
	defer release(&err)
	if o, err = d.request(c.name, o); err != nil {
		return index.Info{}, err
	}
	m, err := d.indexes.Build(ctx, segment.Request{Collection: c.name, Name: name, Options: o})
	if m == nil {
		return index.Info{}, kind.AsParameter(err)
	}
	return publicInfo(c.name, m), kind.AsParameter(err)
}

// request returns the options of a build, the default ones for nil, and refuses those that the
// collection cannot satisfy.
func (d *DB) request(coll string, o index.Options) (_ index.Options, err error) {
	err = d.txn.View(func(g *state.Generation) error {
		st, err := g.Collection(coll)
		if err != nil {
			return err
		}
		switch v := reflect.ValueOf(o); {
		case o == nil:
			o = defaultOptions(st.Entry.Dim == 0)
		case v.Kind() == reflect.Pointer && v.IsNil():
			o = reflect.New(v.Type().Elem()).Interface().(index.Options)
		}
		k, dim := kindOf(o.Name()), st.Entry.Dim
		if k != nil && st.Entry.ByFeatures(k) {
			dim = 0
		}
		if err := o.Check(dim); err != nil {
			return fail.Wrapf(err, "collection %q", coll)
		}
		if k == nil || reflect.TypeOf(k.Traits().Options) != reflect.TypeOf(o) {
			return fmt.Errorf("%w: options of type %T", fail.Option, o)
		}
		o = copied(o)
		return nil
	})
	return o, err
}

// defaultOptions returns the options of an index of features, or of vectors.
func defaultOptions(features bool) index.Options {
	if features {
		return &index.Postings{}
	}
	return &index.Forest{}
}

// SetDefault makes an index the default one of its purpose: that of searches and that of predictions
// which name none. Without a choice it is the first that was built, and once it is dropped, the next. One
// that maintenance has built is the default only if there is no other.
func (c Collection) SetDefault(ctx context.Context, name string) error {
	return c.takeIndex(ctx, name, func(entry *layout.Collection, r layout.IndexRef) []uint64 {
		entry.Indexes = slices.Insert(entry.Indexes, 0, r)
		return nil
	})
}

// DropIndex removes an index; earlier snapshots can still use it. Once one that finds rows has been
// dropped, maintenance builds none in this collection any more (maintenance.Policy.NoBuild).
func (c Collection) DropIndex(ctx context.Context, name string) error {
	return c.takeIndex(ctx, name, func(entry *layout.Collection, r layout.IndexRef) []uint64 {
		entry.Unindexed = entry.Unindexed || !r.Labels
		return r.Objects()
	})
}

// takeIndex takes an index out of its collection's entry in the catalog and calls f with both, in a
// transaction that removes the objects that f returns.
func (c Collection) takeIndex(
	ctx context.Context, name string, f func(*layout.Collection, layout.IndexRef) (removed []uint64),
) error {
	d, err := c.writer()
	if err != nil {
		return err
	}
	return d.manager().Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
		entry, err := cat.Find(c.name)
		if err != nil {
			return nil, err
		}
		r := entry.Index(name)
		if r == nil {
			return nil, layout.NoIndex(entry, name)
		}
		taken := *r
		entry.Indexes = slices.DeleteFunc(entry.Indexes, func(x layout.IndexRef) bool { return x.Name == name })
		return f(entry, taken), nil
	})
}
