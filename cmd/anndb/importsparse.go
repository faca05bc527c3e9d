package main

import (
	"errors"
	"io"
	"time"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// sparse imports a file of sparse records.
func (c *importCmd) sparse(a *app) (err error) {
	if c.Float32 || c.Metric != "" && c.Metric != vector.Cosine.String() {
		return usagef("--float-32 and --metric are for dense collections: sparse rows are float32 and compared by cosine")
	}
	known, err := existing(a, c.File, c.Collection)
	if err != nil {
		return err
	}
	if known != nil {
		if err := sparseOnly(*known); err != nil {
			return err
		}
	}
	in, err := openSparse(c.Input, c.fileFlags, c.sparseFlags, target{known, a.note})
	if err != nil {
		return err
	}
	defer in.Close()
	keys, err := c.newKeys(a, known)
	if err != nil {
		return err
	}
	r := &sparseBatches{in: in, size: c.rowsAtATime()}
	// What the first batch shows to be wrong must leave no file behind.
	first, err := r.next()
	if err != nil {
		return c.failed(0, err)
	}
	if c.Named && in.FeatureNames() == nil {
		return usagef("--named: %s has no names of features", c.Input)
	}
	d, err := db.OpenContext(a.ctx, c.File, &db.Options{NoSync: c.NoSync})
	if err != nil {
		return explain(c.File, err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	named := c.Named || in.namesItself()
	err = d.CreateSparse(a.ctx, c.Collection, db.SparseOptions{Named: named, Numbering: in.numbering(named)})
	created := err == nil
	if err != nil && !errors.Is(err, db.ErrExists) {
		return err
	}
	info, err := infoOf(d, c.Collection)
	if err != nil {
		return err
	}
	if err := sparseOnly(info); err != nil {
		return err
	}
	rows := func(batch []*dataset.SparseRecord) ([]db.Row, error) {
		out := make([]db.Row, len(batch))
		for i, rec := range batch {
			var err error
			if out[i], err = in.row(rec, keys, info.Named); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	start := time.Now()
	batch, err := rows(first)
	n := 0
	if err == nil {
		n, err = c.importRows(a, d, batch, func() ([]db.Row, error) {
			records, err := r.next()
			if err != nil {
				return nil, err
			}
			return rows(records)
		}, in.Len())
	}
	if err != nil {
		return c.failed(n, err)
	}
	took := time.Since(start)
	if info, err = infoOf(d, c.Collection); err != nil {
		return err
	}
	t := table.New("collection", "created", "rows", "new", "replaced", "total", "format", "features", "numbering", "named", "labels", "seconds:2", "rows/s:0")
	var labels []db.LabelCount
	err = d.View(func(s *db.Snapshot) (err error) {
		labels, err = s.Labels(c.Collection)
		return err
	})
	if err != nil {
		return err
	}
	fresh := newRows(known, info)
	t.Add(c.Collection, created, n, fresh, n-fresh, info.Live, in.Format(), info.Dim, numberingShown(info.Numbering), info.Named, len(labels), took.Seconds(), float64(n)/took.Seconds())
	a.progress.end()
	return a.table(t)
}

// sparseBatches reads sparse records in batches.
type sparseBatches struct {
	in    *sparseInput
	size  int
	ended bool
}

// next is the next batch, empty at the end.
func (r *sparseBatches) next() (batch []*dataset.SparseRecord, err error) {
	for len(batch) < r.size && !r.ended {
		switch rec, err := r.in.next(); {
		case err == io.EOF:
			r.ended = true
		case err != nil:
			return nil, err
		default:
			batch = append(batch, rec)
		}
	}
	return batch, nil
}
