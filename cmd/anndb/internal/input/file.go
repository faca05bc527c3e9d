// Package input reads queries and rows as users give them: files of records and words of the command line,
// each for a collection that decides what numbers of features mean.
package input

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// File is an open file of records, read for a collection.
type File struct {
	dataset.Reader
	dataset.Schema // as of its beginning; vectors made of features count as Dense
	Path           string
	to             Target
	Filled         bool // features are read as vectors
	// Row makes a row of a record that is imported; its error is a fault of the record.
	Row func(*dataset.Record) error
}

// Source selects the records to read for a collection.
type Source struct {
	Path string
	// Labels and Vectors are files of labels and of vectors next to the records, or empty.
	Labels, Vectors string
	Flags           FileFlags
	// FolderLabels adds the folders of text files as labels.
	FolderLabels bool
	// Kind is what the collection takes. A file of sparse records gives vectors, too:
	// what a record leaves out is zero.
	Kind dataset.Kind
	To   Target
	Rows bool // the records are rows to import, not queries
	// Reject takes records that cannot be read; nil: they are errors.
	Reject func(*dataset.FormatError) error
	// counting reports whether the features are only counted.
	counting bool
}

// read opens the file, or standard input.
func (s Source) read(o dataset.Options) (dataset.Reader, error) {
	if s.Path == command.Standard {
		return dataset.NewReader("standard input", s.To.in, o)
	}
	return dataset.Open(s.Path, o)
}

// Open opens the file.
func (s Source) Open() (_ *File, err error) {
	folder := command.IsFolder(s.Path)
	switch {
	case folder && (!s.Rows || s.Kind == dataset.Dense || s.Kind == dataset.Sparse):
		return nil, command.BadInput("%s is a folder: name a file in it", s.Path)
	case s.FolderLabels && !folder:
		return nil, command.Usagef("--folder-labels is for folders of texts, and %s is a file", s.Path)
	}
	o, err := s.Flags.options()
	if err != nil {
		return nil, err
	}
	if s.Kind == dataset.Sparse || s.Kind == dataset.Text {
		o.Kind = s.Kind
	}
	o.FolderLabels = s.FolderLabels
	o.Context, o.Queries = s.To.ctx, !s.Rows
	if o.Base, err = s.To.base(s.Flags.Base); err != nil {
		return nil, err
	}
	o.Reject = s.Reject
	in := &File{Path: s.Path, to: s.To}
	if !s.counting {
		o.Check = in.check
	}
	o.LabelsPath, o.VectorsPath = s.Labels, s.Vectors
	r, err := s.read(o)
	if err != nil {
		return nil, err
	}
	in.Reader, in.Schema = r, r.Schema()
	defer func() {
		if err != nil {
			_ = in.Close()
		}
	}()
	return in, s.suits(in)
}

// suits refuses records that the collection cannot take, and makes vectors of features
// for one that takes vectors.
func (s Source) suits(in *File) error {
	info := s.To.info
	switch {
	case info != nil && info.Text == nil && in.Kind == dataset.Text:
		return command.BadInput("collection %q is %v, and %s holds texts", info.Name, s.To.kind(), s.Path)
	case info != nil && info.Dim == 0 && in.Kind == dataset.Text && in.Dim > 0:
		return command.BadInput("collection %q has texts without vectors, and %s has vectors next to its texts "+
			"(--ignore-column leaves out a column or field)", info.Name, s.Path)
	case info != nil && info.Sparse && in.Kind == dataset.Dense:
		return command.BadInput("collection %q is sparse, and %s holds vectors", info.Name, s.Path)
	case info != nil && !info.Sparse && in.Kind == dataset.Sparse && s.Kind != dataset.Dense:
		return command.BadInput("collection %q is dense, and the records of %s are sparse "+
			"(--dense takes them as vectors)",
			info.Name, s.Path)
	}
	if in.Kind == dataset.Sparse {
		if err := s.To.check(in, s.Flags.Base); err != nil {
			return err
		}
		if s.Kind == dataset.Dense {
			if err := in.fill(s); err != nil {
				return err
			}
		}
	}
	missing := in.Kind == dataset.Text && in.Dim == 0
	if info != nil && info.Dim > 0 && in.Dim != info.Dim && !missing {
		hint := ""
		if in.Dim > info.Dim && (in.Format == dataset.FormatCSV || in.Format == dataset.FormatTSV) {
			hint = ": --key-column, --label-column, --attribute and --ignore-column name columns of other uses"
		}
		return command.BadInput("%s has %d dimensions, collection %q has %s%s",
			cmp.Or(s.Vectors, s.Path), in.Dim, info.Name, dimOf(*info), hint)
	}
	return nil
}

