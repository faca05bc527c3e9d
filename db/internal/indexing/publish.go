package indexing

import (
	"context"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
)

// publishIndex makes an index visible and returns the objects it replaces.
func (ix *Indexer) publishIndex(
	ctx context.Context, job *building, m *kind.Manifest,
) (replaced []uint64, err error) {
	data, err := layout.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		c := cat.ByID(job.id)
		if c == nil {
			return dropped(job.Coll)
		}
		if job.overtaken != nil && job.overtaken(c) {
			return ErrOvertaken
		}
		if err := ix.refuseCycle(tx, c, m); err != nil {
			return err
		}
		if err := layout.PutManifest(tx, m.Object, data); err != nil {
			return err
		}
		if job.overtaken == nil && !m.Of.Predicts() && m.Info.Name != Auto {
			replaced = ix.removeAuto(tx, c)
		}
		if r := c.Index(m.Info.Name); r != nil {
			replaced = append(replaced, r.Objects()...)
			r.Object, r.Parts, r.Labels = m.Object, nil, m.Of.Predicts()
		} else {
			c.Indexes = append(c.Indexes, layout.IndexRef{
				Name: m.Info.Name, Object: m.Object, Labels: m.Of.Predicts(),
			})
		}
		for _, object := range replaced {
			if err := layout.PutMark(tx, object); err != nil {
				return err
			}
		}
		if err := putRelabelled(tx, job.id, m, job.changes); err != nil {
			return err
		}
		return layout.DeleteMark(tx, m.Object)
	})
	return replaced, err
}

// refuseCycle refuses to publish a label model that would depend on itself. Other builds may
// have published such indexes after the model's neighbors were resolved.
func (ix *Indexer) refuseCycle(tx *bbolt.Tx, c *layout.Collection, m *kind.Manifest) error {
	cycle, err := kind.Cycle(m.Info.Name, func(name string) (string, error) {
		if name == m.Info.Name {
			return m.Own.Uses(), nil
		}
		r := c.Index(name)
		if r == nil {
			return "", nil
		}
		other, err := layout.StoredManifest(tx, c, r, ix.kindOf)
		if err != nil {
			return "", nil // damage in another index does not stop this build
		}
		return other.Own.Uses(), nil
	})
	if err == nil && cycle != nil {
		err = fmt.Errorf("%w: label model %q of %q would depend on itself: its neighbours are found by %q: "+
			"give it another name, or other neighbours", fail.Option, m.Info.Name, c.Name, cycle[1:])
	}
	return err
}

// removeAuto removes the index that maintenance has built from the entry of a collection, unless
// a label model uses it, and returns its objects.
func (ix *Indexer) removeAuto(tx *bbolt.Tx, c *layout.Collection) []uint64 {
	r := c.Index(Auto)
	if r == nil {
		return nil
	}
	if m, err := layout.StoredManifest(tx, c, r, ix.kindOf); err != nil || !m.Auto {
		return nil
	}
	for i := range c.Indexes {
		m, err := layout.StoredManifest(tx, c, &c.Indexes[i], ix.kindOf)
		if err != nil || m.Own.Uses() == Auto {
			return nil // also if a damaged model may use it
		}
	}
	removed := r.Objects()
	c.Indexes = slices.DeleteFunc(c.Indexes, func(x layout.IndexRef) bool { return x.Name == Auto })
	return removed
}

// putRelabelled records the rows that were relabelled while an index was made.
func putRelabelled(tx *bbolt.Tx, coll uint64, m *kind.Manifest, changes *apply.Watch) error {
	if !m.Of.Predicts() {
		return nil
	}
	return layout.EditSets(tx, m.Object, codec.KindRelabelled, changes.Relabelled(coll), nil)
}
