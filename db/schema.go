package db

import (
	"context"
	"fmt"
	"maps"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/internal/compact"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/db/internal/txn"
)

// SetSchema changes the schema of the collection, which CollectionInfo has, to one that also has a vector
// (Dim, Metric, Float32), or a text or features, or that has another Weight or Meta. Rows lack the new part
// until TxCollection.SetText, SetVector or Put gives it to them.
//
// A new part rewrites the file as Compact does: readers do not wait, the rows get new numbers (Row.Row), and
// the indexes are rebuilt. If that fails or is cancelled, nothing has changed. Label models that learned from
// vectors have to be dropped before a text or features are added: then they learn from those.
func (c Collection) SetSchema(ctx context.Context, s Schema, run *Run) (err error) {
	d, err := c.writer()
	if err != nil {
		return err
	}
	if s, err = s.resolve(); err != nil {
		return err
	}
	s.Meta = maps.Clone(s.Meta)
	if err := d.manager().Writable(ctx); err != nil {
		return err
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	if s.Sparse == info.Sparse && s.Dim == info.Dim {
		return d.manager().Restructure(ctx, func(_ *bbolt.Tx, cat *layout.Catalog) ([]uint64, error) {
			entry, err := cat.Find(c.name)
			switch {
			case err != nil:
				return nil, err
			case entry.Sparse != s.Sparse || entry.Dim != s.Dim: // dropped and created since
				return nil, fail.NoCollectionNamed(c.name, nil)
			}
			return nil, extend(entry, s)
		})
	}
	ctx, release, err := d.txn.Hold(run.in(ctx), txn.AllShares)
	if err != nil {
		return err
	}
	defer release(&err)
	err = c.read(ctx, func(st *state.Collection) error {
		entry := *st.Entry
		return extend(&entry, s)
	})
	if err != nil {
		return err
	}
	compactor := *d.compactor
	compactor.Convert = func(entry *layout.Collection) bool {
		return entry.Name == c.name && extend(entry, s) == nil
	}
	_, err = compactor.Run(ctx, compact.KeepNumbers)
	return err
}

// extend changes the description of a collection to a resolved schema, if rows of the former are rows of the
// latter.
func extend(c *layout.Collection, s Schema) error {
	old := infoOf(c).Schema
	same := old.Numbering == s.Numbering
	if old.Dim > 0 {
		same = same && old.Dim == s.Dim && old.Metric == s.Metric && old.Float32 == s.Float32
	}
	if old.Sparse {
		same = same && s.Sparse && old.Named == s.Named && (old.Text == nil) == (s.Text == nil) &&
			(s.Text == nil || *old.Text == *s.Text)
	}
	if !same {
		return fmt.Errorf("%w: the schema of collection %q can get a vector, a text or features, and "+
			"another Weight or Meta; all else stays as it is", fail.Option, c.Name)
	}
	if model := c.DefaultModel(); model != "" && s.Sparse && !old.Sparse {
		return fmt.Errorf("%w: label model %q of %q learned from vectors, with a text or features next to "+
			"them it would from those: drop it first", fail.Option, model, c.Name)
	}
	s.describe(c)
	return nil
}
