package main

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/anndb/anndb/cmd/anndb/internal/table"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// sparse exports a sparse collection.
func (c *exportCmd) sparse(a *app, s *db.Snapshot, info db.CollectionInfo, mode fs.FileMode) error {
	format := c.As
	if format == "" {
		format = dataset.SparseFormatOf(c.Output)
	}
	h := dataset.SparseHeader{Features: info.Dim}
	if info.Numbering == db.NumberedFromZero {
		h.Base = dataset.BaseZero
	}
	counts, err := s.Labels(c.Collection)
	if err != nil {
		return err
	}
	for _, l := range counts {
		h.LabelNames = append(h.LabelNames, l.Label)
	}
	if format == dataset.FormatXMC && numbers(h.LabelNames) {
		h.LabelNames = nil // they are what the file says
	}
	// Names get numbers in the order of their rows.
	number := map[string]uint32{}
	if info.Named {
		err := scan(a, s, c.Collection, func(r *db.Row) error {
			for _, f := range r.Features {
				if _, known := number[f.Name]; !known {
					number[f.Name] = uint32(len(h.FeatureNames))
					h.FeatureNames = append(h.FeatureNames, f.Name)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		h.Features = len(h.FeatureNames)
	}
	w, err := dataset.CreateSparse(c.Output, format, h)
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
		rec := dataset.SparseRecord{Key: r.Key, Features: r.Sparse, Labels: r.Labels, Payload: r.Payload}
		if info.Named {
			rec.Features = numbered(r.Features, number)
		}
		return w.Write(&rec)
	})
	if err != nil {
		return fmt.Errorf("export to %s: %w", c.Output, err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	for _, list := range []struct {
		path  string
		names []string
	}{{c.LabelNames, h.LabelNames}, {c.FeatureNames, h.FeatureNames}} {
		if list.path != "" {
			if err := dataset.WriteNames(list.path, list.names, mode); err != nil {
				return err
			}
		}
	}
	a.progress.end()
	written := "features, labels"
	if format == dataset.FormatJSONL {
		written = "keys, features, labels, payloads"
	}
	t := table.New("collection", "rows", "format", "numbering", "written", "file")
	t.Add(c.Collection, n, format, exportNumbering(format, h), written, c.Output)
	return a.table(t)
}

// exportNumbering is how a written file numbers features.
func exportNumbering(format string, h dataset.SparseHeader) any {
	switch {
	case format == dataset.FormatLibsvm && h.Base != dataset.BaseZero:
		return numberingShown(db.NumberedFromOne)
	case format == dataset.FormatARFF, format == dataset.FormatJSONL && h.FeatureNames != nil:
		return nil
	}
	return numberingShown(db.NumberedFromZero)
}

// numbers says whether all labels are numbers from 0.
func numbers(names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		i, err := strconv.ParseUint(n, 10, 31)
		return err != nil || strconv.FormatUint(i, 10) != n
	})
}

// numbered replaces names by their numbers.
func numbered(features []db.Feature, number map[string]uint32) vector.Sparse {
	slices.SortFunc(features, func(a, b db.Feature) int { return int(number[a.Name]) - int(number[b.Name]) })
	var s vector.Sparse
	for _, f := range features {
		s.Index = append(s.Index, number[f.Name])
		s.Value = append(s.Value, f.Value)
	}
	return s
}
