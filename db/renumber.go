package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

// A deleted row keeps its number, its place in a sealed chunk and what indexes
// hold of it. Where updates and deletions go on for ever, so would the growth of
// the file. A compaction therefore gives the live rows of a collection new
// numbers, without gaps, where that is worth while, and learns its indexes anew
// over them, in the new file, which nobody sees before it is whole.
//
// The collection has a new number in it, too. Batches carry keys: they are led on
// to the new number. What relies on row numbers holds them (see hold).

// movedCollections are the collections that a compaction renumbers.
type movedCollections []moving

// to returns the number that a collection has in the new file.
func (m movedCollections) to(id uint64) uint64 {
	for i := range m {
		if m[i].from == id {
			return m[i].to
		}
	}
	return id
}

// renumberShare is the share of its row numbers that must be of deleted rows
// for a collection to be renumbered: below, indexes would be learned anew for
// little.
const renumberShare = 1. / 3

// notLearned is returned where an index cannot be learned anew, such as a label
// model of rows that have lost their labels: its collection stays as it is.
type notLearned struct {
	coll string
	error
}

func (e *notLearned) Unwrap() error { return e.error }

// moving is a collection that a compaction renumbers.
type moving struct {
	name     string
	from, to uint64
	objects  []uint64   // that hold anything of it, in the old file
	indexes  []*rebuild // in the order in which they are learned anew
	order    bool       // near rows get near numbers; else rows keep their order
}

// toRenumber finds the collections to renumber, with order all dense ones. Such
// with an index that cannot be learned anew from the rows alone are not among
// them.
func (s *Snapshot) toRenumber(ctx context.Context, order bool) (out []moving, err error) {
	g := s.gen
	for _, c := range g.cat.Collections {
		dead := c.Rows - c.Live
		m := moving{name: c.Name, from: c.ID, objects: []uint64{c.ID}, order: order && !c.Sparse && c.Live > 0}
		if !m.order && (dead == 0 || float64(dead) < renumberShare*float64(c.Rows) || c.Live == 0 && len(c.Indexes) > 0) {
			continue
		}
		st, whole := g.colls[c.Name], true
		for i := range c.Indexes {
			x, err := st.manifestOf(&c.Indexes[i])
			if err != nil {
				return nil, err
			}
			whole = whole && x.own.rebuilds()
			m.objects = append(m.objects, c.Indexes[i].objects()...)
			m.indexes = append(m.indexes, newRebuild(ctx, st, x))
		}
		if !whole {
			continue
		}
		// Indexes that need others come after them.
		needs := func(x *rebuild) int { return min(1, len(x.m.own.uses())) }
		slices.SortStableFunc(m.indexes, func(a, b *rebuild) int { return needs(a) - needs(b) })
		if m.objects, err = g.labelObjects(c, m.objects); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// labelObjects appends the objects of a collection's labels.
func (g *generation) labelObjects(c *collection, dst []uint64) (_ []uint64, err error) {
	if err := g.store.sound(soundLabels); err != nil {
		return dst, err
	}
	prefix := binary.BigEndian.AppendUint64(nil, c.ID)
	g.locked(func() {
		cur := g.tx.Bucket(bucketLabels).Cursor()
		for k, v := cur.Seek(prefix); err == nil && len(k) > 8 && string(k[:8]) == string(prefix); k, v = cur.Next() {
			var object uint64
			object, err = labelObject(c.Name, k, v)
			dst = append(dst, object)
		}
	})
	return dst, err
}

// without is the catalog with the moving collections empty, under new numbers.
func (c *catalog) without(moved []moving) *catalog {
	out := *c
	out.Collections = slices.Clone(c.Collections)
	for i := range moved {
		at := slices.IndexFunc(out.Collections, func(x *collection) bool { return x.ID == moved[i].from })
		x := *out.Collections[at]
		out.Object++
		moved[i].to = out.Object
		x.ID, x.Rows, x.Live, x.Indexes = moved[i].to, 0, 0, nil
		out.Collections[at] = &x
	}
	return &out
}

// renumbered writes the snapshot's state into the empty file at path with the
// rows of the moving collections renumbered and their indexes learned anew. It
// does so in a draft, and copies that, for it has free pages.
func (s *Snapshot) renumbered(ctx context.Context, path string, o Options, moved []moving) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), compactPrefix(s.d.file)+"*")
	if err != nil {
		return err
	}
	draft := tmp.Name()
	defer func() { err = errors.Join(err, os.Remove(draft)) }()
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := copyState(ctx, s.gen, draft, o, moved); err != nil {
		return err
	}
	o.NoSync, o.Maintenance = true, nil
	st, err := openStore(draft, o)
	if err != nil {
		return err
	}
	// Not opened as others are, for that removes what builds under way have
	// staged.
	d := newDB(draft, o, st)
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, m := range moved {
		if err := s.copyNames(ctx, d, m); err != nil {
			return err
		}
		rows := s.Rows(m.name)
		if m.order {
			if rows, err = s.nearRows(ctx, m.name); err != nil {
				return err
			}
		}
		if _, err := d.Load(ctx, m.name, rows, nil); err != nil {
			return err
		}
		for _, x := range m.indexes {
			if _, err := d.rebuild(ctx, m.name, x, MaintainOptions{}); err != nil {
				return &notLearned{m.name, wrapf(err, "index %q of %q", x.m.Info.Name, m.name)}
			}
		}
	}
	return d.View(func(whole *Snapshot) error { return copyState(ctx, whole.gen, path, o, nil) })
}

