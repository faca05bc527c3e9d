package segment

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/internal/apply"
	"github.com/anndb/anndb/db/internal/attribute"
	"github.com/anndb/anndb/db/internal/check"
	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/state"
)

// damaged is an index that must be rebuilt.
type damaged struct {
	index.Repaired
	again *Rebuild
	why   error // why there is no manifest
}

// Repair verifies all indexes and tables of attributes, and rebuilds the damaged ones. The caller holds
// a share of row numbers.
func (ix *Indexer) Repair(ctx context.Context) (found []index.Repaired, err error) {
	list, err := ix.damaged(ctx)
	if err != nil {
		return nil, err
	}
	failed, err := ix.repairTables(ctx, &found)
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		if x.Err = x.why; x.Err == nil {
			_, x.Err = ix.Rebuild(ctx, x.Collection, x.again)
			if errors.Is(x.Err, ErrOvertaken) {
				x.Err = nil // the damaged index was dropped
			}
		}
		found = append(found, x.Repaired)
		if x.Err != nil {
			failed = append(failed, fmt.Errorf("index %q of %q: %w", x.Index, x.Collection, fail.Inner{Err: x.Err}))
		}
		if err := ix.txn.Writable(ctx); err != nil {
			return found, errors.Join(append(failed, err)...)
		}
	}
	if len(failed) > 0 {
		return found, fmt.Errorf("%w: not repaired: %w", fail.ErrCorrupt, errors.Join(failed...))
	}
	return found, nil
}

// repairTables rewrites the tables of attributes in which the check of a collection finds damage. It
// returns the errors of those that it could not rewrite.
func (ix *Indexer) repairTables(ctx context.Context, found *[]index.Repaired) (failed []error, err error) {
	err = ix.txn.View(func(g *state.Generation) error {
		if err := g.File.VerifyPages(layout.AllParts); err != nil {
			return err
		}
		for _, c := range g.Catalog.Collections {
			wrong := check.Attributes(ctx, g.Collections[c.Name])
			if err := ctx.Err(); err != nil {
				return fail.Wrapf(err, "repair")
			}
			if wrong != nil {
				*found = append(*found, index.Repaired{Collection: c.Name, Damage: wrong})
			}
		}
		return nil
	})
	for i := range *found {
		x := &(*found)[i]
		if x.Err = ix.rewriteTables(ctx, x.Collection); x.Err != nil {
			failed = append(failed, fmt.Errorf("attributes of %q: %w", x.Collection, fail.Inner{Err: x.Err}))
		}
	}
	return failed, err
}

// rewriteTables rewrites the tables of a collection's attributes from its rows. Writers wait.
func (ix *Indexer) rewriteTables(ctx context.Context, name string) error {
	return ix.txn.Exclusive(ctx, func(tx *bbolt.Tx, cat *layout.Catalog) error {
		c, err := cat.Find(name)
		if err != nil {
			return nil // dropped since
		}
		return apply.RewriteTables(tx, c, func(yield func(uint32, []attribute.Attribute)) error {
			return ix.txn.View(func(g *state.Generation) error {
				return g.Read(name, func(st *state.Collection) error {
					var run *state.ColdRun
					for row := range c.Rows {
						r, live, err := st.ReadRow(row, &run)
						if err != nil {
							return err
						}
						if live {
							yield(row, r.Attributes)
						}
					}
					return ctx.Err()
				})
			})
		})
	})
}

// damaged returns the damaged indexes.
func (ix *Indexer) damaged(ctx context.Context) (list []damaged, err error) {
	err = ix.txn.View(func(g *state.Generation) error {
		if err := g.File.VerifyPages(layout.AllParts); err != nil {
			return err
		}
		for _, c := range g.Catalog.Collections {
			st := g.Collections[c.Name]
			for i := range c.Indexes {
				r := &c.Indexes[i]
				wrong := check.IndexBlocks(ctx, st, r)
				if err := ctx.Err(); err != nil {
					return fail.Wrapf(err, "repair")
				}
				if wrong == nil {
					continue
				}
				x := damaged{Repaired: index.Repaired{Collection: c.Name, Index: r.Name, Damage: wrong}}
				m, err := st.ManifestOf(r)
				if err != nil {
					if copied, e := st.ReadManifest(r, layout.BucketBlocks); e == nil {
						m, err = copied, nil
					}
				}
				if x.why = err; err == nil {
					x.again = inPlaceOf(ctx, st, m, r)
				}
				list = append(list, x)
			}
		}
		return nil
	})
	return list, err
}
