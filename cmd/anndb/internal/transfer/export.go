package transfer

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
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
	Output string `arg:""`
	command.ForceFlag
	command.WhereFlag
	As string `placeholder:"FORMAT"`

	LabelNames   string `placeholder:"PATH"`
	FeatureNames string `placeholder:"PATH"`
}

func (c *Export) Run(a *command.App) error {
	outputs := []string{cmp.Or(c.LabelNames, command.Standard), cmp.Or(c.FeatureNames, command.Standard)}
	if info, err := os.Stat(c.Output); err != nil || info.Mode().IsRegular() || info.IsDir() { // not a pipe
		outputs = append(outputs, c.Output)
	}
	if err := c.Refuse(outputs, c.File); err != nil {
		return err
	}
	mode, err := command.ModeOf(c.File)
	if err != nil {
		return err
	}
	filter, err := c.Filter()
	if err != nil {
		return err
	}
	return c.WithCollection(a, func(s *db.Snapshot, info db.CollectionInfo) error {
		schema, number, err := c.schema(a, s, info, filter)
		if err != nil {
			return err
		}
		n, err := c.write(a, s, info, filter, exported{schema, number, mode})
		if err != nil {
			return err
		}
		for _, list := range []struct {
			path  string
			names []string
		}{{c.LabelNames, schema.LabelNames}, {c.FeatureNames, schema.FeatureNames}} {
			if list.path != "" {
				if err := dataset.WriteNames(list.path, list.names, mode); err != nil {
					return err
				}
			}
		}
		a.Progress.End()
		return c.report(a, info, schema, n)
	})
}

// schema describes the file to write; number has the numbers of names of features.
func (c *Export) schema(a *command.App, s *db.Snapshot, info db.CollectionInfo, filter *db.Filter) (
	o dataset.Schema, number map[string]uint32, err error) {
	o = dataset.Schema{Format: c.As, Kind: dataset.Dense, Dim: max(info.Dim, info.Features)}
	if info.Sparse {
		o.Kind = dataset.Sparse
	}
	switch {
	case c.As == "" && c.Output == command.Standard:
		o.Format = dataset.FormatJSONL
	case c.As == "":
		o.Format = dataset.FormatOf(c.Output, o.Kind)
	}
	if !info.Sparse {
		if c.LabelNames != "" || c.FeatureNames != "" {
			return o, nil, command.Usagef("--label-names and --feature-names go with sparse collections")
		}
		o.Attributes, err = c.attributeColumns(a, s, info, filter, o.Format)
		o.Expires = info.Expires
		return o, nil, err
	}
	if info.Numbering == command.FromZero {
		o.Base = dataset.BaseZero
	}
	counts, err := s.Collection(c.Collection).Labels()
	if err != nil {
		return o, nil, err
	}
	for _, l := range counts {
		o.LabelNames = append(o.LabelNames, l.Label)
	}
	if o.Format == dataset.FormatXMC && numbers(o.LabelNames) {
		o.LabelNames = nil // they are what the file says
	}
	if !info.Named {
		return o, nil, nil
	}
	// Names get numbers in the order of their rows.
	number = map[string]uint32{}
	err = command.Scan(a, s, c.Collection, filter, func(r *db.Row) error {
		for _, f := range r.Features {
			if _, known := number[f.Name]; !known {
				number[f.Name] = uint32(len(o.FeatureNames))
				o.FeatureNames = append(o.FeatureNames, f.Name)
			}
		}
		return nil
	})
	o.Dim = len(o.FeatureNames)
	return o, number, err
}

