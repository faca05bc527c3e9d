package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

// namedUnknown is how many unknown features a note names.
const namedUnknown = 10

// unknownFeatures collects which features of queries to a sparse collection no row of
// it ever had: they are in no row, and make queries less similar to all rows.
type unknownFeatures struct{ all, unknown map[string]bool }

// add looks at a query.
func (u *unknownFeatures) add(a *app, s *db.Snapshot, info db.CollectionInfo, q db.SparseQuery) error {
	if !info.Sparse || info.Live == 0 {
		return nil
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
	names, err := s.UnknownFeatures(a.ctx, info.Name, q)
	for _, name := range names {
		u.unknown[name] = true
	}
	return err
}

// note writes what was found, if anything.
func (u *unknownFeatures) note(a *app) {
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
	a.note("%d of %d features %s not known: %s%s", len(u.unknown), len(u.all), verb, strings.Join(names, ", "), more)
}
