package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

// namedUnknown is how many unknown features a note names.
const namedUnknown = 10

// noteUnknown says which features of queries to a sparse collection no row of it
// ever had: they are in no row, and make queries less similar to all rows.
func noteUnknown(a *app, s *db.Snapshot, info db.CollectionInfo, queries []db.SparseQuery) error {
	if !info.Sparse || info.Live == 0 {
		return nil
	}
	all, unknown := map[string]bool{}, map[string]bool{}
	for _, q := range queries {
		for _, f := range q.Features {
			all[f.Name] = true
		}
		for _, f := range q.Sparse.Index {
			all[fmt.Sprint(f)] = true
		}
		names, err := s.UnknownFeatures(a.ctx, info.Name, q)
		if err != nil {
			return err
		}
		for _, name := range names {
			unknown[name] = true
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	names := make([]string, 0, len(unknown))
	for name := range unknown {
		names = append(names, name)
	}
	slices.Sort(names)
	more := ""
	if n := len(names) - namedUnknown; n > 0 {
		names, more = names[:namedUnknown], fmt.Sprintf(" and %d more", n)
	}
	verb := "is"
	if len(unknown) > 1 {
		verb = "are"
	}
	a.note("%d of %d features %s not known: %s%s", len(unknown), len(all), verb, strings.Join(names, ", "), more)
	return nil
}
