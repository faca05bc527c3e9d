package input

import (
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
type UnknownFeatures struct{ all, unknown map[string]bool }

// Add counts the features of a query and those that its answer lists as unknown.
func (u *UnknownFeatures) Add(info db.CollectionInfo, q db.Query, unknown []string) {
	if !info.Sparse || info.Live == 0 {
		return
	}
	if u.all == nil {
		u.all, u.unknown = map[string]bool{}, map[string]bool{}
	}
	for _, f := range q.Features {
		u.all[f.Name] = true
	}
	for _, f := range q.Sparse.Index {
		u.all[fmt.Sprint(f)] = true
	}
	for _, name := range unknown {
		u.unknown[name] = true
	}
}

// Note writes what was found, if anything.
func (u *UnknownFeatures) Note(a *command.App) {
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
	a.Note("%d of %d features %s not known: %s%s",
		len(u.unknown), len(u.all), verb, strings.Join(names, ", "), more)
}
