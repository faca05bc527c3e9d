package main

import (
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/vector"
)

// fileFlags say how to read a file of records.
type fileFlags struct {
	As             string   `help:"Format of the input (idx, fvecs, bvecs, ivecs, fbin, u8bin, i8bin, ibin, npy, npz, hdf5, parquet, csv, tsv, jsonl, words; sparse: libsvm, xmc, arff, jsonl); detected if not given." placeholder:"FORMAT"`
	Member         string   `help:"Array to read of an npz or HDF5 file; if not given, the only one, or else train, or test where queries are read." placeholder:"NAME"`
	Key            string   `name:"key-column" help:"Column or field with the key."`
	Vector         string   `name:"vector-column" help:"Column or field with the vector as a list of numbers; if not given, the field vector, or the csv column that holds a list." placeholder:"NAME"`
	Label          []string `name:"label-column" help:"Columns, fields or attributes with labels."`
	Payload        string   `name:"payload-column" help:"Column or field with the payload."`
	Attribute      []string `help:"Columns of a csv file, or fields of jsonl objects, that are attributes, with the type string, int, float, bool or time if that is not for each value to tell. So are csv columns with a type in their header." placeholder:"NAME[:TYPE]"`
	Attributes     string   `name:"attributes-field" help:"Field of jsonl objects with an object of attributes; attributes if not given." placeholder:"NAME"`
	Expiry         string   `name:"expiry-column" help:"Column or field with the time at which a row expires; expires if not given." placeholder:"NAME"`
	Separator      string   `help:"Character between the cells of a csv file; if not given, the one of comma, tab, semicolon and | that suits the first lines." placeholder:"CHAR"`
	LabelSeparator string   `help:"What separates labels in a csv cell." default:"|"`
	Ignore         []string `name:"ignore-column" help:"Columns, fields or attributes to leave out."`
	Header         string   `help:"A csv file has a header line: ${enum}." enum:"auto,yes,no" default:"auto"`
	Keys           string   `help:"File with the records' keys, one a line." placeholder:"PATH"`
	Limit          int64    `aliases:"limit-queries" help:"Most records to read; 0 for all." default:"${limit}"`
	sparseFlags    `embed:"" group:"Sparse files:"`
}

// sparseFlags say how to read a file of sparse records.
type sparseFlags struct {
	LabelsXML    string `help:"Mulan's XML file that lists which attributes of an ARFF file are labels; the one next to it if not given." placeholder:"PATH"`
	NoLabels     bool   `help:"All attributes of an ARFF file are features."`
	LabelNames   string `help:"File with the names of xmc labels, one a line." placeholder:"PATH"`
	FeatureNames string `help:"File with the names of libsvm or xmc features, one a line." placeholder:"PATH"`
	NamesColumn  int    `help:"Column of --label-names and --feature-names, parted by tabs, from 1; 0 for whole lines. PATH:2 names the column of one of them." default:"0"`
	Base         string `help:"Number of a libsvm file's first feature: ${enum}. A collection records that of its first file, and later files follow it." enum:"auto,0,1" default:"auto"`
	MaxFeatures  int    `help:"Refuse feature numbers from there on; 0 for 2^28." default:"0"`
	Field        string `name:"features-field" help:"Field of jsonl features; features if not given."`
}

// given reports whether a flag says that the file is sparse.
func (s sparseFlags) given() bool { return s != sparseFlags{Base: "auto"} }