// attributeColumns returns the columns that a csv, tsv or parquet file needs for attributes: one for each
// type of an attribute's values.
func (c *Export) attributeColumns(
	a *command.App, s *db.Snapshot, info db.CollectionInfo, filter *db.Filter, format string,
) (columns []dataset.Attribute, err error) {
	if len(info.Attributes) == 0 || format == dataset.FormatJSONL || !dataset.HasAttributes(format) {
		return nil, nil
	}
	found := map[dataset.Attribute]bool{}
	err = command.Scan(a, s, c.Collection, filter, func(r *db.Row) error {
		for name, v := range r.Attributes {
			typ, err := dataset.TypeOf(v)
			if err != nil {
				return fmt.Errorf("row %q: attribute %q: %w", r.Key, name, err)
			}
			found[dataset.Attribute{Name: name, Type: typ}] = true
		}
		return nil
	})
	columns = slices.SortedFunc(maps.Keys(found), func(x, y dataset.Attribute) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.Type, y.Type))
	})
	return columns, err
}

// exported describes a file of rows to write.
type exported struct {
	schema dataset.Schema
	number map[string]uint32 // of the names of features; nil where they have none
	mode   fs.FileMode
}

// write writes the rows that pass the filter and returns how many there are.
func (c *Export) write(
	a *command.App, s *db.Snapshot, info db.CollectionInfo, filter *db.Filter, x exported,
) (n int, err error) {
	w, err := c.create(a, x.schema)
	if err != nil {
		return 0, err
	}
	defer w.Abort()
	if err := w.Chmod(x.mode); err != nil {
		return 0, err
	}
	lost := 0
	err = command.Scan(a, s, c.Collection, filter, func(r *db.Row) error {
		n++
		if len(r.Attributes) > 0 || !r.ExpiresAt.IsZero() {
			lost++
		}
		if n%1024 == 0 {
			a.Progress.Update("export", n, info.Live)
		}
		rec := dataset.Record{
			Key: r.Key, Vector: r.Vector, Features: r.Sparse, Labels: r.Labels, Payload: r.Payload,
			Attributes: r.Attributes, ExpiresAt: r.ExpiresAt,
		}
		if x.number != nil {
			rec.Features = numbered(r.Features, x.number)
		}
		return w.Write(&rec)
	})
	if err != nil {
		return n, fmt.Errorf("export to %s: %w", c.Output, err)
	}
	if lost > 0 && !dataset.HasAttributes(x.schema.Format) {
		a.Note("%d of %d rows have attributes or an expiry, which %s files do not hold (jsonl files do)",
			lost, n, x.schema.Format)
	}
	return n, w.Close()
}

// create makes the file, or a writer to standard output.
func (c *Export) create(a *command.App, s dataset.Schema) (dataset.Writer, error) {
	if c.Output == command.Standard {
		return dataset.NewWriter("standard output", a.W, s)
	}
	return dataset.Create(c.Output, s)
}

// report describes a finished export.
func (c *Export) report(a *command.App, info db.CollectionInfo, o dataset.Schema, n int) error {
	columns, values := []string{"collection", "rows", "format"}, []any{c.Collection, n, o.Format}
	written := "keys, vectors, labels, payloads"
	switch {
	case !info.Sparse && dataset.VectorsOnly(o.Format):
		written = "vectors only"
	case info.Sparse:
		columns, values = append(columns, "numbering"), append(values, exportNumbering(o))
		if written = "features, labels"; o.Format == dataset.FormatJSONL {
			written = "keys, features, labels, payloads"
		}
	}
	if dataset.HasAttributes(o.Format) && (len(info.Attributes) > 0 || info.Expires) {
		written += ", attributes"
	}
	t := table.New(append(columns, "written", "file")...)
	t.Add(append(values, written, c.Output)...)
	if c.Output == command.Standard {
		a.Output.W = a.Errs
	}
	return a.Done(t)
}

// exportNumbering is how a written file numbers features.
func exportNumbering(o dataset.Schema) any {
	switch {
	case o.Format == dataset.FormatLibsvm && o.Base != dataset.BaseZero:
		return command.NumberingShown(command.FromOne)
	case o.Format == dataset.FormatARFF, o.Format == dataset.FormatJSONL && o.FeatureNames != nil:
		return nil
	}
	return command.NumberingShown(command.FromZero)
}

// numbers reports whether all labels are numbers from 0.
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
