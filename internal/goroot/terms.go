package goroot

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/anndb/anndb/internal/lsa"
	"github.com/anndb/anndb/internal/par"
)

// Tokens appends the words of text to dst: runs of letters and digits that
// start with a letter, cut further at underscores and changes of case
// (ReadFile gives read and file; HTTPServer gives http and server), in lower
// case. Words of one letter are left out. O(len(text)).
func Tokens(dst []string, text string) []string {
	rs := []rune(text)
	for i := 0; i < len(rs); {
		if !unicode.IsLetter(rs[i]) {
			i++
			continue
		}
		j := i + 1
		for j < len(rs) && !wordEnds(rs, j) {
			j++
		}
		if j-i > 1 {
			dst = append(dst, strings.ToLower(string(rs[i:j])))
		}
		i = j
	}
	return dst
}

// wordEnds reports whether the word that reaches rs[j-1] ends before rs[j].
func wordEnds(rs []rune, j int) bool {
	prev, cur := rs[j-1], rs[j]
	switch {
	case !unicode.IsLetter(cur) && !unicode.IsDigit(cur):
		return true
	case unicode.IsUpper(cur) && !unicode.IsUpper(prev):
		return true
	case unicode.IsUpper(prev) && unicode.IsUpper(cur):
		// The last capital of a run belongs to the next word: HTTP|Server.
		return j+1 < len(rs) && unicode.IsLower(rs[j+1])
	}
	return false
}

// TFIDF weighs the terms of the documents (lsa.Matrix.Weigh). Terms in fewer than minDocs
// documents, or in more than the share maxShare of them, are left out. It returns the matrix
// (documents by terms) and the terms of its columns, which are in alphabetical order, so the
// result does not depend on the number of goroutines. A document without any kept term has an
// empty row.
func TFIDF(
	ctx context.Context, docs []Document, minDocs int, maxShare float64, workers int,
) (*lsa.Matrix, []string, error) {
	counts := make([]map[string]int, len(docs))
	work := par.Work{N: len(docs), Workers: workers}
	err := par.Each(ctx, work, func(i int) error {
		m := map[string]int{}
		for _, w := range Tokens(nil, docs[i].Text) {
			m[w]++
		}
		counts[i] = m
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	df := map[string]int{}
	for _, m := range counts {
		for w := range m {
			df[w]++
		}
	}
	most := int(maxShare * float64(len(docs)))
	var terms []string
	for w, n := range df {
		if n >= minDocs && n <= most {
			terms = append(terms, w)
		}
	}
	slices.Sort(terms)
	column := make(map[string]uint32, len(terms))
	for i, w := range terms {
		column[w] = uint32(i)
	}
	m := &lsa.Matrix{Rows: len(docs), Cols: len(terms), Ptr: make([]int, 1, len(docs)+1)}
	for _, words := range counts {
		from := len(m.Idx)
		for w := range words {
			if c, ok := column[w]; ok {
				m.Idx = append(m.Idx, c)
			}
		}
		slices.Sort(m.Idx[from:])
		for _, c := range m.Idx[from:] {
			m.Val = append(m.Val, float64(words[terms[c]]))
		}
		m.Ptr = append(m.Ptr, len(m.Idx))
	}
	m.Weigh()
	return m, terms, nil
}
