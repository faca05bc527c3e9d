package goroot

import (
	"context"
	"math"
	"slices"
	"strings"
	"unicode"

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

// Sparse is a matrix of Rows x Cols by compressed rows: the entries of row i
// are Idx and Val [Ptr[i], Ptr[i+1]), columns ascending.
type Sparse struct {
	Rows, Cols int
	Ptr        []int
	Idx        []uint32
	Val        []float64
}

// transpose returns the matrix with rows and columns exchanged. O(entries).
func (s *Sparse) transpose() *Sparse {
	t := &Sparse{
		Rows: s.Cols, Cols: s.Rows, Ptr: make([]int, s.Cols+1),
		Idx: make([]uint32, len(s.Idx)), Val: make([]float64, len(s.Val)),
	}
	for _, c := range s.Idx {
		t.Ptr[c+1]++
	}
	for c := range s.Cols {
		t.Ptr[c+1] += t.Ptr[c]
	}
	at := slices.Clone(t.Ptr)
	for r := range s.Rows {
		for k := s.Ptr[r]; k < s.Ptr[r+1]; k++ {
			c := s.Idx[k]
			t.Idx[at[c]], t.Val[at[c]] = uint32(r), s.Val[k]
			at[c]++
		}
	}
	return t
}

// TFIDF weighs the terms of the documents: (1 + ln tf)·ln(N/df), every row
// scaled to length one. Terms in fewer than minDocs documents, or in more than
// the share maxShare of them, are left out. It returns the matrix (documents
// by terms) and the terms of its columns, which are in alphabetical order, so
// the result does not depend on the number of goroutines. A document without
// any kept term has an empty row.
func TFIDF(
	ctx context.Context, docs []Document, minDocs int, maxShare float64, workers int,
) (*Sparse, []string, error) {
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
	type entry struct {
		col uint32
		val float64
	}
	rows := make([][]entry, len(docs))
	err = par.Each(ctx, work, func(i int) error {
		var row []entry
		for w, tf := range counts[i] {
			if c, ok := column[w]; ok {
				idf := math.Log(float64(len(docs)) / float64(df[w]))
				row = append(row, entry{c, (1 + math.Log(float64(tf))) * idf})
			}
		}
		slices.SortFunc(row, func(a, b entry) int { return int(a.col) - int(b.col) })
		var norm float64
		for _, e := range row {
			norm += e.val * e.val
		}
		for k := range row {
			row[k].val /= math.Sqrt(norm)
		}
		rows[i] = row
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	s := &Sparse{Rows: len(docs), Cols: len(terms), Ptr: make([]int, 1, len(docs)+1)}
	for _, row := range rows {
		for _, e := range row {
			s.Idx, s.Val = append(s.Idx, e.col), append(s.Val, e.val)
		}
		s.Ptr = append(s.Ptr, len(s.Idx))
	}
	return s, terms, nil
}
