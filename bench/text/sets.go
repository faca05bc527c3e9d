package main

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/dataset"
	"github.com/anndb/anndb/text"
)

// set is a collection of texts, and queries.
type set struct {
	name          string
	rows, queries []child.Document
	// right has the row that each query belongs to, where one does.
	right []uint32
}

// wordnet reads the definitions of WordNet, and the example sentences that belong to them.
func wordnet(data string) (*set, error) {
	folder := filepath.Join(data, "wordnet")
	rows, keys, err := read(folder, "rows")
	if err != nil {
		return nil, err
	}
	queries, belong, err := read(folder, "queries")
	if err != nil {
		return nil, err
	}
	number := make(map[string]uint32, len(keys))
	for i, k := range keys {
		number[k] = uint32(i)
	}
	s := &set{name: "WordNet", rows: rows, queries: queries}
	for _, k := range belong {
		s.right = append(s.right, number[k])
	}
	return s, nil
}

// read reads texts, their vectors and their keys.
func read(folder, name string) (out []child.Document, keys []string, err error) {
	if out, keys, err = readTexts(folder, name); err != nil {
		return nil, nil, err
	}
	vectors, err := dataset.Open(filepath.Join(folder, name+".f16.npy.gz"), dataset.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer vectors.Close()
	for i := range out {
		var v dataset.Record
		if err := vectors.Read(&v); err != nil {
			return nil, nil, err
		}
		out[i].Vector = v.Vector
	}
	return out, keys, nil
}

// readTexts reads texts and their keys.
func readTexts(folder, name string) (out []child.Document, keys []string, err error) {
	texts, err := dataset.Open(filepath.Join(folder, name+".jsonl.gz"), dataset.Options{
		Kind: dataset.Text, IgnoreColumns: []string{"words", "labels"},
	})
	if err != nil {
		return nil, nil, err
	}
	defer texts.Close()
	for rec, err := range dataset.All(texts) {
		if err != nil {
			return nil, nil, err
		}
		out, keys = append(out, child.Document{Text: rec.Text}), append(keys, string(rec.Key))
	}
	return out, keys, nil
}

// counted are sets of counts of terms. Their texts are made up: each term as often as it is counted, by its
// name, or by its number where there are no names. A query has five terms of a test document.
var counted = []countedSet{
	{"20 Newsgroups", "news20-bydate/news20-bydate-train.txt.gz", "news20-bydate/news20-bydate-test.txt.gz",
		""},
	{"EURLEX57K", "eurlex57k/eurlex57k-train.txt.gz", "eurlex57k/eurlex57k-test.txt.gz",
		"eurlex57k/vocabulary.txt.gz"},
}

type countedSet struct{ name, rows, queries, names string }

func ofCounts(data, name string) (s *set, err error) {
	at := slices.IndexFunc(counted, func(c countedSet) bool { return c.name == name })
	if at < 0 {
		return nil, fmt.Errorf("no set %q", name)
	}
	of := counted[at]
	s = &set{name: name}
	var names []string
	if of.names != "" {
		if names, err = dataset.ReadNames(filepath.Join(data, of.names), 1); err != nil {
			return nil, err
		}
	}
	word := func(f uint32) string {
		if int(f) < len(names) {
			return names[f]
		}
		return fmt.Sprint("t", f)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, part := range []struct {
		file string
		most int64
		add  func(terms []uint32, counts []float32)
	}{
		{of.rows, 0, func(terms []uint32, counts []float32) {
			var b strings.Builder
			for j, f := range terms {
				b.WriteString(strings.Repeat(word(f)+" ", int(counts[j])))
			}
			s.rows = append(s.rows, child.Document{Text: b.String()})
		}},
		{of.queries, 1000, func(terms []uint32, _ []float32) {
			var words []string
			for _, j := range rng.Perm(len(terms))[:min(5, len(terms))] {
				words = append(words, word(terms[j]))
			}
			s.queries = append(s.queries, child.Document{Text: strings.Join(words, " ")})
		}},
	} {
		r, err := dataset.Open(filepath.Join(data, part.file),
			dataset.Options{Kind: dataset.Sparse, Max: part.most})
		if err != nil {
			return nil, err
		}
		defer r.Close()
		for rec, err := range dataset.All(r) {
			if err != nil {
				return nil, err
			}
			part.add(rec.Features.Index, rec.Features.Value)
		}
	}
	return s, nil
}

// analyze sets the terms of documents.
func analyze(documents []child.Document, by text.Analyzer) {
	for i := range documents {
		d := &documents[i]
		by(d.Text, func(t text.Token) { d.Terms = append(d.Terms, t.Term) })
	}
}

// reference scores rows by BM25, straight from its definition.
type reference struct {
	rows    []child.Document
	with    map[string]map[uint32]float64 // how often rows have a term
	n, mean float64                       // of rows with terms
}

func newReference(rows []child.Document) *reference {
	r := &reference{rows: rows, with: map[string]map[uint32]float64{}}
	for i, row := range rows {
		for _, t := range row.Terms {
			if r.with[t] == nil {
				r.with[t] = map[uint32]float64{}
			}
			r.with[t][uint32(i)]++
		}
		if len(row.Terms) > 0 {
			r.n++
			r.mean += float64(len(row.Terms))
		}
	}
	r.mean /= r.n
	return r
}

// scores returns the score of each row that has a term of a query.
func (r *reference) scores(q child.Document) map[uint32]float64 {
	const k1, b = 1.2, 0.75
	out := map[uint32]float64{}
	for _, t := range q.Terms {
		have := float64(len(r.with[t]))
		weight := math.Log1p((r.n - have + 0.5) / (have + 0.5))
		for row, n := range r.with[t] {
			length := float64(len(r.rows[row].Terms))
			out[row] += weight * n * (k1 + 1) / (n + k1*(1-b+b*length/r.mean))
		}
	}
	return out
}

// right reports whether found are the k best rows by the scores, up to ties.
func right(found []child.Found, scores map[uint32]float64, k int) bool {
	best := make([]float64, 0, len(scores))
	for _, s := range scores {
		best = append(best, s)
	}
	slices.SortFunc(best, func(x, y float64) int { return cmp.Compare(y, x) })
	best = best[:min(k, len(best))]
	if len(found) != len(best) {
		return false
	}
	seen := map[uint32]bool{}
	for i, f := range found {
		if seen[f.Row] || math.Abs(scores[f.Row]-best[i]) > 1e-6*best[i] {
			return false
		}
		seen[f.Row] = true
	}
	return true
}
