package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/postings"
	"github.com/anndb/anndb/vector"
)

// set is a data set: indexed rows, and queries apart from them.
type set struct {
	name        string
	rows, tests *vector.CSR
	// raw is the values of the rows before they were weighed, idf the weights of
	// the features, norm the length of each row before it was one.
	raw  []float32
	idf  []float32
	norm []float64
}

// source is where a set comes from and what is done to its values.
type source struct {
	name        string
	train, test []string // test empty: the last third of the rows
	tfidf       bool
	share       float64 // of the rows for train where test is empty
}

var sources = []source{
	{name: "medical", train: []string{"medical/medical-train.arff.gz"},
		test: []string{"medical/medical-test.arff.gz"}},
	{name: "corel5k", train: []string{"corel5k/Corel5k-train-sparse.arff.gz"},
		test: []string{"corel5k/Corel5k-test-sparse.arff.gz"}},
	{name: "enron", train: []string{"enron/enron-train.arff.gz"},
		test: []string{"enron/enron-test.arff.gz"}},
	{name: "bibtex", train: []string{"bibtex/bibtex-train.arff.gz"},
		test: []string{"bibtex/bibtex-test.arff.gz"}},
	{name: "delicious", train: []string{"delicious/delicious-train.arff.gz"},
		test: []string{"delicious/delicious-test.arff.gz"}},
	{name: "reutersk500", train: []string{"reutersk500/reutersk500.txt.gz"}},
	{name: "rcv1sub123", train: []string{"rcv1sub1/rcv1sub1.txt.gz", "rcv1sub2/rcv1sub2.txt.gz",
		"rcv1sub3/rcv1sub3.txt.gz"}, share: 0.9},
	{name: "stackex_cs", train: []string{"stackex_cs/stackex_cs.txt.gz"}, share: 0.9},
	{name: "yahoo_business", train: []string{"yahoo_business/yahoo_business.txt.gz"}, share: 0.9},
	{name: "yahoo_education", train: []string{"yahoo_education/yahoo_education.txt.gz"}, share: 0.9},
	{name: "ng20", train: []string{"ng20/ng20.txt.gz"}, share: 0.9},
	{name: "ohsumed", train: []string{"ohsumed/ohsumed.txt.gz"}, share: 0.9},
	{name: "imdb", train: []string{"imdb/Imdb.arff.bz2"}, share: 0.6},
	{name: "eurlex57k", train: []string{"eurlex57k/eurlex57k-train.txt.gz"},
		test: []string{"eurlex57k/eurlex57k-test.txt.gz"}, tfidf: true},
	{name: "news20", train: []string{"news20-bydate/news20-bydate-train.txt.gz"},
		test: []string{"news20-bydate/news20-bydate-test.txt.gz"}, tfidf: true},
}

