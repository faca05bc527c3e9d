package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/db"
)

// sparseFlags say how to read a file of sparse records, beside fileFlags.
type sparseFlags struct {
	LabelsXML    string `help:"Mulan's XML file that tells which attributes of an ARFF file are labels; the one beside it if not given." placeholder:"PATH"`
	LabelNames   string `help:"File with the names of an xmc file's labels, one a line." placeholder:"PATH"`
	FeatureNames string `help:"File with the names of a libsvm or xmc file's features, one a line." placeholder:"PATH"`
	NamesColumn  int    `help:"Column of --label-names and --feature-names, parted by tabs, from 1; 0 for whole lines." default:"0"`
	Keys         string `help:"File with the records' keys, one a line." placeholder:"PATH"`
	Base         string `help:"Number of a libsvm file's first feature: ${enum}. A collection records that of its first file, and later files follow it." enum:"auto,0,1" default:"auto"`
	MaxFeatures  int    `help:"Refuse feature numbers from there on; 0 for 2^28." default:"0"`
	Field        string `name:"features-field" help:"Field of a jsonl object with the features; features if not given."`
}

// sparseOptions are the flags as package dataset takes them; f has those that dense
// files share.
func (s sparseFlags) sparseOptions(f fileFlags) (dataset.SparseOptions, error) {
	o := dataset.SparseOptions{
		Format: f.As, KeyField: f.Key, LabelFields: f.Label, PayloadField: f.Payload, IgnoreFields: f.Ignore, Max: f.Limit,
		LabelsXML: s.LabelsXML, KeysPath: s.Keys, MaxFeatures: s.MaxFeatures, FeaturesField: s.Field,
	}
	if f.Limit < 0 {
		return o, usagef("--limit must not be negative")
	}
	if s.MaxFeatures < 0 {
		return o, usagef("--max-features must not be negative")
	}
	for _, list := range []struct {
		path string
		into *[]string
	}{{s.LabelNames, &o.LabelNames}, {s.FeatureNames, &o.FeatureNames}} {
		if list.path == "" {
			continue
		}
		var err error
		if *list.into, err = dataset.ReadNames(list.path, s.NamesColumn); err != nil {
			return o, err
		}
	}
	return o, nil
}

// noSparseFlags is what the grammar fills in.
var noSparseFlags = sparseFlags{Base: "auto"}

// given says whether any of the flags says that the file is sparse.
func (s sparseFlags) given() bool { return s != noSparseFlags }

// givenBesideBase is given without --base, which vectors from libsvm files have, too.
func (s sparseFlags) givenBesideBase() bool {
	s.Base = noSparseFlags.Base
	return s.given()
}

// holdsSparse says whether a file holds sparse records, going by the flags, the
// name, and then the first record: jsonl and plain text may hold either kind.
func holdsSparse(path string, f fileFlags, s sparseFlags) bool {
	switch {
	case slices.Contains([]string{dataset.FormatLibsvm, dataset.FormatXMC, dataset.FormatARFF}, f.As):
		return true
	case f.As != "" && f.As != dataset.FormatJSONL:
		return false
	case s.given():
		return true
	}
	byName := dataset.SparseFormatOf(path)
	if byName == dataset.FormatLibsvm || byName == dataset.FormatARFF {
		return true
	}
	if dense := dataset.FormatOf(path); dense != "" && dense != dataset.FormatJSONL {
		return false
	}
	o, err := s.sparseOptions(f)
	if err != nil {
		return false
	}
	r, err := dataset.OpenSparse(path, o)
	if err != nil {
		return false
	}
	defer r.Close()
	var rec dataset.SparseRecord
	if r.Read(&rec) != nil {
		return false
	}
	// A line of csv is also a libsvm record with labels and no feature.
	return r.Format() != dataset.FormatLibsvm || rec.Features.Len() > 0
}

// sparseInput is an open file of sparse records.
type sparseInput struct {
	dataset.SparseReader
	path string
	to   target
}

