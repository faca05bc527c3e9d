package rows

import (
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
)

// Delete deletes rows.
type Delete struct {
	command.InCollection
	Keys []string `arg:"" optional:""`
	command.WhereFlag
	Missing bool
}

// deleteBatch is how many rows that pass a filter a transaction deletes.
const deleteBatch = 10_000

func (c *Delete) Run(a *command.App) error {
	switch {
	case len(c.Keys) == 0 && c.Where.Filter == nil:
		return command.Usagef("name the keys of the rows to delete, or select them with --where")
	case len(c.Keys) > 0 && c.Where.Filter != nil:
		return command.Usagef("keys and --where exclude each other")
	}
	return c.With(a, false, func(d *db.DB) error {
		deleted, err := 0, error(nil)
		if c.Where.Filter == nil {
			deleted, err = c.byKey(a, d)
		} else {
			deleted, err = c.byFilter(a, d)
		}
		if err != nil {
			return err
		}
		after, err := d.Collection(c.Collection).Info()
		if err != nil {
			return err
		}
		return a.Done(table.One("collection deleted rows", c.Collection, deleted, after.Live))
	})
}

// byKey deletes the rows of the keys in one transaction.
func (c *Delete) byKey(a *command.App, d *db.DB) (deleted int, err error) {
	err = d.Update(a.Ctx, func(tx *db.Tx) error {
		rows := tx.Collection(c.Collection)
		deleted = 0
		for _, key := range c.Keys {
			exists, err := rows.Has([]byte(key))
			switch {
			case err != nil:
				return err
			case !exists && c.Missing:
				continue
			case !exists:
				return fmt.Errorf("%w: key %q in collection %q (--missing ignores that)",
					db.ErrNotFound, key, c.Collection)
			}
			if err := rows.Delete([]byte(key)); err != nil {
				return err
			}
			deleted++
		}
		return nil
	})
	return deleted, err
}

// byFilter deletes the rows that pass the filter now, in several transactions if they are many.
func (c *Delete) byFilter(a *command.App, d *db.DB) (deleted int, err error) {
	keys, err := d.Collection(c.Collection).MatchingKeys(a.Ctx, c.Where.Filter)
	if err != nil {
		return 0, err
	}
	for batch := range slices.Chunk(keys, deleteBatch) {
		err := d.Update(a.Ctx, func(tx *db.Tx) error {
			for _, key := range batch {
				if err := tx.Collection(c.Collection).Delete(key); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return deleted, fmt.Errorf("after %d of %d rows: %w", deleted, len(keys), err)
		}
		deleted += len(batch)
		a.Progress.Update("delete", deleted, len(keys))
	}
	a.Progress.End()
	return deleted, nil
}
