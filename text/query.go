package text

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Query is what a person has typed, read by an analyzer.
type Query struct {
	// Terms are the terms that count for the score, with those of required words and phrases; one
	// that is typed twice counts twice.
	Terms []string
	// A row must have each word and phrase of Required, and none of Excluded.
	Required, Excluded []Phrase
	// Left are words without a term: the analyzer leaves them out.
	Left []string
}

// Phrase is a word or several consecutive ones, as tokens with positions from 0 on.
type Phrase []Token

// ParseQuery reads a query: words, "phrases in quotes", +required and -excluded ones. A phrase is
// required unless it is excluded. A sign counts only in front of a word and after a space, and a quote
// without its end ends with the query.
func ParseQuery(s string, a Analyzer) (*Query, error) {
	if err := Check(s); err != nil {
		return nil, fmt.Errorf("the query has %w", err)
	}
	q := &Query{}
	parts(s, func(part string, sign byte, quoted bool) { q.add(part, sign, quoted, a) })
	if len(q.Terms) == 0 && len(q.Excluded) > 0 {
		return nil, errors.New("the query has only excluded words: add a word to search for")
	}
	return q, nil
}

// Plain returns a query without its signs, quotes and excluded words, as a model of sentences takes it.
func Plain(s string) string {
	var words []string
	parts(s, func(part string, sign byte, _ bool) {
		if sign != '-' {
			words = append(words, part)
		}
	})
	return strings.Join(words, " ")
}

// parts calls yield for the words and phrases of a query, with their signs.
func parts(s string, yield func(part string, sign byte, quoted bool)) {
	for s = trimSpace(s); s != ""; s = trimSpace(s) {
		var sign byte
		if (s[0] == '+' || s[0] == '-') && len(s) > 1 && !strings.ContainsRune(" \t+-", rune(s[1])) {
			sign, s = s[0], s[1:]
		}
		var part string
		quoted := s[0] == '"'
		if quoted {
			part, s, _ = strings.Cut(s[1:], `"`)
		} else if i := strings.IndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '"' }); i >= 0 {
			part, s = s[:i], s[i:]
		} else {
			part, s = s, ""
		}
		yield(part, sign, quoted)
	}
}

// add adds a word or phrase to a query.
func (q *Query) add(part string, sign byte, quoted bool, a Analyzer) {
	phrase := PhraseOf(part, a)
	switch {
	case len(phrase) == 0:
		if part != "" {
			q.Left = append(q.Left, part)
		}
		return
	case sign == '-':
		q.Excluded = append(q.Excluded, phrase)
		return
	case sign == '+' || quoted:
		q.Required = append(q.Required, phrase)
	}
	for _, t := range phrase {
		q.Terms = append(q.Terms, t.Term)
	}
}

func trimSpace(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) }

// PhraseOf returns the tokens of a text, with positions that count from the first one.
func PhraseOf(s string, a Analyzer) (p Phrase) {
	a(s, func(t Token) { p = append(p, t) })
	for i := len(p) - 1; i >= 0; i-- {
		p[i].Position -= p[0].Position
	}
	return p
}

// Terms returns the different terms of a phrase, ascending.
func (p Phrase) Terms() []string {
	out := make([]string, len(p))
	for i, t := range p {
		out[i] = t.Term
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// In reports whether a text has the phrase: all of its tokens, as far apart as in the phrase.
func (p Phrase) In(s string, a Analyzer) bool {
	// starts counts, for each position at which the phrase can start, the tokens that are there. A
	// token that the phrase has twice at one position counts twice there.
	starts := map[int]int{}
	a(s, func(t Token) {
		for _, want := range p {
			if want.Term == t.Term {
				starts[t.Position-want.Position]++
			}
		}
	})
	for _, n := range starts {
		if n >= len(p) {
			return true
		}
	}
	return len(p) == 0
}
