// Package input reads queries and rows as users give them: files of records, words of the command line, and
// pictures, each for a collection that decides what numbers of features mean.
package input

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// FileFlags say how to read a file of records.
type FileFlags struct {
	As             string   `placeholder:"FORMAT"`
	Member         string   `placeholder:"NAME"`
	Key            string   `name:"key-column"`
	Vector         string   `name:"vector-column" placeholder:"NAME"`
	Label          []string `name:"label-column"`
	Payload        string   `name:"payload-column"`
	Attribute      []string `placeholder:"NAME[:TYPE]"`
	Attributes     string   `name:"attributes-field" placeholder:"NAME"`
	Expiry         string   `name:"expiry-column" placeholder:"NAME"`
	Separator      string   `placeholder:"CHAR"`
	LabelSeparator string   `default:"|"`
	Ignore         []string `name:"ignore-column"`
	Header         string   `enum:"auto,yes,no" default:"auto"`
	Keys           string   `placeholder:"PATH"`
	Limit          int64    `aliases:"limit-queries" default:"${limit}" want:"0"`
	SparseFlags    `embed:"" group:"Sparse files:"`
}

// SparseFlags say how to read a file of sparse records.
type SparseFlags struct {
	LabelsXML    string `placeholder:"PATH"`
	NoLabels     bool
	LabelNames   string `placeholder:"PATH"`
	FeatureNames string `placeholder:"PATH"`
	NamesColumn  int    `default:"0"`
	Base         string `enum:"auto,0,1" default:"auto"`
	MaxFeatures  int    `default:"0" want:"0"`
	Field        string `name:"features-field"`
}

// Given reports whether a flag says that the file is sparse.
func (s SparseFlags) Given() bool { return s != SparseFlags{Base: "auto"} }

// options are the flags as package dataset takes them; --base is left out, for what it
// means depends on the collection.
func (f FileFlags) options() (dataset.Options, error) {
	o := dataset.Options{
		Format: f.As, Member: f.Member, KeyColumn: f.Key, LabelColumns: f.Label, LabelSeparator: f.LabelSeparator,
		PayloadColumn: f.Payload, IgnoreColumns: f.Ignore, KeysPath: f.Keys, Max: f.Limit,
		VectorField: f.Vector, LabelsXML: f.LabelsXML, NoLabels: f.NoLabels,
		MaxFeatures: f.MaxFeatures, FeaturesField: f.Field,
		AttributesField: f.Attributes, ExpiryColumn: f.Expiry,
		Header: map[string]dataset.Header{
			"auto": dataset.HeaderAuto, "yes": dataset.HeaderPresent, "no": dataset.HeaderAbsent,
		}[f.Header],
	}
	if f.Given() {
		o.Kind = dataset.Sparse
	}
	if f.Separator != "" {
		c, n := utf8.DecodeRuneInString(f.Separator)
		if f.Separator == `\t` {
			c, n = '\t', 2
		}
		if o.Separator = c; n < len(f.Separator) {
			return o, command.Usagef("--separator %q: want one character", f.Separator)
		}
	}
	for _, text := range f.Attribute {
		a, err := dataset.ParseAttribute(text)
		if err != nil {
			return o, fmt.Errorf("--attribute: %w", err)
		}
		o.Attributes = append(o.Attributes, a)
	}
	for _, list := range []struct {
		path string
		into *[]string
	}{{f.LabelNames, &o.LabelNames}, {f.FeatureNames, &o.FeatureNames}} {
		if list.path == "" {
			continue
		}
		var err error
		if *list.into, err = dataset.ReadNames(namesColumn(list.path, f.NamesColumn)); err != nil {
			return o, err
		}
	}
	return o, nil
}

// namesColumn returns the path and the column of PATH:COLUMN, and column for any other path.
func namesColumn(path string, column int) (string, int) {
	i := strings.LastIndexByte(path, ':')
	if n, err := strconv.Atoi(path[i+1:]); i > 0 && err == nil && n > 0 && !command.Exists(path) {
		return path[:i], n
	}
	return path, column
}

// File is an open file of records, read for a collection.
type File struct {
	dataset.Reader
	dataset.Schema // as of its beginning; vectors made of features count as Dense
	Path           string
	to             Target
	rows           bool // the records are rows to import, not queries
	Filled         bool // features are read as vectors
	// Row makes a row of a record that is imported; its error is a fault of the record.
	Row func(*dataset.Record) error
}