// openSparse opens a file for a collection.
func openSparse(path string, f fileFlags, s sparseFlags, to target) (*sparseInput, error) {
	o, err := s.sparseOptions(f)
	if err != nil {
		return nil, err
	}
	if o.Base, err = to.base(s.Base); err != nil {
		return nil, err
	}
	r, err := dataset.OpenSparse(path, o)
	if err != nil {
		return nil, err
	}
	in := &sparseInput{SparseReader: r, path: path, to: to}
	if err := to.check(in, s.Base); err != nil {
		_ = in.Close()
		return nil, err
	}
	return in, nil
}

// Read implements dataset.SparseReader.
func (in *sparseInput) Read(rec *dataset.SparseRecord) error {
	return in.to.explain(in.SparseReader.Read(rec))
}

// next is the next record, whose memory the reader does not use again. Negative
// values are refused here, so that an import fails before it creates anything.
func (in *sparseInput) next() (*dataset.SparseRecord, error) {
	rec := new(dataset.SparseRecord)
	if err := in.Read(rec); err != nil {
		return nil, err
	}
	for i, v := range rec.Features.Value {
		if v < 0 {
			return nil, fmt.Errorf("%s: record %q: feature %d has the negative value %g: %w: sparse values must not be negative (import with --dense)",
				in.path, rec.Key, rec.Features.Index[i], v, db.ErrFeatures)
		}
	}
	return rec, nil
}

// namesItself says whether the records name their features: then numbers are
// an accident of the order in which the file brings them.
func (in *sparseInput) namesItself() bool {
	return in.Format() == dataset.FormatJSONL && in.FeatureNames() != nil
}

// query makes a record's features such as a collection with or without names
// takes them.
func (in *sparseInput) query(rec *dataset.SparseRecord, named bool) (db.SparseQuery, error) {
	switch names := in.FeatureNames(); {
	case named && names == nil && rec.Features.Len() > 0:
		return db.SparseQuery{}, fmt.Errorf("the features of %s have no names, those of the collection have: %w", in.path, db.ErrFeatures)
	case named:
		q := db.SparseQuery{Features: make([]db.Feature, rec.Features.Len())}
		for i, f := range rec.Features.Index {
			q.Features[i] = db.Feature{Name: names[f], Value: rec.Features.Value[i]}
		}
		return q, nil
	case in.namesItself() && rec.Features.Len() > 0:
		return db.SparseQuery{}, fmt.Errorf("the features of %s have names, those of the collection have numbers: %w", in.path, db.ErrFeatures)
	}
	return db.SparseQuery{Sparse: rec.Features}, nil
}

// row makes a row of a record.
func (in *sparseInput) row(rec *dataset.SparseRecord, keys newKeys, named bool) (db.Row, error) {
	q, err := in.query(rec, named)
	return db.Row{
		Key: keys.of(rec.Key, in.Keyed()), Sparse: q.Sparse, Features: q.Features,
		Labels: rec.Labels, Payload: rec.Payload,
	}, err
}

// labelQueries are queries from anywhere, sparse or dense, with what is known of
// them.
type labelQueries struct {
	keys    []string
	queries []db.SparseQuery
	labels  [][]string
	// names are all labels that the file lists, those of no record among them.
	names []string
}

// readSparseQueries reads all records of a file as queries to a collection.
func readSparseQueries(path string, f fileFlags, s sparseFlags, to target) (*labelQueries, error) {
	in, err := openSparse(path, f, s, to)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out := &labelQueries{}
	for {
		rec, err := in.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		q, err := in.query(rec, to.info.Named)
		if err != nil {
			return nil, err
		}
		out.keys = append(out.keys, string(rec.Key))
		out.queries = append(out.queries, q)
		out.labels = append(out.labels, rec.Labels)
	}
	if len(out.keys) == 0 {
		return nil, fmt.Errorf("%s holds no records", path)
	}
	out.names = in.allLabels()
	return out, nil
}