// options are the flags as package dataset takes them; --base is left out, for what it
// means depends on the collection.
func (f fileFlags) options() (dataset.Options, error) {
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
	if f.given() {
		o.Kind = dataset.Sparse
	}
	if f.Separator != "" {
		c, n := utf8.DecodeRuneInString(f.Separator)
		if f.Separator == `\t` {
			c, n = '\t', 2
		}
		if o.Separator = c; n < len(f.Separator) {
			return o, usagef("--separator %q: want one character", f.Separator)
		}
	}
	for _, text := range f.Attribute {
		a, err := dataset.ParseAttribute(text)
		if err != nil {
			return o, fmt.Errorf("--attribute: %w", err)
		}
		o.Attributes = append(o.Attributes, a)
	}
	switch {
	case f.Limit < 0:
		return o, usagef("--limit must not be negative")
	case f.MaxFeatures < 0:
		return o, usagef("--max-features must not be negative")
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
	if n, err := strconv.Atoi(path[i+1:]); i > 0 && err == nil && n > 0 && !exists(path) {
		return path[:i], n
	}
	return path, column
}

// input is an open file of records, read for a collection.
type input struct {
	dataset.Reader
	dataset.Schema // as of its beginning; vectors made of features count as Dense
	path           string
	to             target
	rows           bool // the records are rows to import, not queries
	filled         bool // features are read as vectors
	// row makes a row of a record that is imported; its error is a fault of the record.
	row func(*dataset.Record) error
}

// source selects the records to read for a collection.
type source struct {
	path   string
	labels string // a file of labels next to the records, or empty
	flags  fileFlags
	// kind is what the collection takes. A file of sparse records gives vectors, too:
	// what a record leaves out is zero.
	kind dataset.Kind
	to   target
	rows bool // the records are rows to import, not queries
	// reject takes records that cannot be read; nil: they are errors.
	reject func(lines []byte, fault *dataset.FormatError) error
	// counting reports whether the features are only counted.
	counting bool
}

// read opens the file, or standard input.
func (s source) read(o dataset.Options) (dataset.Reader, error) {
	if s.path == standard {
		return dataset.NewReader("standard input", s.to.in, o)
	}
	return dataset.Open(s.path, o)
}

// open opens the file.
func (s source) open() (_ *input, err error) {
	if isFolder(s.path) {
		return nil, badInput("%s is a folder: name a file in it", s.path)
	}
	o, err := s.flags.options()
	if err != nil {
		return nil, err
	}
	if s.kind == dataset.Sparse {
		o.Kind = dataset.Sparse
	}
	o.Context, o.Queries = s.to.ctx, !s.rows
	if o.Base, err = s.to.base(s.flags.Base); err != nil {
		return nil, err
	}
	o.Reject = s.reject
	in := &input{path: s.path, to: s.to, rows: s.rows}
	if !s.counting {
		o.Check = in.check
	}
	o.LabelsPath = s.labels
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
func (s source) suits(in *input) error {
	info := s.to.info
	switch {
	case info != nil && info.Sparse && in.Kind == dataset.Dense:
		return badInput("collection %q is sparse, and %s holds vectors", info.Name, s.path)
	case info != nil && !info.Sparse && in.Kind == dataset.Sparse && s.kind != dataset.Dense:
		return badInput("collection %q is dense, and the records of %s are sparse (--dense takes them as vectors)",
			info.Name, s.path)
	}
	if in.Kind == dataset.Sparse {
		if err := s.to.check(in, s.flags.Base); err != nil {
			return err
		}
		if s.kind == dataset.Dense {
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
		return badInput("%s has %d dimensions, collection %q has %d%s", s.path, in.Dim, info.Name, info.Dim, hint)
	}
	return nil
}

// fill makes in give vectors. Where the file does not say how many features there are
// it is taken to have as many as the collection, or as its records name if there is no
// collection yet.
func (in *input) fill(s source) error {
	if in.namesItself() {
		return usagef("the features of %s have names, and those of vectors have numbers", in.path)
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
	in.Kind, in.filled = dataset.Dense, true
	return nil
}

// countFeatures reads a file for the largest number of a feature.
func (s source) countFeatures() (n int, err error) {
	if s.path == standard {
		return 0, usagef("the dimension is known at the end of the file: " +
			"give it by its name, not as standard input")
	}
	s.kind, s.to, s.counting = dataset.Sparse, target{ctx: s.to.ctx}, true
	if s.reject != nil { // they are counted and reported when they are imported
		s.reject = func([]byte, *dataset.FormatError) error { return nil }
	}
	in, err := s.open()
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
		return 0, badInput("no record of %s has a feature, so there is no dimension", s.path)
	}
	return n, nil
}

// check refuses records that no collection of the kind takes.
func (in *input) check(rec *dataset.Record) error {
	for i, f := range rec.Features.Index {
		switch v := rec.Features.Value[i]; {
		case in.filled && int(f) >= in.Dim:
			return fmt.Errorf("feature %d, and the collection has %d dimensions from %d on",
				f+first(in.Base), in.Dim, first(in.Base))
		case !in.filled && v < 0:
			return fmt.Errorf("feature %d has the negative value %g: "+
				"sparse values must not be negative (import with --dense)", f+first(in.Base), v)
		}
	}
	if in.filled {
		in.fillVector(rec)
	}
	if in.row != nil {
		return in.row(rec)
	}
	return nil
}

// Read reads the next record.
func (in *input) Read(rec *dataset.Record) error { return in.to.explain(in.Reader.Read(rec)) }

// fillVector makes a vector of the features of a record.
func (in *input) fillVector(rec *dataset.Record) {
	rec.Vector = slices.Grow(rec.Vector, in.Dim)[:in.Dim]
	clear(rec.Vector)
	for i, f := range rec.Features.Index {
		rec.Vector[f] = rec.Features.Value[i]
	}
	rec.Features.Index, rec.Features.Value = rec.Features.Index[:0], rec.Features.Value[:0]
}

// namesItself reports whether the records name their features: then numbers are
// an accident of the order in which the file brings them.
func (in *input) namesItself() bool {
	return in.Format == dataset.FormatJSONL && in.FeatureNames != nil
}

// query makes a record such as a collection with or without names takes it. It shares
// no memory with the record.
func (in *input) query(rec *dataset.Record, named bool) (db.Query, error) {
	if in.Kind == dataset.Dense {
		return db.Query{Vector: slices.Clone(rec.Vector)}, nil
	}
	n := rec.Features.Len()
	switch {
	case named && in.FeatureNames == nil && n > 0:
		return db.Query{}, badInput("the features of %s have no names, those of the collection have: "+
			"give --feature-names", in.path)
	case named:
		names := in.Reader.Schema().FeatureNames // which grow while reading
		q := db.Query{Features: make([]db.Feature, n)}
		for i, f := range rec.Features.Index {
			q.Features[i] = db.Feature{Name: names[f], Value: rec.Features.Value[i]}
		}
		return q, nil
	case in.namesItself() && n > 0:
		return db.Query{}, badInput("the features of %s have names, those of the collection have numbers",
			in.path)
	}
	return db.Query{Sparse: vector.Sparse{
		Index: slices.Clone(rec.Features.Index), Value: slices.Clone(rec.Features.Value),
	}}, nil
}

// allLabels are all labels that the file lists; nil where it does not.
func (in *input) allLabels() []string {
	names := in.LabelNames
	if names == nil && in.Format == dataset.FormatXMC {
		// The header counts the labels, which are called by their numbers.
		for i := range in.Labels {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}

// labelQuery is a query from anywhere, sparse or dense, with what is known of it.
type labelQuery struct {
	key    string
	query  db.Query
	labels []string
}

// queries are the records of the file as queries to the collection it is read for.
func (in *input) queries() iter.Seq2[labelQuery, error] {
	return func(yield func(labelQuery, error) bool) {
		var rec dataset.Record
		for n := 0; ; n++ {
			err := in.Read(&rec)
			if err == io.EOF && n == 0 {
				err = fmt.Errorf("%s holds no records", in.path)
			}
			if err == io.EOF {
				return
			}
			var q labelQuery
			if err == nil {
				q.query, err = in.query(&rec, in.to.info.Named)
			}
			if err == nil {
				q.key, q.labels = string(rec.Key), slices.Clone(rec.Labels)
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}

// labelQueries are queries with what is known of them, all in memory.
type labelQueries struct {
	keys    []string
	queries []db.Query
	labels  [][]string
	// names are all labels that the file lists, those of no record among them.
	names []string
}

func (l *labelQueries) add(q labelQuery) {
	l.keys = append(l.keys, q.key)
	l.queries = append(l.queries, q.query)
	l.labels = append(l.labels, q.labels)
}

// readQueries reads all records of a file as queries to a collection. labels is a file of labels next to
// them, or empty.
func readQueries(path, labels string, f fileFlags, to target) (*labelQueries, error) {
	in, err := source{path: path, labels: labels, flags: f, kind: to.kind(), to: to}.open()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := &labelQueries{}
	for q, err := range in.queries() {
		if err != nil {
			return nil, err
		}
		out.add(q)
	}
	out.names = in.allLabels()
	return out, nil
}

// readVectors reads all vectors of a file, which must have the dimensions of the
// collection.
func readVectors(path string, f fileFlags, to target) ([][]float32, error) {
	q, err := readQueries(path, "", f, to)
	if err != nil {
		return nil, err
	}
	vectors := make([][]float32, len(q.queries))
	for i, x := range q.queries {
		vectors[i] = x.Vector
	}
	return vectors, nil
}
