package main

import (
	"context"
	"fmt"
	"maps"
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
	if b.d, err = db.Open(path, manual()); err != nil {
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
				if _, err := b.d.Maintain(ctx, nil); err != nil {
					return err
				}
			}
			if err := b.measure(ctx, scenario{name: name, restrict: everything}); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(name), err)
			}
		}
	}
	return nil
}

// grownFrom are the numbers of rows at which an index is built that then grows to all rows of the set.
var grownFrom = [...]int{100, 1000, 10_000}

// grow builds a database of a few rows, adds the others a twentieth at a time, each followed by
// maintenance, and measures the result.
func (b *bench) grow(ctx context.Context) error {
	for _, from := range grownFrom {
		s := scenario{fmt.Sprintf("grown from %d", from), everything}
		if from >= b.set.Rows() || !b.only.MatchString(s.name) {
			continue
		}
		if err := b.growFrom(ctx, from); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if err := b.measure(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (b *bench) growFrom(ctx context.Context, from int) (err error) {
	if err := b.d.Close(); err != nil {
		return err
	}
	path := b.path + ".grown"
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	if b.d, err = db.Open(path, manual()); err != nil {
		return err
	}
	defer os.Remove(path) // the open file stays readable
	some := func(from, to int) func(yield func(db.Row, error) bool) {
		return func(yield func(db.Row, error) bool) {
			for i := from; i < to; i++ {
				if !yield(db.Row{Key: fmt.Append(nil, i), Vector: b.row(i)}, nil) {
					return
				}
			}
		}
	}
	if err := b.build(ctx, some(0, from)); err != nil {
		return err
	}
	seconds := map[string]float64{}
	for n := from; n < b.set.Rows(); {
		to := min(b.set.Rows(), n+max(n/20, 10))
		err := b.d.Update(ctx, func(tx *db.Tx) error {
			for row := range some(n, to) {
				if err := tx.Collection("rows").Put(row); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		n = to
		steps, err := b.d.Maintain(ctx, nil)
		if err != nil {
			return err
		}
		for _, s := range steps {
			seconds[s.Action] += s.Seconds
		}
	}
	fmt.Print("maintained in seconds:")
	for _, action := range slices.Sorted(maps.Keys(seconds)) {
		fmt.Printf(" %s %.1f", action, seconds[action])
	}
	fmt.Println()
	return nil
}