// allLabels are all labels that the file lists; nil where it does not.
func (in *sparseInput) allLabels() []string {
	names := in.LabelNames()
	if names == nil && in.Format() == dataset.FormatXMC {
		// The header counts the labels, which are called by their numbers.
		for i := range in.NumLabels() {
			names = append(names, strconv.Itoa(i))
		}
	}
	return names
}

// askFlags are the queries to a collection.
type askFlags struct {
	Query    string `help:"File of queries." placeholder:"FILE" xor:"query" required:""`
	OfKey    string `name:"key" help:"The row of this key is the query." xor:"query" required:""`
	Features string `help:"The query itself: features with their values, numbers or names, commas between." placeholder:"NAME=V,…" xor:"query" required:""`
}

// read gets the queries.
func (q askFlags) read(a *app, s *db.Snapshot, info db.CollectionInfo, f fileFlags, sf sparseFlags) (*labelQueries, error) {
	switch {
	case q.Query != "":
		return readLabelQueries(q.Query, "", f, sf, targetOf(a, info))
	case q.OfKey != "":
		row, err := s.Get(info.Name, []byte(q.OfKey))
		if err != nil {
			return nil, fmt.Errorf("--key: %w", err)
		}
		return &labelQueries{keys: []string{q.OfKey}, queries: []db.SparseQuery{{Sparse: row.Sparse, Features: row.Features, Vector: row.Vector}}, labels: [][]string{row.Labels}}, nil
	case !info.Sparse:
		return nil, usagef("--features is for sparse collections; %q is dense: give --vector", info.Name)
	}
	base, err := targetOf(a, info).base(sf.Base)
	if err != nil {
		return nil, err
	}
	first := uint32(0)
	if base == dataset.BaseOne {
		first = 1
	}
	one, err := parseFeatures(q.Features, info, first)
	if err != nil {
		return nil, err
	}
	return &labelQueries{keys: []string{"features"}, queries: []db.SparseQuery{one}, labels: [][]string{nil}}, nil
}

// parseFeatures reads features with their values, commas between. A feature
// alone has the value one; the last = counts, since names may have one. first is
// the number of the first feature.
func parseFeatures(text string, info db.CollectionInfo, first uint32) (db.SparseQuery, error) {
	var q db.SparseQuery
	values := map[uint32]float32{}
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		part = strings.TrimSpace(part)
		name, value := part, float32(1)
		if i := strings.LastIndexByte(part, '='); i >= 0 {
			v, err := strconv.ParseFloat(part[i+1:], 32)
			switch {
			case errors.Is(err, strconv.ErrRange):
				return q, usagef("--features: %s has the value %s, which is out of the range of float32", part[:i], part[i+1:])
			case err != nil:
				return q, usagef("--features: %s has the value %q, which is not a number", part[:i], part[i+1:])
			case !(v >= 0) || math.IsInf(v, 0):
				return q, usagef("--features: %s has the value %s: sparse values must be finite and not negative", part[:i], part[i+1:])
			}
			name, value = part[:i], float32(v)
		}
		if info.Named {
			q.Features = append(q.Features, db.Feature{Name: name, Value: value})
			continue
		}
		n, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			return q, usagef("--features: %q is no number, and the collection's features have no names", name)
		}
		if uint32(n) < first {
			return q, usagef("--features: there is no feature %d: collection %q counts features from %d", n, info.Name, first)
		}
		feature := uint32(n) - first
		if _, twice := values[feature]; twice {
			return q, usagef("--features: %d is given twice", n)
		}
		values[feature] = value
		q.Sparse.Index = append(q.Sparse.Index, feature)
	}
	slices.Sort(q.Sparse.Index)
	for _, n := range q.Sparse.Index {
		q.Sparse.Value = append(q.Sparse.Value, values[n])
	}
	if len(q.Features) == 0 && q.Sparse.Len() == 0 {
		return q, usagef("--features names no feature")
	}
	return q, nil
}

// sparseOnly refuses a dense collection.
func sparseOnly(info db.CollectionInfo) error {
	if !info.Sparse {
		return fmt.Errorf("collection %q is dense: %w", info.Name, db.ErrKind)
	}
	return nil
}
