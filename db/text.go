package db

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/layout"
	"github.com/anndb/anndb/db/internal/rows"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// resolveText fills in the defaults of the texts of a schema and checks them.
func (s *Schema) resolveText() error {
	if s.Text == nil {
		return nil
	}
	if s.Sparse && !s.Named || s.Numbering != "" {
		return fmt.Errorf("%w: a collection of texts has no numbered features", fail.Option)
	}
	t := *s.Text
	t.Analyzer = cmp.Or(t.Analyzer, text.Words)
	t.K1, t.B = cmp.Or(t.K1, 1.2), cmp.Or(t.B, 0.75)
	s.Text, s.Sparse, s.Named = &t, true, true
	if _, err := analyzerOf(&t); err != nil {
		return err
	}
	return layout.CheckText(&t)
}

// analyzerOf returns the analyzer of a collection.
func analyzerOf(t *text.Schema) (text.Analyzer, error) {
	if a := text.ByName(t.Analyzer); a != nil {
		return a, nil
	}
	return nil, fmt.Errorf(
		"%w: no analyzer %q is registered: those of anndb are %q, a program registers its own "+
			"before it opens the database", fail.Option, t.Analyzer, text.Names())
}

// checkText checks the text of a row of a collection of texts.
func checkText(r *Row) error {
	switch {
	case r.Sparse.Len() > 0 || len(r.Features) > 0:
		return fmt.Errorf("%w: the collection is of texts, its features are their terms", fail.Kind)
	case len(r.Text) > rows.MaxText:
		return fmt.Errorf("%w: %d bytes, want at most %d: divide it into several rows", fail.Text, len(r.Text),
			rows.MaxText)
	}
	if err := text.Check(r.Text); err != nil {
		return fmt.Errorf("%w: %w", fail.Text, err)
	}
	return nil
}

// termsOf returns the different terms of a text, ascending, with their counts.
func termsOf(s string, t *text.Schema) ([]vector.Feature, error) {
	analyze, err := analyzerOf(t)
	if err != nil {
		return nil, err
	}
	var terms []string
	if t.Pairs == 0 {
		analyze(s, func(t text.Token) { terms = append(terms, t.Term) })
		return countTerms(terms)
	}
	tokens := text.PhraseOf(s, analyze)
	for _, t := range tokens {
		if strings.Contains(t.Term, pairSpace) {
			return nil, fmt.Errorf("%w: term %.40q of the analyzer has a space, and the collection has "+
				"pairs of words", fail.Text, t.Term)
		}
		terms = append(terms, t.Term)
	}
	return countTerms(appendPairs(terms, tokens))
}

// pairSpace is between the words of a pair, and in no other term of a collection with pairs.
const pairSpace = " "

// appendPairs appends a term for each two tokens at consecutive positions, unless it would be too long.
func appendPairs(terms []string, tokens text.Phrase) []string {
	for i, t := range tokens {
		for _, u := range tokens[i+1:] {
			if u.Position > t.Position+1 {
				break
			}
			if u.Position == t.Position+1 && len(t.Term)+len(u.Term) < rows.MaxKey {
				terms = append(terms, t.Term+pairSpace+u.Term)
			}
		}
	}
	return terms
}

// countTerms returns the different terms, ascending, with their counts.
func countTerms(terms []string) (out []vector.Feature, err error) {
	slices.Sort(terms)
	for i, t := range terms {
		switch {
		case i > 0 && t == terms[i-1]:
			f := &out[len(out)-1]
			f.Value = min(f.Value+1, math.MaxInt32)
		case t == "" || len(t) > rows.MaxKey || !utf8.ValidString(t):
			return nil, fmt.Errorf("%w: term %.40q of the analyzer, want 1 to %d bytes of UTF-8", fail.Text, t,
				rows.MaxKey)
		default:
			out = append(out, vector.Feature{Name: t, Value: 1})
		}
	}
	if len(out) > rows.MaxFeatures {
		return nil, fmt.Errorf("%w: %d different terms, want at most %d: divide it into several rows", fail.Text,
			len(out), rows.MaxFeatures)
	}
	return out, nil
}