// Source selects the records to read for a collection.
type Source struct {
	Path   string
	Labels string // a file of labels next to the records, or empty
	Flags  FileFlags
	// Kind is what the collection takes. A file of sparse records gives vectors, too:
	// what a record leaves out is zero.
	Kind dataset.Kind
	To   Target
	Rows bool // the records are rows to import, not queries
	// Reject takes records that cannot be read; nil: they are errors.
	Reject func(lines []byte, fault *dataset.FormatError) error
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
	if command.IsFolder(s.Path) {
		return nil, command.BadInput("%s is a folder: name a file in it", s.Path)
	}
	o, err := s.Flags.options()
	if err != nil {
		return nil, err
	}
	if s.Kind == dataset.Sparse {
		o.Kind = dataset.Sparse
	}
	o.Context, o.Queries = s.To.ctx, !s.Rows
	if o.Base, err = s.To.base(s.Flags.Base); err != nil {
		return nil, err
	}
	o.Reject = s.Reject
	in := &File{Path: s.Path, to: s.To, rows: s.Rows}
	if !s.counting {
		o.Check = in.check
	}
	o.LabelsPath = s.Labels
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
	case info != nil && info.Sparse && in.Kind == dataset.Dense:
		return command.BadInput("collection %q is sparse, and %s holds vectors", info.Name, s.Path)
	case info != nil && !info.Sparse && in.Kind == dataset.Sparse && s.Kind != dataset.Dense:
		return command.BadInput("collection %q is dense, and the records of %s are sparse (--dense takes them as vectors)",
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
	if info != nil && !info.Sparse && in.Dim != info.Dim {
		hint := ""
		if in.Dim > info.Dim && (in.Format == dataset.FormatCSV || in.Format == dataset.FormatTSV) {
			hint = ": --key-column, --label-column, --attribute and --ignore-column name columns of other uses"
		}
		return command.BadInput("%s has %d dimensions, collection %q has %d%s", s.Path, in.Dim, info.Name, info.Dim, hint)
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
		s.Reject = func([]byte, *dataset.FormatError) error { return nil }
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
	if in.Kind == dataset.Dense {
		return db.Query{Vector: slices.Clone(rec.Vector)}, nil
	}
	n := rec.Features.Len()
	switch {
	case named && in.FeatureNames == nil && n > 0:
		return db.Query{}, command.BadInput("the features of %s have no names, those of the collection have: "+
			"give --feature-names", in.Path)
	case named:
		names := in.Reader.Schema().FeatureNames // which grow while reading
		q := db.Query{Features: make([]db.Feature, n)}
		for i, f := range rec.Features.Index {
			q.Features[i] = db.Feature{Name: names[f], Value: rec.Features.Value[i]}
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

// allLabels are all labels that the file lists; nil where it does not.
func (in *File) allLabels() []string {
	names := in.LabelNames
	if names == nil && in.Format == dataset.FormatXMC {
		// The header counts the labels, which are called by their numbers.
		for i := range in.Labels {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}

// Query is a query from anywhere, sparse or dense, with what is known of it.
type Query struct {
	Key    string
	Query  db.Query
	Labels []string
}

// queries are the records of the file as queries to the collection it is read for.
func (in *File) queries() iter.Seq2[Query, error] {
	return func(yield func(Query, error) bool) {
		var rec dataset.Record
		for n := 0; ; n++ {
			err := in.Read(&rec)
			if err == io.EOF && n == 0 {
				err = fmt.Errorf("%s holds no records", in.Path)
			}
			if err == io.EOF {
				return
			}
			var q Query
			if err == nil {
				q.Query, err = in.Query(&rec, in.to.info.Named)
			}
			if err == nil {
				q.Key, q.Labels = string(rec.Key), slices.Clone(rec.Labels)
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}

// Queries are queries with what is known of them, all in memory.
type Queries struct {
	List []Query
	// Names are all labels that the file lists, those of no record among them.
	Names []string
}

// Plain are the queries alone.
func (q *Queries) Plain() []db.Query {
	out := make([]db.Query, len(q.List))
	for i, x := range q.List {
		out[i] = x.Query
	}
	return out
}

// ReadQueries reads all records of a file as queries to a collection. labels is a file of labels next to
// them, or empty.
func ReadQueries(path, labels string, f FileFlags, to Target) (*Queries, error) {
	in, err := Source{Path: path, Labels: labels, Flags: f, Kind: to.kind(), To: to}.Open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := &Queries{}
	for q, err := range in.queries() {
		if err != nil {
			return nil, err
		}
		out.List = append(out.List, q)
	}
	out.Names = in.allLabels()
	return out, nil
}

// ReadVectors reads all vectors of a file, which must have the dimensions of the
// collection.
func ReadVectors(path string, f FileFlags, to Target) ([][]float32, error) {
	q, err := ReadQueries(path, "", f, to)
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(q.List))
	for i, x := range q.List {
		vectors[i] = x.Query.Vector
	}
	return vectors, nil
}
