package transfer

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/internal/table"
	"github.com/anndb/anndb/vector"
)

// Export writes a collection to a file.
type Export struct {
	command.InCollection
	Output string `arg:"" type:"path"`
	command.ForceFlag
	command.WhereFlag
	As string `placeholder:"FORMAT"`

	FeatureNames string `placeholder:"PATH" type:"path"`
}

func (c *Export) Run(a *command.App) error {
	outputs := []string{cmp.Or(c.FeatureNames, command.Standard)}
	if info, err := os.Stat(c.Output); err != nil || info.Mode().IsRegular() || info.IsDir() { // not a pipe
		outputs = append(outputs, c.Output)
	}
	mode, err := c.Allow(c.File, outputs...)
	if err != nil {
		return err
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		x := exporting{Export: c, a: a, coll: s.Collection(c.Collection), info: info}
		if err := x.describe(); err != nil {
			return err
		}
		if err := x.write(mode); err != nil {
			return err
		}
		if c.FeatureNames != "" {
			if err := dataset.WriteNames(c.FeatureNames, x.schema.FeatureNames, mode); err != nil {
				return err
			}
		}
		a.Progress.End()
		return x.report()
	})
}

// exporting is an export in progress.
type exporting struct {
	*Export
	a      *command.App
	coll   db.Collection
	info   db.CollectionInfo
	schema dataset.Schema
	number map[string]uint32 // of the names of features; nil where they have none
	rows   int               // written
}

// describe fills in the schema of the file and the numbers of names of features.
func (x *exporting) describe() (err error) {
	o, info := &x.schema, x.info
	*o = dataset.Schema{Format: x.As, Kind: dataset.Dense, Dim: max(info.Dim, info.Features)}
	if info.Text != nil {
		o.Kind, o.Dim = dataset.Text, info.Dim
	} else if info.Sparse {
		o.Kind = dataset.Sparse
	}
	switch {
	case x.As == "" && x.Output == command.Standard:
		o.Format = dataset.FormatJSONL
	case x.As == "":
		o.Format = dataset.FormatOf(x.Output, o.Kind)
	}
	if o.Kind != dataset.Sparse {
		if x.FeatureNames != "" {
			return command.Usagef("--feature-names goes with sparse collections")
		}
		o.Expires = info.Expires
		o.Attributes, err = x.attributeColumns()
		return err
	}
	if info.Numbering == command.FromZero {
		o.Base = dataset.BaseZero
	}
	if !info.Named {
		return nil
	}
	// Names get numbers in the order of their rows.
	x.number = map[string]uint32{}
	for r, err := range x.coll.Rows(x.a.Ctx, x.Where.Filter) {
		if err != nil {
			return err
		}
		for _, f := range r.Features {
			if _, known := x.number[f.Name]; !known {
				x.number[f.Name] = uint32(len(o.FeatureNames))
				o.FeatureNames = append(o.FeatureNames, f.Name)
			}
		}
	}
	o.Dim = len(o.FeatureNames)
	return nil
}

// attributeColumns returns the columns that a csv, tsv or parquet file needs for attributes: one for each
// type of an attribute's values.
func (x *exporting) attributeColumns() ([]dataset.Attribute, error) {
	format := x.schema.Format
	if len(x.info.Attributes) == 0 || format == dataset.FormatJSONL || !dataset.HasAttributes(format) {
		return nil, nil
	}
	found := map[dataset.Attribute]bool{}
	for r, err := range x.coll.Rows(x.a.Ctx, x.Where.Filter) {
		if err != nil {
			return nil, err
		}
		for name, v := range r.Attributes {
			typ, err := dataset.TypeOf(v)
			if err != nil {
				return nil, fmt.Errorf("row %q: attribute %q: %w", r.Key, name, err)
			}
			found[dataset.Attribute{Name: name, Type: typ}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(x, y dataset.Attribute) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
	}), nil
}

// write writes the rows that pass the filter.
func (x *exporting) write(mode fs.FileMode) error {
	w, err := x.create(x.a, x.schema)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := w.Chmod(mode); err != nil {
		return err
	}
	lost := 0
	for r, err := range x.coll.Rows(x.a.Ctx, x.Where.Filter) {
		rec := dataset.Record{
			Key: r.Key, Vector: r.Vector, Features: r.Sparse, Text: r.Text, Labels: r.Labels, Payload: r.Payload,
			Attributes: r.Attributes, ExpiresAt: r.ExpiresAt,
		}
		if x.number != nil {
			rec.Features = numbered(r.Features, x.number)
		}
		if err == nil {
			err = w.Write(&rec)
		}
		if err != nil {
			return fmt.Errorf("export to %s: %w", x.Output, err)
		}
		if len(r.Attributes) > 0 || !r.ExpiresAt.IsZero() {
			lost++
		}
		if x.rows++; x.rows%1024 == 0 {
			x.a.Progress.Update("export", x.rows, x.info.Live)
		}
	}
	if format := x.schema.Format; lost > 0 && !dataset.HasAttributes(format) {
		x.a.Note("%d of %d rows have attributes or an expiry, which %s files do not hold (jsonl files do)",
			lost, x.rows, format)
	}
	return w.Close()
}

// create makes the file, or a writer to standard output.
func (c *Export) create(a *command.App, s dataset.Schema) (dataset.Writer, error) {
	if c.Output == command.Standard {
		return dataset.NewWriter("standard output", a.W, s)
	}
	return dataset.Create(c.Output, s)
}

// report describes a finished export.
func (x *exporting) report() error {
	a := x.a
	if x.Output == command.Standard {
		a.Output.W = a.Errs
	}
	switch format := x.schema.Format; {
	case format == dataset.FormatLibsvm:
		a.Summary("libsvm files hold no keys and payloads (jsonl files do)")
	case dataset.VectorsOnly(format):
		a.Summary("%s files hold no keys, labels and payloads (jsonl files do)", format)
	}
	return a.Done(table.One("collection rows format file", x.Collection, x.rows, x.schema.Format,
		a.Shown(x.Output)))
}

// numbered replaces names by their numbers.
func numbered(features []vector.Feature, number map[string]uint32) vector.Sparse {
	slices.SortFunc(features, func(a, b vector.Feature) int {
		return cmp.Compare(number[a.Name], number[b.Name])
	})
	var s vector.Sparse
	for _, f := range features {
		s.Index = append(s.Index, number[f.Name])
		s.Value = append(s.Value, f.Value)
	}
	return s
}
