package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

// shrink deletes rows of a copy of the database and measures again, before and after maintenance.
func (b *bench) shrink(ctx context.Context) (err error) {
	path := b.path + ".shrunk"
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	_, err = b.d.Backup(ctx, f)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err = b.d.Close(); err != nil {
		return err
	}
	if b.d, err = db.Open(ctx, path, manual()); err != nil {
		return err
	}
	b.rows = b.d.Collection("rows")
	gone := 0
	for _, share := range []int{10, 50, 90} {
		names := []string{fmt.Sprintf("%d %% deleted", share), fmt.Sprintf("%d %%, maintained", share)}
		if !slices.ContainsFunc(names, b.only.MatchString) {
			continue
		}
		err := b.d.Update(ctx, func(tx *db.Tx) error {
			c := tx.Collection("rows")
			for i := range b.set.Rows() {
				if at := i * 7919 % 100; at >= gone && at < share {
					if err := c.Delete(fmt.Append(nil, i)); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		gone = share
		for i, name := range names {
			if i == 1 {
				if _, err := b.d.Maintain(ctx, 0, nil); err != nil {
					return err
				}
			}
			if err := b.measure(ctx, scenario{name: name, restrict: everything}, 0); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(name), err)
			}
		}
	}
	return nil
}
