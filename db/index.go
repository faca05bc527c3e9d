package db

import (
	"cmp"
	"context"
	"reflect"
	"slices"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// publicInfo returns the description of an index as its manifest has it.
func publicInfo(coll string, m *kind.Manifest) index.Info {
	return index.Info{
		Collection: coll, Kind: m.Kind, Predicts: m.Of.Traits().Predicts, Given: copied(m.Given),
		Options: copied(m.Options), Segments: len(m.Segments), Record: m.Info,
	}
}

// copied returns a copy of options, which their owner may change.
func copied(o index.Options) index.Options {
	own := reflect.New(reflect.TypeOf(o).Elem())
	own.Elem().Set(reflect.ValueOf(o).Elem())
	return own.Interface().(index.Options)
}

// indexInfo describes an index in a state. stale counts the rows whose labels have changed among
// the first ones.
func indexInfo(
	c *layout.Collection, m *kind.Manifest, stale func(rows int) (int, error),
) (index.Info, error) {
	info := publicInfo(c.Name, m)
	info.Fresh = int(c.Rows) - info.Rows
	if m.Of.Traits().Predicts {
		info.Default = c.DefaultModel() == info.Name
	} else {
		info.Default = c.DefaultIndex(c.ByFeatures(m.Of)) == info.Name
	}
	if o, ok := info.Options.(*index.LCIF); ok && o.Neighbors != "" && c.Index(o.Neighbors) == nil {
		o.Neighbors = Flat
	}
	var err error
	info.Relabelled, err = stale(info.Rows)
	return info, err
}

// Index describes an index.
func (c Collection) Index(name string) (info index.Info, err error) {
	err = c.read(context.Background(), func(st *state.Collection) (err error) {
		info, err = c.database().indexInfoOf(st, name)
		return err
	})
	return info, err
}

// Indexes describes the indexes of a collection, by name.
func (c Collection) Indexes() (out []index.Info, err error) {
	err = c.read(context.Background(), func(st *state.Collection) error {
		for _, r := range st.Entry.Indexes {
			info, err := c.database().indexInfoOf(st, r.Name)
			if err != nil {
				return err
			}
			out = append(out, info)
		}
		return nil
	})
	slices.SortFunc(out, func(a, b index.Info) int { return cmp.Compare(a.Name, b.Name) })
	return out, err
}

func (d *DB) indexInfoOf(st *state.Collection, name string) (index.Info, error) {
	r := st.Entry.Index(name)
	if r == nil {
		return index.Info{}, layout.NoIndex(st.Entry, name)
	}
	m, err := st.ManifestOf(r)
	if err != nil {
		return index.Info{}, err
	}
	info, err := indexInfo(st.Entry, m, func(rows int) (int, error) { return st.Stale(m.Object, rows) })
	info.Error = d.indexes.Unmaintained(r.Object)
	return info, err
}
