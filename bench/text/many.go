package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/anndb/anndb/bench/child"
	"github.com/anndb/anndb/bench/internal/process"
	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/text"
)

// many measures searches by three words among many short texts, and what it takes to index them. A text has
// as many words as a definition of WordNet, each drawn from those of all definitions; so has a query, three
// different ones that are no stop words.
func many(ctx context.Context, data, analyzer string, rows int) error {
	definitions, _, err := readTexts(filepath.Join(data, "wordnet"), "rows")
	if err != nil {
		return err
	}
	var words []string
	lengths := make([]int, len(definitions))
	for i, d := range definitions {
		w := strings.Fields(d.Text)
		lengths[i], words = len(w), append(words, w...)
	}
	scratch, err := os.MkdirTemp("", "text")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	path := filepath.Join(scratch, "t.anndb")
	start := time.Now()
	schema := db.Schema{Text: &text.Schema{Analyzer: analyzer}}
	built, err := load(ctx, path, schema, drawn(rows, lengths, words))
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	took := time.Since(start).Seconds()
	fmt.Printf("%d texts: stored and indexed in %.1f s, at most %.0f MB of memory; "+
		"file %.0f MB, index %.0f MB\n", rows, took, float64(process.Peak())/1e6,
		float64(info.Size())/1e6, float64(built[0].Bytes["postings"])/1e6)
	e := engine{}
	if err := e.open(ctx, path); err != nil {
		return err
	}
	queries, err := threeWords(1000, words, text.ByName(analyzer))
	if err != nil {
		return err
	}
	micros := make([]float64, len(queries))
	runtime.LockOSThread()
	for range 3 {
		for i, q := range queries {
			start := time.Now()
			if _, err := e.Search(ctx, q, 10); err != nil {
				return err
			}
			if t := time.Since(start).Seconds() * 1e6; micros[i] == 0 || t < micros[i] {
				micros[i] = t
			}
		}
	}
	slices.Sort(micros)
	fmt.Printf("three words, k = 10: median %.0f µs, p99 %.0f µs\n",
		micros[len(micros)/2], micros[len(micros)*99/100])
	return e.Close()
}

// drawn yields texts of words that are drawn.
func drawn(rows int, lengths []int, words []string) iter.Seq[child.Document] {
	return func(yield func(child.Document) bool) {
		rng := rand.New(rand.NewPCG(1, 1))
		var one []string
		for range rows {
			one = one[:0]
			for range lengths[rng.IntN(len(lengths))] {
				one = append(one, words[rng.IntN(len(words))])
			}
			if !yield(child.Document{Text: strings.Join(one, " ")}) {
				return
			}
		}
	}
}

// threeWords returns n queries of three different terms.
func threeWords(n int, words []string, by text.Analyzer) (out []child.Document, err error) {
	rng := rand.New(rand.NewPCG(2, 2))
	for range n {
		var one, terms []string
		for tries := 0; len(one) < 3; tries++ {
			if tries > 1000 {
				return nil, errors.New("the definitions have fewer than three words")
			}
			w := words[rng.IntN(len(words))]
			if p := text.PhraseOf(w, by); len(p) == 1 && !slices.Contains(terms, p[0].Term) {
				one, terms = append(one, w), append(terms, p[0].Term)
			}
		}
		out = append(out, child.Document{Text: strings.Join(one, " ")})
	}
	return out, nil
}
