package segment

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/codec"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/layout"
)

// publish writes the blocks that are left and makes the index visible. It removes the objects that the
// index no longer has and the staged ones that it does not use, and returns those that take more than a
// transaction, which are marked.
func (ix *Indexer) publish(
	ctx context.Context, job *building, m *kind.Manifest, staged []uint64, out *stager,
) (left []uint64, err error) {
	data, err := layout.EncodeManifest(m)
	if err != nil {
		return nil, err
	}
	var removed []uint64
	err = ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		c := cat.ByID(job.id)
		if c == nil {
			return dropped(job.Coll)
		}
		if job.overtaken != nil && job.overtaken(c) {
			return ErrOvertaken
		}
		if err := errors.Join(out.flush(tx), layout.PutManifest(tx, m.Object, data)); err != nil {
			return err
		}
		garbage := slices.Clone(staged)
		if job.overtaken == nil && !m.Of.Traits().Predicts && !m.Auto {
			garbage = append(garbage, ix.removeAuto(tx, c, c.AutoName(c.ByFeatures(m.Of)))...)
		}
		r := c.Index(m.Info.Name)
		if r == nil {
			c.Indexes = append(c.Indexes, layout.IndexRef{Name: m.Info.Name})
			r = c.Index(m.Info.Name)
		}
		was := *r
		*r = layout.IndexRef{
			Name: m.Info.Name, Object: m.Object, Parts: otherObjects(m), Labels: m.Of.Traits().Predicts,
			Features: !m.Of.Traits().Predicts && c.ByFeatures(m.Of),
		}
		if err := keepRelabelled(tx, c, job, m, was.Object); err != nil {
			return err
		}
		kept := r.Objects()
		for _, object := range kept {
			if err := layout.DeleteMark(tx, object); err != nil {
				return err
			}
		}
		garbage = slices.DeleteFunc(append(garbage, was.Objects()...), func(object uint64) bool {
			return object == 0 || slices.Contains(kept, object)
		})
		removed, left, err = remove(tx, garbage)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, object := range removed {
		ix.txn.File().Forget(object)
	}
	if job.asked > 0 {
		ix.txn.File().Samples.Of(job.id, nil).Measured(m.Info.Name, job.asked)
	}
	return left, nil
}

// remove removes objects, and marks those that take more than a transaction.
func remove(tx *bbolt.Tx, objects []uint64) (removed, left []uint64, err error) {
	for i, object := range objects {
		done, err := layout.RemoveObject(tx, object)
		if err != nil {
			return nil, nil, err
		}
		if !done {
			left = objects[i:]
			break
		}
		if err := layout.DeleteMark(tx, object); err != nil {
			return nil, nil, err
		}
		removed = append(removed, object)
	}
	for _, object := range left {
		if err := layout.PutMark(tx, object); err != nil {
			return nil, nil, err
		}
	}
	return removed, left, nil
}

// otherObjects returns the objects of an index besides that of its manifest.
func otherObjects(m *kind.Manifest) []uint64 {
	return slices.DeleteFunc(m.Objects(), func(object uint64) bool { return object == m.Object })
}

// keepRelabelled records the rows whose labels have changed since the segments of a label model were built.
// was is the object of the manifest before.
func keepRelabelled(
	tx *bbolt.Tx, c *layout.Collection, job *building, m *kind.Manifest, was uint64,
) error {
	if !m.Of.Traits().Predicts {
		return nil
	}
	changed := job.changes.Relabelled(job.id)
	if job.Base != nil {
		old, err := layout.ReadSet(tx, c.Name, was, codec.KindRelabelled, c.Rows)
		if err != nil {
			return err
		}
		old.RemoveRange(uint64(job.First), uint64(job.End))
		changed.Or(old)
	}
	return layout.EditSets(tx, m.Object, codec.KindRelabelled, changed, nil)
}

// removeAuto removes an index that maintenance has built from the entry of a collection, unless
// a label model uses it, and returns its objects.
func (ix *Indexer) removeAuto(tx *bbolt.Tx, c *layout.Collection, auto string) []uint64 {
	r := c.Index(auto)
	if r == nil {
		return nil
	}
	meta := tx.Bucket(layout.BucketMeta)
	if m, err := layout.ReadManifest(c, r, meta.Get, ix.kindOf); err != nil || !m.Auto {
		return nil
	}
	for i := range c.Indexes {
		m, err := layout.ReadManifest(c, &c.Indexes[i], meta.Get, ix.kindOf)
		if err != nil || m.Uses == auto {
			return nil // also if a damaged model may use it
		}
	}
	removed := r.Objects()
	c.Indexes = slices.DeleteFunc(c.Indexes, func(x layout.IndexRef) bool { return x.Name == auto })
	return removed
}
