package lcifbench

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/labels"
	"github.com/anndb/anndb/vector"
)

// ErrSet is returned for a data set that is not known.
var ErrSet = errors.New("lcifbench: unknown data set")

// Part is labelled rows: N × M features as the file has them, N × L labels.
type Part struct {
	Rows   *vector.CSR
	Labels *labels.Matrix
}

// Set is a data set with its published division.
type Set struct {
	Name string
	// Train is what models are made of, Test what they are measured on.
	Train, Test Part
	// Dev is for tuning; without rows where the set has none.
	Dev Part
	// Dense is set if coordinates may be negative, and the rows are no features.
	Dense bool
	// Note describes what is particular about the division or the values.
	Note string
}

// source says where a set lies and how it is divided.
type source struct {
	name             string
	train, dev, test string
	names            string // file of label names, for xmc
	share            float64
	hashed, dense    bool
	note             string
	tfidf            bool
	// large are sets whose tuning looks at a sample of the training rows.
	large bool
	// table2 has the paper's figures.
	table2 bool
}

// hashedNote describes the division of sets that have none of their own.
const hashedNote = "a third to test, by the hash of the row's number"

var sources = []source{
	{name: "medical", train: "medical/medical-train.arff.gz", test: "medical/medical-test.arff.gz", table2: true},
	{name: "corel5k", train: "corel5k/Corel5k-train-sparse.arff.gz", test: "corel5k/Corel5k-test-sparse.arff.gz", table2: true,
		note: "4,500 training rows: the paper's 5,000 are these and the test rows"},
	{name: "bibtex", train: "bibtex/bibtex-train.arff.gz", test: "bibtex/bibtex-test.arff.gz", table2: true},
	{name: "delicious", train: "delicious/delicious-train.arff.gz", test: "delicious/delicious-test.arff.gz", table2: true, large: true},
	{name: "imdb", train: "imdb/Imdb.arff.bz2", share: 0.6, table2: true, large: true,
		note: "first 60 % to train: how the paper divides is not known"},
	{name: "eurlex57k", train: "eurlex57k/eurlex57k-train.txt.gz", dev: "eurlex57k/eurlex57k-dev.txt.gz", test: "eurlex57k/eurlex57k-test.txt.gz",
		names: "eurlex57k/labels.txt.gz", tfidf: true, large: true, note: "stands for Eurlex and Wiki10; tf-idf"},
	{name: "news20-bydate", train: "news20-bydate/news20-bydate-train.txt.gz", test: "news20-bydate/news20-bydate-test.txt.gz",
		names: "news20-bydate/labels.txt.gz", tfidf: true, large: true, note: "tf-idf"},
	{name: "yahoo_business", train: "yahoo_business/yahoo_business.txt.gz", names: "yahoo_business/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "yahoo_education", train: "yahoo_education/yahoo_education.txt.gz", names: "yahoo_education/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "ng20", train: "ng20/ng20.txt.gz", names: "ng20/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "ohsumed", train: "ohsumed/ohsumed.txt.gz", names: "ohsumed/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "corel16k001", train: "corel16k001/corel16k001.txt.gz", names: "corel16k001/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "reutersk500", train: "reutersk500/reutersk500.txt.gz", names: "reutersk500/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "stackex_cs", train: "stackex_cs/stackex_cs.txt.gz", names: "stackex_cs/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "rcv1sub1", train: "rcv1sub1/rcv1sub1.txt.gz", names: "rcv1sub1/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "rcv1sub2", train: "rcv1sub2/rcv1sub2.txt.gz", names: "rcv1sub2/labels.txt.gz", hashed: true, large: true, note: hashedNote},
	{name: "cal500", train: "cal500/cal500.arff.gz", dense: true, hashed: true, note: hashedNote},
	{name: "yeast", train: "yeast/yeast-train.arff.gz", test: "yeast/yeast-test.arff.gz", dense: true},
	{name: "scene", train: "scene/scene-train.arff.gz", test: "scene/scene-test.arff.gz", dense: true},
	{name: "tmc2007-500", train: "tmc2007-500/tmc2007-500-train.arff.gz", test: "tmc2007-500/tmc2007-500-test.arff.gz", large: true},
	{name: "enron", train: "enron/enron-train.arff.gz", test: "enron/enron-test.arff.gz"},
}

// Names is the sets that can be loaded; paper only those of Table 2.
func Names(paper bool) []string {
	var out []string
	for _, s := range sources {
		if s.table2 || !paper {
			out = append(out, s.name)
		}
	}
	return out
}

func find(name string) (source, error) {
	for _, s := range sources {
		if s.name == name {
			return s, nil
		}
	}
	return source{}, fmt.Errorf("%w: %q, want one of %v", ErrSet, name, Names(false))
}

// Load reads a set below the folder of data sets. Rows of word counts are
// weighted by [TFIDF]; others are as the files have them. Errors: ErrSet, those
// of package dataset, the context's.
func Load(ctx context.Context, dir, name string) (*Set, error) {
	set, err := Read(ctx, dir, name)
	if err != nil {
		return nil, err
	}
	if s, _ := find(name); s.tfidf {
		TFIDF(set.Train.Rows, set.Train.Rows, set.Dev.Rows, set.Test.Rows)
	}
	return set, nil
}

