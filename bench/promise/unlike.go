package main

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/anndb/anndb/db"
	"github.com/anndb/anndb/db/maintenance"
)

// Queries that are unlike the rows may be short until some of them were sampled and measured: those before by at
// most unlikeFirst, others by unlikeThen.
const (
	firstQueries            = 200
	unlikeFirst, unlikeThen = 0.04, 0.01
	// wordRows is the least number of rows with a required word.
	wordRows = 20
)

func (b *bench) unlikeRows() bool {
	return b.set.Name == unlikeSet || strings.HasSuffix(b.set.Name, mixedSuffix)
}

// unlike measures the first queries with the default options, and the others after maintenance.
func (b *bench) unlike(ctx context.Context) error {
	first, others := b.asked[:firstQueries], b.asked[firstQueries:]
	b.asked = first
	if b.only.MatchString("first") {
		if err := b.measure(ctx, scenario{name: "first 200", restrict: everything}, unlikeFirst); err != nil {
			return err
		}
	}
	if err := b.reopen(ctx, &db.Options{Maintenance: &maintenance.Policy{Manual: true}}); err != nil {
		return err
	}
	if err := b.use(ctx, first); err != nil {
		return err
	}
	if _, err := b.d.Maintain(ctx, 0, nil); err != nil {
		return err
	}
	if err := b.reopen(ctx, manual()); err != nil {
		return err
	}
	b.asked = others
	for _, s := range append([]scenario{{name: "then", restrict: everything}}, b.hybrid()...) {
		if b.only.MatchString(s.name) {
			if err := b.measure(ctx, s, unlikeThen); err != nil {
				return err
			}
		}
	}
	return nil
}

// reopen opens the database with other options.
func (b *bench) reopen(ctx context.Context, o *db.Options) (err error) {
	if err = b.d.Close(); err != nil {
		return err
	}
	if b.d, err = db.Open(ctx, b.path, o); err == nil {
		b.rows = b.d.Collection("rows")
	}
	return err
}

// hybrid returns the scenarios of queries with a text after the first ones: all its words, or one that is
// required.
func (b *bench) hybrid() []scenario {
	if b.texts[1] == nil {
		return nil
	}
	rows := map[string]int{}
	for _, text := range b.texts[0] {
		words := wordsOf(text)
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			rows[w]++
		}
	}
	text := func(i int) string { return strings.Join(wordsOf(b.texts[1][firstQueries+i]), " ") }
	word := func(i int) string { // the rarest one of those that enough rows have
		best := "person"
		for _, w := range wordsOf(b.texts[1][firstQueries+i]) {
			if n := rows[w]; n >= wordRows && n < rows[best] {
				best = w
			}
		}
		return "+" + best
	}
	return []scenario{
		{name: "vector and text", restrict: everything, text: text},
		{name: "+word", restrict: everything, text: word},
	}
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}
