// Package vectors has the data sets of the benchmarks of dense search.
package vectors

import (
	"errors"
	"fmt"
	"hash/crc64"
	"math"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/vector"
)

// Set is a corpus with two sets of queries that it does not hold: test rows,
// on which all figures are quoted, and validation rows, on which settings are
// chosen.
type Set struct {
	Name string
	// Metric is L2 or Cosine; for Cosine all rows have unit length.
	Metric vector.Metric
	Dim    int
	Base   []float32
	Test   []float32
	Valid  []float32
	// Whole says that all coordinates are whole numbers from 0 to 255.
	Whole bool
}

func (s *Set) Rows() int { return len(s.Base) / s.Dim }

// QueryRows is how many rows the test and validation queries have.
const QueryRows = 1000

var errSet = errors.New("unknown data set")

// Names are the names that Load takes.
func Names() []string {
	names := []string{"fashion-mnist", "mnist", "glove-100d", "glove-100d-cosine", "wordnet", examples}
	names = append(names, textNames()...)
	for _, law := range Family {
		for _, s := range sizes {
			names = append(names, law.Name+"-"+s.name)
		}
	}
	return names
}

// Load reads a data set from the data folder, or makes it.
func Load(data, name string) (*Set, error) {
	s := &Set{Name: name, Metric: vector.L2}
	var err error
	switch name {
	case "fashion-mnist", "mnist":
		err = s.idx(filepath.Join(data, name))
	case "glove-100d", "glove-100d-cosine":
		if err = s.glove(filepath.Join(data, "glove-100d")); err == nil && name == "glove-100d-cosine" {
			s.Metric = vector.Cosine
			for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
				Normalise(rows, s.Dim)
			}
		}
	case "wordnet", examples:
		s.Metric = vector.Cosine
		err = s.wordnet(filepath.Join(data, "wordnet"), name == examples)
	default:
		isText, textErr := s.text(data, name)
		if isText {
			err = textErr
			break
		}
		law, n, ok := Generated(name)
		if !ok {
			return nil, fmt.Errorf("%w: %s (want one of %s)", errSet, name, strings.Join(Names(), ", "))
		}
		g := NewGenerator(*law, 1)
		s.Dim, s.Base, s.Test, s.Valid = g.Dim(), g.Rows(1, n), g.Rows(2, QueryRows), g.Rows(3, QueryRows)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.Whole = wholeBytes(s.Base) && wholeBytes(s.Test) && wholeBytes(s.Valid)
	return s, nil
}

// idx reads MNIST's files: the corpus is the training part, the test queries
// are the first 1,000 test rows, validation the next 1,000.
func (s *Set) idx(dir string) (err error) {
	if s.Base, s.Dim, err = read(filepath.Join(dir, "train-images-idx3-ubyte.gz"), 0); err != nil {
		return err
	}
	q, _, err := read(filepath.Join(dir, "t10k-images-idx3-ubyte.gz"), 2*QueryRows)
	if err != nil {
		return err
	}
	s.Test, s.Valid = q[:QueryRows*s.Dim], q[QueryRows*s.Dim:]
	return nil
}

// glove reads the word vectors. There are 1,000 queries only, so 1,000 rows
// leave the corpus and are the validation queries; the file goes from frequent
// words to rare ones, so they are taken at equal steps, for the queries are a
// random part of all words.
func (s *Set) glove(dir string) error {
	all, dim, err := read(filepath.Join(dir, "base.npy.gz"), 0)
	if err != nil {
		return err
	}
	if s.Test, _, err = read(filepath.Join(dir, "queries.npy.gz"), QueryRows); err != nil {
		return err
	}
	s.Dim = dim
	s.Valid, err = s.leave(all, QueryRows)
	return err
}

// leave makes all rows the corpus but so many, at equal steps, which it returns.
func (s *Set) leave(all []float32, n int) (left []float32, err error) {
	step := len(all) / s.Dim / n
	if step < 2 {
		return nil, fmt.Errorf("too few rows: %d", len(all)/s.Dim)
	}
	for i := 0; i < len(all)/s.Dim; i++ {
		row := all[i*s.Dim : (i+1)*s.Dim]
		if i%step == step/2 && len(left) < n*s.Dim {
			left = append(left, row...)
		} else {
			s.Base = append(s.Base, row...)
		}
	}
	return left, nil
}

