package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/index"
	"github.com/anndb/anndb/db/maintenance"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// load makes a file of rows, whose keys are their numbers, and indexes them. It returns what it has built.
func load(
	ctx context.Context, path string, schema db.Schema, rows iter.Seq[child.Document],
) (built []index.Info, err error) {
	d, err := db.Open(ctx, path, &db.Options{Maintenance: &maintenance.Policy{Manual: true}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	c, err := d.Create(ctx, "docs", schema)
	if err != nil {
		return nil, err
	}
	if _, err := c.Load(ctx, func(yield func(db.Row, error) bool) {
		i := int64(0)
		for r := range rows {
			if !yield(db.Row{Key: strconv.AppendInt(nil, i, 10), Text: r.Text, Vector: r.Vector}, nil) {
				return
			}
			i++
		}
	}, nil); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		has  bool
		name string
		o    index.Options
	}{{schema.Text != nil, "words", &index.Postings{}}, {schema.Dim > 0, "vectors", &index.Forest{}}} {
		if !part.has {
			continue
		}
		info, err := c.Build(ctx, part.name, part.o, nil)
		if err != nil {
			return nil, err
		}
		built = append(built, info)
	}
	return built, d.Compact(ctx, nil)
}

// schemaOf returns the schema for rows with texts, vectors or both.
func schemaOf(rows []child.Document, analyzer string) (s db.Schema) {
	if rows[0].Text != "" {
		s.Text = &text.Schema{Analyzer: analyzer}
	}
	if s.Dim = len(rows[0].Vector); s.Dim > 0 {
		s.Metric = vector.Cosine
	}
	return s
}

// engine is anndb as a child measures it.
type engine struct {
	analyzer string
	d        *db.DB
	c        db.Collection
	snap     *db.Snapshot
	o        db.SearchOptions
}

// open opens a file that load has made.
func (e *engine) open(ctx context.Context, path string) (err error) {
	if e.d, err = db.Open(ctx, path, &db.Options{ReadOnly: true, MustExist: true}); err != nil {
		return err
	}
	if e.snap, err = e.d.Snapshot(); err != nil {
		return errors.Join(err, e.d.Close())
	}
	e.c = e.snap.Collection("docs")
	return nil
}

// Build makes a file, closes it and opens it.
func (e *engine) Build(ctx context.Context, rows []child.Document, folder string) error {
	path := filepath.Join(folder, "t.anndb")
	if _, err := load(ctx, path, schemaOf(rows, e.analyzer), slices.Values(rows)); err != nil {
		return err
	}
	return e.open(ctx, path)
}

// Search searches with default options.
func (e *engine) Search(ctx context.Context, q child.Document, k int) ([]child.Found, error) {
	e.o.K = k
	res, err := e.c.Search(ctx, db.Query{Text: plain(q.Text), Vector: q.Vector}, &e.o)
	if err != nil {
		return nil, err
	}
	e.o.Reuse = res.Hits
	out := make([]child.Found, len(res.Hits))
	for i, h := range res.Hits {
		row, err := strconv.ParseUint(string(h.Key), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", h.Key, err)
		}
		out[i] = child.Found{Row: uint32(row), Score: -float64(h.Distance)}
	}
	return out, nil
}

// Close closes the file.
func (e *engine) Close() error {
	if e.d == nil {
		return nil
	}
	e.snap.Release()
	return e.d.Close()
}