// Read reads a set as the files have it. Errors: those of Load.
func Read(ctx context.Context, dir, name string) (*Set, error) {
	s, err := find(name)
	if err != nil {
		return nil, err
	}
	set := &Set{Name: name, Note: s.note, Dense: s.dense}
	o := dataset.Options{Kind: dataset.Sparse}
	if s.names != "" {
		// Names of labels may repeat, their numbers do not.
		list, err := dataset.ReadNames(filepath.Join(dir, filepath.FromSlash(s.names)), 0)
		if err != nil {
			return nil, err
		}
		for i := range list {
			list[i] = fmt.Sprint(i)
		}
		o.LabelNames = list
	}
	r := &reader{ctx: ctx, o: o}
	read := func(file string) Part {
		if file == "" || r.err != nil {
			return Part{}
		}
		return r.read(filepath.Join(dir, filepath.FromSlash(file)))
	}
	set.Train, set.Dev, set.Test = read(s.train), read(s.dev), read(s.test)
	if r.err != nil {
		return nil, r.err
	}
	switch {
	case s.hashed:
		train, test := Divide(set.Train.Rows.Rows())
		set.Train, set.Test = set.Train.take(train), set.Train.take(test)
	case s.test == "":
		set.Train, set.Test = cut(set.Train, s.share)
	}
	for _, p := range []*Part{&set.Train, &set.Dev, &set.Test} {
		if p.Rows != nil {
			p.Rows.Cols = r.features
		}
	}
	return set, nil
}

// Divide divides the numbers of n rows: a third of them, by the hash of the number, to test, and the rest to train.
func Divide(n int) (train, test []int) { return hashed(n, "", 3) }

// HeldOut divides the numbers of n training rows: a fifth of them, by the hash of the number, to choose by, and the
// rest to learn from.
func HeldOut(n int) (learn, held []int) { return hashed(n, "v", 5) }

// hashed divides numbers: those whose hash with a salt the divisor divides, and the rest.
func hashed(n int, salt string, divisor uint32) (rest, some []int) {
	for i := range n {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s%d", salt, i))
		if binary.BigEndian.Uint32(sum[:])%divisor == 0 {
			some = append(some, i)
		} else {
			rest = append(rest, i)
		}
	}
	return rest, some
}

// take returns the rows of a list.
func (p Part) take(rows []int) Part {
	return Part{labels.SelectRows(p.Rows, rows), p.Labels.Select(rows)}
}

// cut divides rows: the first share of them, rounded down, and the rest.
func cut(p Part, share float64) (Part, Part) {
	n := p.Rows.Rows()
	m := int(share * float64(n))
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return p.take(all[:m]), p.take(all[m:])
}

// reader reads the parts of one set.
type reader struct {
	ctx      context.Context
	o        dataset.Options
	features int
	names    []string
	err      error
}

func (r *reader) read(path string) Part {
	p, err := r.part(path)
	if err != nil {
		r.err = err
		return Part{}
	}
	return p
}

func (r *reader) part(path string) (Part, error) {
	f, err := dataset.Open(path, r.o)
	if err != nil {
		return Part{}, err
	}
	defer f.Close()
	r.o.Base = f.Schema().Base // all parts number features as the first one does
	if r.names == nil {
		r.names = f.Schema().LabelNames
	}
	b, err := labels.NewBuilder(r.names)
	if err != nil {
		return Part{}, err
	}
	x := &vector.CSR{Ptr: []uint64{0}, Value: []float32{}}
	for rec, err := range dataset.All(f) {
		if err != nil {
			return Part{}, err
		}
		if err := r.ctx.Err(); err != nil {
			return Part{}, fmt.Errorf("lcifbench: %w", err)
		}
		x.Append(rec.Features)
		b.Add(rec.Labels)
	}
	if len(b.Names()) != len(r.names) {
		return Part{}, fmt.Errorf("%s: %d labels, the first part has %d", path, len(b.Names()), len(r.names))
	}
	r.features = max(r.features, x.Cols, f.Schema().Dim)
	return Part{x, b.Matrix()}, nil
}

// TFIDF weights counts in place: (1 + ln count)·ln(N/df), where df of the N
// rows of train have the feature; features that train has not become zero.
// train may be among the weighted. nil parts are passed over.
func TFIDF(train *vector.CSR, parts ...*vector.CSR) {
	df := make([]int, train.Cols)
	for e, f := range train.Index {
		if train.Value[e] > 0 {
			df[f]++
		}
	}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for e, f := range p.Index {
			w := 0.0
			if c := float64(p.Value[e]); c > 0 && df[f] > 0 {
				w = (1 + math.Log(max(1, c))) * math.Log(float64(train.Rows())/float64(df[f]))
			}
			p.Value[e] = float32(w)
		}
	}
}