// copyNames takes the dictionary of features over, with the numbers of all
// names: whether a row ever had a feature decides how long a query is that asks
// for it.
func (s *Snapshot) copyNames(ctx context.Context, d *DB, m moving) error {
	prefix := featureKey(m.from, featureByID, nil)
	dict := &names{number: map[string]uint32{}}
	s.gen.locked(func() {
		b := s.gen.tx.Bucket(bucketFeatures)
		if b == nil {
			return
		}
		c := b.Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			name := string(v)
			dict.number[name] = uint32(len(dict.fresh))
			dict.fresh = append(dict.fresh, name)
		}
	})
	if len(dict.fresh) == 0 {
		return nil
	}
	return d.exclusive(ctx, func(tx *bbolt.Tx, cat *catalog) error {
		if c := cat.byID(m.to); c == nil || c.Dim != len(dict.fresh) {
			return corruptf(m.name, "%d features have names", len(dict.fresh))
		}
		return newApplier(tx, cat).writeNames(m.to, dict)
	})
}

// compacted writes the snapshot's state into the empty file at path, with the
// rows renumbered of all collections of which that is worth while, or asked for,
// and possible. It returns what has moved.
func (s *Snapshot) compacted(ctx context.Context, path string, o Options, order bool) ([]moving, error) {
	moved, err := s.toRenumber(ctx, order)
	for err == nil && len(moved) > 0 {
		err = s.renumbered(ctx, path, o, moved)
		var not *notLearned
		if !errors.As(err, &not) || ctx.Err() != nil || errors.Is(asSystem(err), ErrNoSpace) {
			return moved, err
		}
		s.d.log.Warn("db: compact: rows keep their numbers", "path", s.d.path, "collection", not.coll, "err", not.error)
		moved = slices.DeleteFunc(moved, func(m moving) bool { return m.name == not.coll })
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return nil, copyState(ctx, s.gen, path, o, nil)
}

// led is the number that a collection has now, if it was renumbered.
func (d *DB) led(id uint64) uint64 {
	for {
		to, ok := d.renumbered.Load(id)
		if !ok {
			return id
		}
		id = to.(uint64)
	}
}

// objectOf is the number of the object that an entry of any bucket belongs to.
func objectOf(key []byte) uint64 {
	if len(key) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(key)
}

// copyable yields the pairs of a bucket that a compaction takes over, with the
// given catalog in the place of the state's.
func copyable(b *bbolt.Bucket, skip map[uint64]bool, cat []byte, yield func(k, v []byte) error) error {
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if skip[objectOf(k)] {
			continue
		}
		if cat != nil && string(k) == string(catalogKey[:]) {
			v = cat
		}
		if err := yield(k, v); err != nil {
			return err
		}
	}
	return nil
}