// examples is the set whose queries are example sentences of WordNet, which are unlike its rows.
const examples = "wordnet-examples"

// wordnet reads the embedded definitions. The queries are rows that leave the corpus, or the example
// sentences: the first 1,000 are test, the others validation queries.
func (s *Set) wordnet(dir string, sentences bool) error {
	all, dim, err := read(filepath.Join(dir, "rows.f16.npy.gz"), 0)
	if err != nil {
		return err
	}
	s.Dim = dim
	var queries []float32
	if sentences {
		s.Base = all
		queries, _, err = read(filepath.Join(dir, "queries.f16.npy.gz"), 2*QueryRows)
	} else {
		queries, err = s.leave(all, 2*QueryRows)
	}
	if err != nil {
		return err
	}
	for _, rows := range [][]float32{s.Base, queries} { // float16 has rounded the lengths
		Normalise(rows, dim)
	}
	s.Test, s.Valid = queries[:QueryRows*dim], queries[QueryRows*dim:]
	return nil
}

// read is all rows of a file, or the first max.
func read(path string, max int64) ([]float32, int, error) {
	r, err := dataset.Open(path, dataset.Options{Max: max})
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	var out []float32
	for rec, err := range dataset.All(r) {
		if err != nil {
			return nil, 0, err
		}
		out = append(out, rec.Vector...)
	}
	if max > 0 && int64(len(out)) != max*int64(r.Schema().Dim) {
		return nil, 0, fmt.Errorf("%s: fewer than %d rows", path, max)
	}
	return out, r.Schema().Dim, nil
}

func Normalise(rows []float32, dim int) {
	for at := 0; at < len(rows); at += dim {
		r := rows[at : at+dim]
		f := vector.InverseNorm(r)
		for j := range r {
			r[j] *= f
		}
	}
}

func wholeBytes(rows []float32) bool {
	for _, x := range rows {
		if x < 0 || x > 255 || x != float32(uint8(x)) {
			return false
		}
	}
	return true
}

// Quantised are the rows of a part of the set as bytes: lossless where they are
// whole bytes; otherwise one scale for all coordinates, which keeps the order
// of L2 distances but for rounding, from the range that holds all but one in
// 10,000 of the corpus's values.
func (s *Set) Quantised(rows []float32) []byte {
	lo, scale := float32(0), float32(1)
	if !s.Whole {
		var hi float32
		lo, hi = bulk(s.Base)
		scale = 255 / (hi - lo)
	}
	out := make([]byte, len(rows))
	for i, x := range rows {
		out[i] = byte(math.RoundToEven(float64(min(max((x-lo)*scale, 0), 255))))
	}
	return out
}

// bulk is the range that holds all but one in 10,000 values, found by a
// histogram.
func bulk(x []float32) (lo, hi float32) {
	lo, hi = x[0], x[0]
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	const bins = 1 << 16
	counts := make([]int, bins)
	step := (hi - lo) / (bins - 1)
	if step == 0 {
		return lo, lo + 1
	}
	for _, v := range x {
		counts[min(bins-1, int((v-lo)/step))]++
	}
	cut := len(x) / 20_000
	a, b := 0, bins-1
	for sum := counts[a]; sum <= cut; sum += counts[a] {
		a++
	}
	for sum := counts[b]; sum <= cut; sum += counts[b] {
		b--
	}
	return lo + float32(a)*step, lo + float32(b+1)*step
}

// Checksum identifies the rows, for files of a cache.
func (s *Set) Checksum() string {
	h := crc64.New(crc64.MakeTable(crc64.ECMA))
	for _, rows := range [][]float32{s.Base, s.Test, s.Valid} {
		h.Write(Raw(rows)) // a hash never fails
	}
	return fmt.Sprintf("%d %016x", s.Dim, h.Sum64())
}

// Raw is the memory of rows.
func Raw(rows []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&rows[0])), len(rows)*4)
}
