package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/db/internal/salvage"
	"github.com/anndb/anndb/db/internal/segment"
	"github.com/anndb/anndb/db/maintenance"
)

func init() { salvage.Salvage = salvageFile }

// salvageFile is rescue.Salvage.
func salvageFile(
	ctx context.Context, from, to string, o salvage.Options,
) (r salvage.Report, err error) {
	if err := fail.Context(ctx); err != nil {
		return r, err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%w: %s", ErrExists, to)
	}
	release, err := keepWritersOut(ctx, from)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, release()) }()
	f, err := os.Open(from)
	if err != nil {
		return r, fail.Wrapf(err, "salvage")
	}
	defer f.Close()
	w, err := salvage.Open(ctx, f, kindOf)
	if err != nil {
		return r, err
	}
	r.Searched = w.Searched
	call := Run{Workers: o.Workers, Progress: o.Progress, Stop: o.Stop}
	d, err := Open(ctx, to, &Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, c := range w.Catalog.Collections {
		if _, err = d.Create(ctx, c.Name, infoOf(c).Schema); err != nil {
			return r, err
		}
		x := w.Rows(c)
		if x.Unsure {
			r.Revived = append(r.Revived, c.Name)
		}
		found := x.All(func(l salvage.LostRow) {
			r.Lost += l.Rows
			if o.Lost != nil {
				o.Lost(l)
			}
		})
		n, err := d.Collection(c.Name).Load(ctx, publicRows(found), &LoadOptions{Run: call.asStage(c.Name)})
		r.Rows += n
		if err != nil {
			return r, err
		}
		if o.NoIndexes {
			continue
		}
		for i := range c.Indexes {
			name := c.Name + "/" + c.Indexes[i].Name
			run := call.asStage(name)
			if err := rebuildSalvaged(run.in(ctx), d, w, c, &c.Indexes[i]); err != nil {
				if ctx.Err() != nil {
					return r, err
				}
				if r.NotBuilt == nil {
					r.NotBuilt = map[string]error{}
				}
				r.NotBuilt[name] = err
				continue
			}
			r.Indexes = append(r.Indexes, name)
		}
	}
	return r, nil
}

// publicRows returns salvaged rows as users see them.
func publicRows(found iter.Seq2[rows.Row, error]) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for x, err := range found {
			r := Row{Key: x.Key, Vector: x.Vector, Sparse: x.Sparse, Features: x.Features}
			r.setCold(x.Cold)
			if r.Text != "" {
				r.Features = nil // its terms
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// rebuildSalvaged rebuilds an index with the settings in its manifest.
func rebuildSalvaged(
	ctx context.Context, d *DB, w *salvage.File, c *layout.Collection, r *layout.IndexRef,
) error {
	m, err := w.Manifest(c, r)
	if err != nil {
		return err
	}
	_, err = d.indexes.Rebuild(ctx, c.Name, segment.NewRebuild(ctx, nil, m))
	return err
}

// keepWritersOut keeps processes from opening a database for writing until release is called, as far as
// it can be opened: a damaged one cannot. Errors: ErrLocked if it is open for writing.
func keepWritersOut(ctx context.Context, path string) (release func() error, err error) {
	d, err := Open(ctx, path, &Options{ReadOnly: true, MustExist: true})
	switch {
	case errors.Is(err, ErrLocked):
		return nil, err
	case err != nil:
		return func() error { return nil }, nil
	}
	return d.Close, nil
}