// fill makes in give vectors. Where the file does not say how many features there are
// it is taken to have as many as the collection, or as its records name if there is no
// collection yet.
func (in *File) fill(s Source) error {
	if in.NamesItself() {
		return command.Usagef("the features of %s have names, and those of vectors have numbers", in.Path)
	}
	if in.Dim < 1 && in.to.info != nil {
		in.Dim = in.to.info.Dim
	}
	if in.Dim < 1 {
		var err error
		if in.Dim, err = s.countFeatures(); err != nil {
			return err
		}
	}
	in.Kind, in.Filled = dataset.Dense, true
	return nil
}

// countFeatures reads a file for the largest number of a feature.
func (s Source) countFeatures() (n int, err error) {
	if s.Path == command.Standard {
		return 0, command.Usagef("the dimension is known at the end of the file: " +
			"give it by its name, not as standard input")
	}
	s.Kind, s.To, s.counting = dataset.Sparse, Target{ctx: s.To.ctx}, true
	if s.Reject != nil { // they are counted and reported when they are imported
		s.Reject = func(*dataset.FormatError) error { return nil }
	}
	in, err := s.Open()
	if err != nil {
		return 0, err
	}
	defer in.Close()
	for rec, err := range dataset.All(in.Reader) {
		if err != nil {
			return 0, err
		}
		if f := rec.Features.Index; len(f) > 0 {
			n = max(n, int(f[len(f)-1])+1)
		}
	}
	if n == 0 {
		return 0, command.BadInput("no record of %s has a feature, so there is no dimension", s.Path)
	}
	return n, nil
}

// check refuses records that no collection of the kind takes.
func (in *File) check(rec *dataset.Record) error {
	for i, f := range rec.Features.Index {
		switch v := rec.Features.Value[i]; {
		case in.Filled && int(f) >= in.Dim:
			return fmt.Errorf("feature %d, and the collection has %d dimensions from %d on",
				f+first(in.Base), in.Dim, first(in.Base))
		case !in.Filled && v < 0:
			return fmt.Errorf("feature %d has the negative value %g: "+
				"sparse values must not be negative (import with --dense)", f+first(in.Base), v)
		}
	}
	if in.Filled {
		in.fillVector(rec)
	}
	if in.Row != nil {
		return in.Row(rec)
	}
	return nil
}

// Read reads the next record.
func (in *File) Read(rec *dataset.Record) error { return in.to.explain(in.Reader.Read(rec)) }

// fillVector makes a vector of the features of a record.
func (in *File) fillVector(rec *dataset.Record) {
	rec.Vector = slices.Grow(rec.Vector, in.Dim)[:in.Dim]
	clear(rec.Vector)
	for i, f := range rec.Features.Index {
		rec.Vector[f] = rec.Features.Value[i]
	}
	rec.Features.Index, rec.Features.Value = rec.Features.Index[:0], rec.Features.Value[:0]
}

// NamesItself reports whether the records name their features: then numbers are
// an accident of the order in which the file brings them.
func (in *File) NamesItself() bool {
	return in.Format == dataset.FormatJSONL && in.FeatureNames != nil
}

// Query makes a record such as a collection with or without names takes it. It shares
// no memory with the record.
func (in *File) Query(rec *dataset.Record, named bool) (db.Query, error) {
	switch in.Kind {
	case dataset.Dense:
		return db.Query{Vector: slices.Clone(rec.Vector)}, nil
	case dataset.Text:
		q := db.Query{Text: rec.Text}
		if len(rec.Vector) > 0 {
			q.Vector = slices.Clone(rec.Vector)
		}
		return q, nil
	}
	n := rec.Features.Len()
	switch {
	case named && in.FeatureNames == nil && n > 0:
		return db.Query{}, command.BadInput("the features of %s have no names, those of the collection have: "+
			"give --feature-names", in.Path)
	case named:
		names := in.Reader.Schema().FeatureNames // which grow while reading
		q := db.Query{Features: make([]vector.Feature, n)}
		for i, f := range rec.Features.Index {
			q.Features[i] = vector.Feature{Name: names[f], Value: rec.Features.Value[i]}
		}
		return q, nil
	case in.NamesItself() && n > 0:
		return db.Query{}, command.BadInput("the features of %s have names, those of the collection have numbers",
			in.Path)
	}
	return db.Query{Sparse: vector.Sparse{
		Index: slices.Clone(rec.Features.Index), Value: slices.Clone(rec.Features.Value),
	}}, nil
}
