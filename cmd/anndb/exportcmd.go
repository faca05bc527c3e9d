package main

import (
	"fmt"
	"os"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// exportCmd writes a collection to a file.
type exportCmd struct {
	inFile
	Collection string `arg:"" help:"Collection."`
	Output     string `arg:"" help:"File to write; compressed if its name ends in .gz."`
	As         string `help:"Format of the output (idx, fvecs, bvecs, ivecs, npy, csv, tsv, jsonl; of sparse rows libsvm, xmc, arff, jsonl); by its name if not given." placeholder:"FORMAT"`

	LabelNames   string `help:"Also write the names of the labels of sparse rows, by number, to this file." placeholder:"PATH"`
	FeatureNames string `help:"Also write the names of the features of sparse rows, by number, to this file." placeholder:"PATH"`
}

// Run executes the command.
func (c *exportCmd) Run(a *app) error {
	source, err := os.Stat(c.File)
	if err != nil {
		return explain(c.File, err)
	}
	mode := source.Mode().Perm() // an export is as private as the database
	return c.collection(a, c.Collection, func(s *db.Snapshot, info db.CollectionInfo) error {
		if info.Sparse {
			return c.sparse(a, s, info, mode)
		}
		if c.LabelNames != "" || c.FeatureNames != "" {
			return usagef("--label-names and --feature-names go with sparse collections")
		}
		w, err := dataset.Create(c.Output, c.As, info.Dim)
		if err != nil {
			return err
		}
		defer w.Abort()
		if err := w.Chmod(mode); err != nil {
			return err
		}
		n := 0
		err = scan(a, s, c.Collection, func(r *db.Row) error {
			n++
			if n%1024 == 0 {
				a.progress.update("export", n, info.Live)
			}
			return w.Write(&dataset.Record{Key: r.Key, Vector: r.Vector, Labels: r.Labels, Payload: r.Payload})
		})
		if err != nil {
			return fmt.Errorf("export to %s: %w", c.Output, err)
		}
		if err := w.Close(); err != nil {
			return err
		}
		a.progress.end()
		format := c.As
		if format == "" {
			format = dataset.FormatOf(c.Output)
		}
		written := "keys, vectors, labels, payloads"
		if dataset.VectorsOnly(format) {
			written = "vectors only"
		}
		t := table.New("collection", "rows", "format", "written", "file")
		t.Add(c.Collection, n, format, written, c.Output)
		return a.table(t)
	})
}
