package db

import (
	"context"
	"fmt"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/anndb/anndb/db/internal/fail"
	"github.com/anndb/anndb/db/internal/kind"
	"github.com/anndb/anndb/db/internal/state"
	"github.com/anndb/anndb/text"
	"github.com/anndb/anndb/vector"
)

// words are the words and phrases that rows must have, or must not have.
type words struct {
	analyze            text.Analyzer
	required, excluded []text.Phrase
}

// textQuery sets the terms of a query, how often it has each, and its required and excluded words.
func textQuery(st *state.Collection, a *rowAsk) error {
	analyze, err := analyzerOf(st.Entry.Text)
	if err != nil {
		return err
	}
	if a.group != nil && a.group.Stored {
		if a.terms, err = termsOf(a.q.Text, st.Entry.Text); err == nil {
			a.features, err = numberFeatures(st, a.terms)
		}
		return err
	}
	q, err := text.ParseQuery(a.q.Text, analyze)
	if err != nil {
		return fmt.Errorf("%w: %w", fail.Text, err)
	}
	known, err := countTerms(q.Terms)
	if err != nil {
		return err
	}
	if st.Entry.Text.Pairs > 0 {
		pairs, err := countTerms(appendPairs(nil, text.PhraseOf(text.Plain(a.q.Text), analyze)))
		if err != nil {
			return err
		}
		for _, t := range pairs { // of which many are in no row
			_, ok, err := st.FeatureNumber(t.Name)
			if err != nil {
				return err
			}
			if a.group != nil && a.group.Terms != nil && !ok {
				_, ok = a.group.Terms.Have[t.Name]
			}
			if ok {
				known = append(known, t)
			}
		}
	}
	a.words, a.terms = words{analyze, q.Required, q.Excluded}, known
	a.features, err = numberFeatures(st, known)
	return err
}

// pairsOf returns the features of a query that are pairs of words, ascending.
func pairsOf(st *state.Collection, x vector.Sparse) (pairs []uint32, err error) {
	for _, f := range x.Index {
		if int(f) >= st.Entry.Features {
			break
		}
		name, err := st.FeatureName(f)
		if err != nil {
			return nil, err
		}
		if strings.Contains(name, pairSpace) {
			pairs = append(pairs, f)
		}
	}
	return pairs, nil
}

// restrict leaves only those rows to be found that have the required words of a text, and none of the
// excluded ones.
func (a *rowAsk) restrict(ctx context.Context, st *state.Collection) error {
	w := &a.words
	if len(w.required)+len(w.excluded) == 0 {
		return nil
	}
	rows := a.passing.Set
	for _, p := range w.required {
		with, err := w.rowsWith(ctx, st, p, rows)
		if err != nil {
			return err
		}
		rows = with
	}
	for _, p := range w.excluded {
		with, err := w.rowsWith(ctx, st, p, rows)
		if err != nil {
			return err
		}
		if rows == nil {
			rows = roaring.New()
			rows.AddRange(0, uint64(st.Entry.Rows))
		}
		rows = roaring.AndNot(rows, with)
	}
	a.passing.Set = rows
	return nil
}

// rowsWith returns the rows, among some, that have a word or phrase; nil is all rows. The rows that have all
// words of a phrase are read.
func (w *words) rowsWith(
	ctx context.Context, st *state.Collection, p text.Phrase, among *roaring.Bitmap,
) (*roaring.Bitmap, error) {
	rows := among
	for _, term := range p.Terms() {
		f, known, err := st.FeatureNumber(term)
		if err != nil || !known {
			return roaring.New(), err
		}
		with, err := rowsOfTerm(ctx, st, f)
		if err != nil {
			return nil, err
		}
		if rows != nil {
			with.And(rows)
		}
		rows = with
	}
	if len(p) == 1 {
		return rows, nil
	}
	var run *state.ColdRun
	out := roaring.New()
	for it := rows.Iterator(); it.HasNext(); {
		if ctx.Err() != nil {
			return nil, fail.Wrapf(ctx.Err(), "search %q", st.Entry.Name)
		}
		row := it.Next()
		cold, err := st.Cold(row, &run)
		if err != nil {
			return nil, err
		}
		if p.In(cold.Text, w.analyze) {
			out.Add(row)
		}
	}
	return out, nil
}

// rowsOfTerm returns the rows that have a term, in a set that the caller may change.
func rowsOfTerm(ctx context.Context, st *state.Collection, term uint32) (*roaring.Bitmap, error) {
	x, _, err := st.Finder(ctx, "", true)
	if err != nil {
		return nil, err
	}
	return x.(kind.TermFinder).RowsWith(ctx, term)
}
