package input

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/cmd/anndb/internal/command"
	"github.com/anndb/anndb/db"
)

// namedUnknown is how many unknown features a note names.
const namedUnknown = 10

// UnknownFeatures collects which features of queries to a sparse collection no row of
// it ever had: they are in no row, and make queries less similar to all rows.
type UnknownFeatures struct {
	all, unknown map[string]bool
	what         string // feature or word
	wordless     int    // queries by texts without a term
}

// Add counts the features of a query and those that its answer lists as unknown.
func (u *UnknownFeatures) Add(info db.CollectionInfo, q db.Query, unknown []string) {
	if !info.Sparse || info.Live == 0 {
		return
	}
	if u.all == nil {
		u.all, u.unknown, u.what = map[string]bool{}, map[string]bool{}, "feature"
	}
	if info.Text != nil {
		u.what = "word"
	}
	terms := Terms(q.Text, info)
	if info.Text != nil && q.Key == nil && (q.Text != "" || q.Vector == nil) && len(terms) == 0 {
		u.wordless++
	}
	maps.Copy(u.all, terms)
	for _, f := range q.Features {
		u.all[f.Name] = true
	}
	for _, f := range q.Sparse.Index {
		u.all[fmt.Sprint(f)] = true
	}
	var words map[string]string
	if len(unknown) > 0 {
		words = typed(q.Text, info)
	}
	for _, name := range unknown {
		u.unknown[cmp.Or(words[name], name)] = true
	}
}

// Note writes what was found, if anything.
func (u *UnknownFeatures) Note(a *command.App) {
	if u.wordless > 0 {
		a.Note("queries without a word that the analyzer keeps: %d", u.wordless)
	}
	if len(u.unknown) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(u.unknown))
	more := ""
	if n := len(names) - namedUnknown; n > 0 {
		names, more = names[:namedUnknown], fmt.Sprintf(" and %d more", n)
	}
	verb := "is"
	if len(u.unknown) > 1 {
		verb = "are"
	}
	a.Note("%d of %d %ss %s not known: %s%s",
		len(u.unknown), len(u.all), u.what, verb, strings.Join(names, ", "), more)
}