// load reads a set and makes its rows unit-length.
func (s source) load(dir string) (*set, error) {
	o := dataset.Options{Kind: dataset.Sparse}
	all := func(names []string) (*vector.CSR, error) {
		m := &vector.CSR{Ptr: []uint64{0}}
		for _, name := range names {
			if err := read(m, filepath.Join(dir, name), &o); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		return m, nil
	}
	rows, err := all(s.train)
	if err != nil {
		return nil, err
	}
	out := &set{name: s.name, rows: rows}
	if s.test != nil {
		if out.tests, err = all(s.test); err != nil {
			return nil, err
		}
	} else {
		share := s.share
		if share == 0 {
			share = 2.0 / 3
		}
		out.rows, out.tests = split(rows, int(share*float64(rows.Rows())))
	}
	out.normalise(s.tfidf)
	return out, nil
}

// storedShift gives runs of 1024 rows, as databases have them.
const storedShift = 10

// stored returns an index whose rows are the rows of the set before weighting.
func (s *set) stored(ix *postings.Index) (*postings.Index, error) {
	var runs []vector.CSR
	raw := &vector.CSR{Ptr: s.rows.Ptr, Index: s.rows.Index, Value: s.raw, Cols: s.rows.Cols}
	for i := range raw.Rows() {
		if i%(1<<storedShift) == 0 {
			runs = append(runs, vector.CSR{Ptr: []uint64{0}, Value: []float32{}, Cols: raw.Cols})
		}
		runs[len(runs)-1].Append(raw.Row(i))
	}
	source, err := postings.NewSource(runs, storedShift, 0, raw.Rows(), raw.Cols)
	if err != nil {
		return nil, err
	}
	source.IDF, source.Norm = s.idf, s.norm
	out := *ix
	out.Rows, out.Source = nil, source
	return &out, out.Validate()
}

func split(m *vector.CSR, n int) (a, b *vector.CSR) {
	a, b = &vector.CSR{Ptr: []uint64{0}, Cols: m.Cols}, &vector.CSR{Ptr: []uint64{0}, Cols: m.Cols}
	for i := range m.Rows() {
		if i < n {
			a.Append(m.Row(i))
		} else {
			b.Append(m.Row(i))
		}
	}
	return a, b
}

// read appends the rows of a file to m. o numbers its features as those of the first file.
func read(m *vector.CSR, path string, o *dataset.Options) error {
	f, err := dataset.Open(path, *o)
	if err != nil {
		return err
	}
	defer f.Close()
	o.Base = f.Schema().Base
	for rec, err := range dataset.All(f) {
		if err != nil {
			return err
		}
		m.Append(rec.Features)
	}
	return nil
}

// normalise weighs values if asked to, and makes rows unit-length.
func (s *set) normalise(tfidf bool) {
	s.raw = slices.Clone(s.rows.Value)
	if tfidf {
		s.idf = weigh(s.rows, s.tests)
	}
	s.norm = postings.Lengths(s.rows, nil)
	unit(s.rows)
	unit(s.tests)
}

// weigh turns counts into (1 + ln count)·ln(rows/df); features that no row has
// weigh nothing and go. It returns the logarithms of the rows' features.
func weigh(rows, tests *vector.CSR) []float32 {
	df := make([]int, max(rows.Cols, tests.Cols))
	for _, f := range rows.Index {
		df[f]++
	}
	idf := make([]float32, len(df))
	for f, n := range df {
		if n > 0 {
			idf[f] = float32(math.Log(float64(rows.Rows()) / float64(n)))
		}
	}
	for _, m := range []*vector.CSR{rows, tests} {
		for e, f := range m.Index {
			m.Value[e] = postings.TermWeight(m.Value[e]) * idf[f]
		}
	}
	return idf[:rows.Cols]
}

func unit(m *vector.CSR) {
	for i := range m.Rows() {
		r := m.Row(i)
		if n := r.Norm(); n > 0 {
			for e := range r.Value {
				r.Value[e] = float32(float64(r.Value[e]) / n)
			}
		}
	}
}

// powerLaw is a generated set: topics with power-law features, and Zipf
// background words, weighted by tf-idf.
func powerLaw(rows, tests, features, nonZeros int, seed uint64) *set {
	r := rand.New(rand.NewPCG(seed, 1))
	background := rand.NewZipf(r, 1.1, 8, uint64(features-1))
	const topicWords = 400
	topics := make([][]uint32, 2000)
	for t := range topics {
		topics[t] = make([]uint32, topicWords)
		for i := range topics[t] {
			topics[t][i] = uint32(background.Uint64()*7919+uint64(r.IntN(features))) % uint32(features)
		}
	}
	topicOf := rand.NewZipf(r, 1.05, 20, uint64(len(topics)-1))
	wordOf := rand.NewZipf(r, 1.2, 10, topicWords-1)
	draw := func(n int) *vector.CSR {
		m := &vector.CSR{Ptr: []uint64{0}, Cols: features}
		counts := map[uint32]int{}
		for range n {
			clear(counts)
			a, b := topics[topicOf.Uint64()], topics[topicOf.Uint64()]
			length := int(float64(nonZeros) * (0.4 + r.ExpFloat64()*0.6))
			for range max(length, 4) {
				switch x := r.Float64(); {
				case x < 0.6:
					counts[uint32(background.Uint64())]++
				case x < 0.9:
					counts[a[wordOf.Uint64()]]++
				default:
					counts[b[wordOf.Uint64()]]++
				}
			}
			var v vector.Sparse
			for f := range counts {
				v.Index = append(v.Index, f)
			}
			slices.Sort(v.Index)
			for _, f := range v.Index {
				v.Value = append(v.Value, float32(counts[f]))
			}
			m.Append(v)
		}
		m.Cols = features
		return m
	}
	s := &set{name: fmt.Sprintf("power-law %d", rows), rows: draw(rows), tests: draw(tests)}
	s.normalise(true)
	return s
}
