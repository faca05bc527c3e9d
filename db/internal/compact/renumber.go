package compact

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/store"
	"github.com/anndb/anndb/db/internal/txn"
)

// A deleted row keeps its number, its place in a sealed chunk and its entries in indexes. With
// continuing updates and deletions the file would grow without bound. Therefore a compaction
// gives the live rows of a collection new numbers without gaps, if enough rows are deleted, and
// rebuilds the indexes over them. All of this happens in the new file, which is not visible
// until it is complete.
//
// The collection itself gets a new number, too. Transactions refer to rows by key, so they are
// redirected to the new number (see package txn). Operations that rely on row numbers hold them (see
// Manager.Hold).

// Numbers selects the collections whose rows get new numbers in a compaction.
type Numbers uint8

const (
	// KeepNumbers selects none.
	KeepNumbers Numbers = iota
	// DropDeleted selects those with enough deleted rows, which are left out.
	DropDeleted
	// NearOrder also selects all dense collections, where near rows get near numbers.
	NearOrder
)

// Moved are the collections that a compaction renumbers.
type Moved []moving

// to returns the number that a collection has in the new file.
func (m Moved) to(id uint64) uint64 {
	for i := range m {
		if m[i].from == id {
			return m[i].to
		}
	}
	return id
}

// numbers returns the numbers in the new file by those in the current one.
func (m Moved) numbers() map[uint64]uint64 {
	out := map[uint64]uint64{}
	for i := range m {
		out[m[i].from] = m[i].to
	}
	return out
}

// renumberShare is the least share of deleted rows for a collection to be renumbered. Below it,
// rebuilding the indexes would free too little space.
const renumberShare = 1. / 3

// notLearned is returned if an index cannot be rebuilt, such as a label model of rows that no
// longer have labels. Its collection is then not renumbered.
type notLearned struct {
	coll string
	error
}

func (e *notLearned) Unwrap() error { return e.error }

// moving is a collection that a compaction renumbers.
type moving struct {
	name     string
	from, to uint64
	objects  []uint64           // with blocks of the collection, in the old file
	indexes  []*segment.Rebuild // in the order in which they are rebuilt
	order    bool               // near rows get near numbers; otherwise rows keep their order
	into     *layout.Collection // the converted description, nil if it stays
}

// toRenumber returns the collections to renumber; with order, these include all dense ones.
// Collections with an index that cannot be rebuilt from the rows alone are excluded.
func (co *Compactor) toRenumber(ctx context.Context, g *state.Generation, n Numbers) (out []moving,
	err error) {
	for _, c := range g.Catalog.Collections {
		deletedRows := c.Rows - c.Live
		m := moving{name: c.Name, from: c.ID, objects: c.Objects()}
		m.order = n == NearOrder && !c.Sparse && c.Live > 0
		if into := *c; co.Convert != nil && co.Convert(&into) {
			m.into = &into
		}
		if m.into == nil && n == KeepNumbers {
			continue
		}
		if m.into == nil && !m.order && (deletedRows == 0 ||
			float64(deletedRows) < renumberShare*float64(c.Rows) || c.Live == 0 && len(c.Indexes) > 0) {
			continue
		}
		st, whole := g.Collections[c.Name], true
		for i := range c.Indexes {
			x, err := st.ManifestOf(&c.Indexes[i])
			if err != nil {
				return nil, err
			}
			whole = whole && !x.Foreign
			if m.into != nil {
				switch {
				case x.Foreign:
					return nil, fmt.Errorf("%w: index %q of %q was learned from vectors that are not rows: drop it first",
						fail.Option, x.Info.Name, c.Name)
				case x.Auto && m.into.AutoName(c.Indexes[i].Features) != x.Info.Name:
					continue // maintenance builds one of the right name
				}
			}
			m.indexes = append(m.indexes, segment.NewRebuild(ctx, st, x))
		}
		if !whole {
			continue
		}
		// Indexes that need others come after them.
		needs := func(x *segment.Rebuild) int { return min(1, len(x.Uses())) }
		slices.SortStableFunc(m.indexes, func(a, b *segment.Rebuild) int { return needs(a) - needs(b) })
		if m.objects, err = labelSetsOf(g, c, m.objects); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// labelSetsOf appends the objects of a collection's labels.
func labelSetsOf(g *state.Generation, c *layout.Collection, dst []uint64) (_ []uint64, err error) {
	if err := g.File.VerifyPages(layout.PartLabels); err != nil {
		return dst, err
	}
	prefix := binary.BigEndian.AppendUint64(nil, c.ID)
	g.Locked(func() {
		cur := g.Tx.Bucket(layout.BucketLabels).Cursor()
		for k, v := cur.Seek(prefix); err == nil && len(k) > 8 &&
			string(k[:8]) == string(prefix); k, v = cur.Next() {
			var object uint64
			object, err = layout.LabelObject(c.Name, k, v)
			dst = append(dst, object)
		}
	})
	return dst, err
}

// withoutMoved returns the catalog with the moving collections emptied and given new numbers.
func withoutMoved(c *layout.Catalog, moved []moving) *layout.Catalog {
	out := *c
	out.Collections = slices.Clone(c.Collections)
	for i := range moved {
		at := slices.IndexFunc(out.Collections, func(x *layout.Collection) bool { return x.ID == moved[i].from })
		x := *out.Collections[at]
		if moved[i].into != nil {
			x = *moved[i].into
		}
		out.Object++
		moved[i].to = out.Object
		x.ID, x.Rows, x.Live, x.Revision, x.Indexes, x.Attributes = moved[i].to, 0, 0, 0, nil, nil
		out.Collections[at] = &x
	}
	return &out
}

// renumbered writes a state to the empty file at path, with the rows of the moving collections
// renumbered and their indexes rebuilt. It works in a temporary file and copies that, because the
// temporary file has free pages.
func (c *Compactor) renumbered(
	ctx context.Context, g *state.Generation, path string, moved []moving,
) (err error) {
	draft, err := store.Temp(c.Target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(draft)) }()
	if err := copyState(ctx, g, draft, moved); err != nil {
		return err
	}
	f, err := c.open(draft)
	if err != nil {
		return err
	}
	// If the draft is discarded, its numbers are given to other collections.
	f.Samples = g.File.Samples.Renumbered(Moved(moved).numbers())
	m := txn.New(draft, f, txn.Options{MaxSize: c.Store.MaxSize, Backlog: 8 * txn.StageBytes})
	defer func() {
		m.BeginClose()
		err = errors.Join(err, m.Close(time.After(time.Minute), nil))
	}()
	indexes := segment.New(m)
	for _, x := range moved {
		st := g.Collections[x.name]
		if err := errors.Join(copyNames(ctx, st, m, x), copyQueries(ctx, st, m, x)); err != nil {
			return err
		}
		rows := inOrder(st)
		if x.order {
			if rows, err = nearRows(ctx, st); err != nil {
				return err
			}
		}
		if err := load(ctx, m, x.name, rows, copyProgress(ctx, g.Tx.Size())); err != nil {
			return err
		}
		for _, r := range x.indexes {
			if _, err := indexes.Rebuild(ctx, x.name, r); err != nil {
				return &notLearned{x.name, fail.Wrapf(err, "index %q of %q", r.Name(), x.name)}
			}
		}
	}
	return m.View(func(whole *state.Generation) error { return copyState(ctx, whole, path, nil) })
}

// load puts rows into a collection, and tells copied their bytes.
func load(
	ctx context.Context, m *txn.Manager, coll string, rows iter.Seq2[rows.Row, error], copied func(int),
) error {
	next, stop := iter.Pull2(rows)
	defer stop()
	_, err := m.Load(ctx, func(t *txn.Tx) (more bool, err error) {
		r, err, ok := next()
		if err != nil || !ok {
			return false, err
		}
		copied(r.Size())
		return true, t.Add(coll, func(*layout.Collection) (apply.Op, error) {
			return apply.Op{Row: r, Bytes: r.Size()}, nil
		})
	})
	return err
}

// copyNames copies the dictionary of features, with the numbers of all names. Whether any row
// has ever had a feature affects the length of queries that contain it.
func copyNames(ctx context.Context, st *state.Collection, m *txn.Manager, x moving) error {
	g := st.Gen
	prefix := layout.FeatureKey(x.from, layout.FeatureByID, nil)
	var names []string
	g.Locked(func() {
		b := g.Tx.Bucket(layout.BucketFeatures)
		if b == nil {
			return
		}
		c := b.Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			names = append(names, string(v))
		}
	})
	if len(names) == 0 && (x.into == nil || !x.into.Named) {
		return nil
	}
	return m.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		if _, err := tx.CreateBucketIfNotExists(layout.BucketFeatures); err != nil {
			return fail.Wrapf(err, "create dictionary")
		}
		if c := cat.ByID(x.to); c == nil || c.Features != len(names) {
			return fail.Corruptf(x.name, "%d features have names", len(names))
		}
		return apply.WriteNames(tx, x.to, names)
	})
}

// copyQueries stores the sample of the queries of a collection for its new number.
func copyQueries(ctx context.Context, st *state.Collection, m *txn.Manager, x moving) error {
	r := st.Sampled()
	if n, _ := r.Sizes(""); n == 0 {
		return nil
	}
	return m.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		s, _ := r.Stored()
		return layout.PutQueries(tx, cat.ByID(x.to), s)
	})
}

// compacted writes a state to the empty file at path. It renumbers the rows of the selected
// collections if their indexes can be rebuilt, and returns these collections.
func (c *Compactor) compacted(
	ctx context.Context, g *state.Generation, path string, n Numbers,
) (moved []moving, err error) {
	if n != KeepNumbers || c.Convert != nil {
		moved, err = c.toRenumber(ctx, g, n)
	}
	for err == nil && len(moved) > 0 {
		err = c.renumbered(ctx, g, path, moved)
		var not *notLearned
		if !errors.As(err, &not) || c.Convert != nil || ctx.Err() != nil ||
			errors.Is(fail.System(err), fail.ErrNoSpace) {
			return moved, err
		}
		c.Log.Warn("db: compact: rows keep their numbers",
			"path", c.Path, "collection", not.coll, "err", not.error)
		moved = slices.DeleteFunc(moved, func(m moving) bool { return m.name == not.coll })
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return nil, copyState(ctx, g, path, nil)
}
